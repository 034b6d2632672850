//! The records of the sessions, from which they come back on the phone.

use std::env;
use std::fs;
use std::process;

use super::Check;
use crate::collie::FileRecords;
use crate::link::StatusResult;
use crate::os::folders;

const NAME: &str = "records";
const TODO: &str =
    "make room there, and the folder yours alone and writable; then start the agent again";

pub(super) fn check(presence: Option<&StatusResult>) -> Check {
    if let Some(presence) = presence {
        let records = presence.records.as_ref();
        return match records.map(|records| (&records.folder, &records.off)) {
            Some((_, Some(why))) => off(why),
            Some((Some(folder), None)) => kept(folder),
            _ => Check::note(NAME, "off, as the agent wants it", "after a restart it begins anew"),
        };
    }
    let Some(state) = folders::state(|name| env::var_os(name)) else {
        return Check::fix(
            NAME,
            "there is no folder for them: neither XDG_STATE_HOME nor HOME is an absolute path",
            "set one of them",
        );
    };
    let folder = state.join("collie");
    // As an agent's would be, to find what would be in their way.
    let tried = folder.join(format!("doctor-{}", process::id()));
    let opened = FileRecords::open(&tried).map(drop);
    let opened = opened.and_then(|()| fs::remove_dir_all(&tried));
    match opened {
        Ok(()) => kept(&folder.display().to_string()),
        Err(error) => off(&format!("{}: {error}", folder.display())),
    }
}

fn kept(folder: &str) -> Check {
    Check::ok(NAME, format!("sessions are kept in {folder}"))
}

fn off(why: &str) -> Check {
    Check::fix(NAME, format!("sessions are kept in memory only: {why}"), TODO)
}
