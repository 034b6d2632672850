//! Whether a restored shell finds this program.
//!
//! Herdr types the resume command into a new login shell, so our name has to be on the `PATH` of one. Asking
//! a login shell would run the user's files, which may take seconds, print, or start programs. The `PATH`
//! of this process tells nearly as much: it is that of a login shell, but for what has been added since.
//! Folders that are known to be added for a while are not counted: those of a Python environment, of
//! direnv's folder, of `node_modules`, and of a Nix shell. The folders that every login shell has are.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Our name, as it is typed.
pub(super) const PROGRAM: &str = "agent-presence";

/// Folders that every login shell has.
const EVERY_LOGIN: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Where a login shell finds us. None: it would say "command not found".
pub(super) fn program() -> Option<PathBuf> {
    program_by(|name| env::var_os(name))
}

fn program_by(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    let lasting = env::split_paths(&path)
        .filter(|folder| folder.is_absolute() && !is_temporary(folder, &variable));
    let folders = lasting.chain(EVERY_LOGIN.map(PathBuf::from));
    let path = env::join_paths(folders).ok()?;
    which::which_in_global(PROGRAM, Some(path)).ok()?.next()
}

fn is_temporary(folder: &Path, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let below = |name: &str| {
        let root = variable(name).filter(|root| !root.is_empty());
        root.is_some_and(|root| {
            // direnv writes a dash in front of its folder.
            let root = root
                .to_str()
                .map_or(PathBuf::from(&root), |root| root.trim_start_matches('-').into());
            folder.starts_with(root)
        })
    };
    below("VIRTUAL_ENV")
        || below("DIRENV_DIR")
        || folder.components().any(|part| part.as_os_str() == "node_modules")
        || (variable("IN_NIX_SHELL").is_some() && folder.starts_with("/nix/store"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_that_is_there_for_a_while_does_not_count() {
        let root = tempfile::tempdir().unwrap();
        let place = |folder: &str| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            let program = folder.join(PROGRAM);
            fs::write(&program, "").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
            folder
        };
        let (lasting, venv) = (place("bin"), place("project/venv/bin"));
        let modules = place("x/node_modules/.bin");
        let find = |folders: &[&Path], name: &str, value: &Path| {
            program_by(|asked| match asked {
                "PATH" => Some(env::join_paths(folders).unwrap()),
                asked if asked == name => Some(value.into()),
                _ => None,
            })
        };
        let in_lasting = Some(lasting.join(PROGRAM));
        let venv_root = root.path().join("project/venv");
        assert_eq!(find(&[&venv, &lasting], "VIRTUAL_ENV", &venv_root), in_lasting);
        // Installed for all, it is found in any case.
        let for_all = find(&[], "", Path::new(""));
        assert_eq!(find(&[&venv], "VIRTUAL_ENV", &venv_root), for_all);
        let mut direnv = OsString::from("-");
        direnv.push(root.path().join("project"));
        assert_eq!(find(&[&venv], "DIRENV_DIR", Path::new(&direnv)), for_all);
        assert_eq!(find(&[&modules], "", Path::new("")), for_all);
        assert_eq!(find(&[Path::new("bin")], "", Path::new("")), for_all, "of which folder?");
        assert_eq!(find(&[&venv], "", Path::new("")), Some(venv.join(PROGRAM)));
    }
}
