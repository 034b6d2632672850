//! Are we in a pane of Herdr, and in which?

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What the variables of a process say about Herdr (H001).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detection {
    /// In a pane of Herdr.
    Inside(Environment),
    /// Not in Herdr.
    Outside,
    /// Some of Herdr's variables are there and one that is needed is not, as in a child of a wrapped
    /// agent. Nothing is reported; `doctor` names the variable.
    Incomplete {
        /// The first variable that is missing, empty or unusable.
        missing: &'static str,
    },
}

/// The pane that we are in, and the ways to its Herdr.
///
/// ```
/// use agent_presence::herdr::{Detection, Environment};
/// match Environment::detect() {
///     Detection::Inside(environment) => println!("in the pane {}", environment.pane_id()),
///     Detection::Incomplete { missing } => println!("Herdr is near, but {missing} is missing"),
///     _ => println!("not in Herdr"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pane_id: String,
    socket_path: PathBuf,
    binary: Option<PathBuf>,
    session: Option<String>,
}

impl Environment {
    /// Looks at the variables of this process.
    pub fn detect() -> Detection {
        Self::from_lookup(|name| env::var_os(name))
    }

    /// Looks at the variables that `lookup` gives, by name. An empty value counts as missing.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Detection {
        let value = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let text = |name: &str| value(name).and_then(|value| value.into_string().ok());
        let pane_id = text("HERDR_PANE_ID").filter(|id| is_usable_pane_id(id));
        if text("HERDR_ENV").as_deref() != Some("1") {
            return match pane_id {
                Some(_) => Detection::Incomplete { missing: "HERDR_ENV" },
                None => Detection::Outside,
            };
        }
        let Some(pane_id) = pane_id else {
            return Detection::Incomplete { missing: "HERDR_PANE_ID" };
        };
        let Some(socket_path) = value("HERDR_SOCKET_PATH") else {
            return Detection::Incomplete { missing: "HERDR_SOCKET_PATH" };
        };
        Detection::Inside(Self {
            pane_id,
            socket_path: socket_path.into(),
            binary: value("HERDR_BIN_PATH").map(PathBuf::from),
            session: text("HERDR_SESSION"),
        })
    }

    /// An environment given by hand: the pane's id and the socket of its server.
    pub fn new(pane_id: impl Into<String>, socket_path: impl Into<PathBuf>) -> Self {
        Self {
            pane_id: pane_id.into(),
            socket_path: socket_path.into(),
            binary: None,
            session: None,
        }
    }

    /// Names Herdr's program. Without it, or when it is not there, `herdr` on `PATH` is used.
    pub fn with_binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// Names Herdr's session, as `HERDR_SESSION` does in a named one.
    pub fn with_session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// The pane's id: opaque, such as `w1:p1`.
    pub fn pane_id(&self) -> &str {
        &self.pane_id
    }

    /// The socket of the pane's server.
    pub fn socket_path(&self) -> &Path {
        &self.socket_path
    }

    /// The folder of the pane's session: that of its socket (H092).
    pub fn session_folder(&self) -> Option<&Path> {
        self.socket_path.parent()
    }

    /// The name of Herdr's session, in a named one.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Herdr's program by its absolute path: `HERDR_BIN_PATH` when it can be run, else `herdr` on
    /// `PATH` (H002). None: there is no CLI to fall back on.
    pub fn program(&self) -> Option<PathBuf> {
        let folder = env::current_dir().ok()?;
        self.binary
            .as_deref()
            .and_then(|binary| which::which_in(binary, None::<&str>, &folder).ok())
            .or_else(|| which::which("herdr").ok())
    }

    /// The variables that lead Herdr's CLI to this pane's server. None: it must not be there, even if we
    /// inherited it, for it would lead to another server.
    pub(crate) fn variables(&self) -> [(&'static str, Option<OsString>); 4] {
        [
            ("HERDR_ENV", Some("1".into())),
            ("HERDR_PANE_ID", Some(self.pane_id.clone().into())),
            ("HERDR_SOCKET_PATH", Some(self.socket_path.clone().into())),
            ("HERDR_SESSION", self.session.clone().map(OsString::from)),
        ]
    }
}

/// The id goes to the CLI as its first word: one that looks like an option, or that no program could be
/// given, is none.
fn is_usable_pane_id(id: &str) -> bool {
    !id.starts_with('-') && !id.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: [(&str, &str); 4] = [
        ("HERDR_ENV", "1"),
        ("HERDR_PANE_ID", "w1:pG"),
        ("HERDR_SOCKET_PATH", "/run/herdr.sock"),
        ("HERDR_SESSION", "work"),
    ];

    fn detect(variables: &[(&str, &str)]) -> Detection {
        Environment::from_lookup(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn a_full_set_is_inside() {
        let expected = Environment::new("w1:pG", "/run/herdr.sock").with_session("work");
        assert_eq!(detect(&FULL), Detection::Inside(expected));
    }

    #[test]
    fn none_is_outside() {
        assert_eq!(detect(&[]), Detection::Outside);
        assert_eq!(detect(&[("HERDR_ENV", "0")]), Detection::Outside);
        assert_eq!(detect(&[("HERDR_SOCKET_PATH", "/x")]), Detection::Outside);
    }

    #[test]
    fn a_half_set_names_the_first_variable_that_is_missing() {
        for missing in ["HERDR_ENV", "HERDR_PANE_ID", "HERDR_SOCKET_PATH"] {
            let without: Vec<_> = FULL.into_iter().filter(|(name, _)| *name != missing).collect();
            assert_eq!(detect(&without), Detection::Incomplete { missing });
            let empty: Vec<_> = FULL
                .into_iter()
                .map(|(name, value)| (name, if name == missing { "" } else { value }))
                .collect();
            assert_eq!(detect(&empty), Detection::Incomplete { missing });
        }
    }

    #[test]
    fn a_pane_id_that_no_cli_could_take_is_missing() {
        for id in ["-x", "w1\u{0}p1", "w1\np1"] {
            let mut variables = FULL;
            variables[1].1 = id;
            assert_eq!(detect(&variables), Detection::Incomplete { missing: "HERDR_PANE_ID" });
        }
    }

    #[test]
    fn a_stale_program_falls_back_on_the_path() {
        let shell = which::which("sh").unwrap();
        let environment = Environment::new("w1:p1", "/x").with_binary(&shell);
        assert_eq!(environment.program(), Some(shell));
        let stale = Environment::new("w1:p1", "/x").with_binary("/nope/herdr");
        assert_eq!(stale.program(), which::which("herdr").ok());
    }
}
