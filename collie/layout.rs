//! Workspaces, tabs, and the making of panes.

use super::clean::{self, LABEL_LIMIT, Limit};
use super::core::Core;
use super::id::{check_id, check_part_id};
use super::pane::{Pane, PaneOptions};
use super::rule::RuleError;
use super::wire::ActionView;

/// The icons that Collie knows (N057).
const ICONS: [&str; 12] = [
    "play", "pause", "check", "x", "refresh", "archive", "flag", "star", "send", "note", "search",
    "more",
];

/// A workspace of the layout.
#[derive(Clone, Debug)]
pub struct Workspace {
    core: Core,
    id: String,
    title: String,
}

/// A tab of a workspace.
#[derive(Clone, Debug)]
pub struct Tab {
    workspace: Workspace,
    /// `<workspace>:<tab>`.
    id: String,
    title: String,
}

impl Workspace {
    pub(crate) fn place(core: Core, id: String, title: &str) -> Result<Self, RuleError> {
        check_part_id("workspace id", &id)?;
        let title = clean::line(title, Limit::Bytes(256)).text;
        core.edit(|edit| edit.place_workspace(&id, &title));
        Ok(Self { core, id, title })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tab of this id; it is made if there is none.
    ///
    /// # Errors
    /// The id breaks its rule.
    pub fn tab(&self, id: impl AsRef<str>, title: impl AsRef<str>) -> Result<Tab, RuleError> {
        let id = id.as_ref();
        check_part_id("tab id", id)?;
        let id = format!("{}:{id}", self.id);
        check_id("tab id", &id)?;
        let title = clean::line(title.as_ref(), Limit::Bytes(256)).text;
        let tab = Tab { workspace: self.clone(), id, title };
        tab.place();
        Ok(tab)
    }
}

impl Tab {
    /// Its id, `<workspace>:<tab>` (N051).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The pane of this id; it is made if there is none, and given as it is if there is one, in
    /// whichever tab (N045).
    ///
    /// # Errors
    /// An id breaks its rule.
    pub fn pane(&self, id: impl AsRef<str>, options: PaneOptions) -> Result<Pane, RuleError> {
        self.place();
        Pane::place(self.workspace.core.clone(), id.as_ref(), &self.workspace.id, &self.id, options)
    }

    /// Puts the tab and its workspace there, also when somebody has closed them since.
    fn place(&self) {
        let workspace = &self.workspace;
        workspace.core.edit(|edit| {
            edit.place_workspace(&workspace.id, &workspace.title);
            edit.place_tab(&workspace.id, &self.id, &self.title);
        });
    }
}

/// Buttons with their labels cut, and without icons that Collie does not know (N058).
pub(crate) fn checked_buttons(
    place: &'static str,
    buttons: Vec<ActionView>,
) -> Result<Vec<ActionView>, RuleError> {
    let checked = buttons.into_iter().map(|button| {
        check_id(place, &button.id)?;
        Ok(ActionView {
            label: clean::line(&button.label, LABEL_LIMIT).text,
            icon: button.icon.filter(|icon| ICONS.contains(&icon.as_str())),
            id: button.id,
        })
    });
    checked.collect()
}

impl ActionView {
    /// A button without an icon.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), icon: None }
    }

    /// With an icon: play, pause, check, x, refresh, archive, flag, star, send, note, search or
    /// more (N057). Another name shows none (N058).
    pub fn icon(self, icon: impl Into<String>) -> Self {
        Self { icon: Some(icon.into()), ..self }
    }
}
