//! The program to run, found as the system would find it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use thiserror::Error;

use crate::os::leader::Image;

/// Where `execvp` looks when `PATH` is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program, its arguments, and how its environment differs from ours.
#[derive(Clone, Debug, Default)]
pub struct Child {
    /// A path, or a name to look up in `PATH`.
    pub program: OsString,
    /// Its arguments, without its name.
    pub arguments: Vec<OsString>,
    /// Variables that it gets.
    pub set: Vec<(OsString, OsString)>,
    /// Variables of ours that it does not get.
    pub remove: Vec<OsString>,
}

/// Why a program could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no such program.
    #[error("{}: command not found", program.display())]
    NotFound {
        /// As it was given.
        program: OsString,
    },
    /// It is there, and cannot be executed.
    #[error("{}: cannot be executed: {source}", program.display())]
    NotExecutable {
        /// As it was given.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// Something else that it takes is not to be had.
    #[error("{}: cannot be started: {source}", program.display())]
    Io {
        /// As it was given.
        program: OsString,
        /// Why.
        source: io::Error,
    },
}

impl StartError {
    /// The exit code that a shell would give: 127 not found, 126 not executable, else 1.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Io { .. } => 1,
        }
    }

    pub(super) fn io(child: &Child, source: io::Error) -> Self {
        Self::Io { program: child.program.clone(), source }
    }

    /// From what `execve` said, after [`find`] had found it.
    pub(super) fn from_start(child: &Child, source: io::Error) -> Self {
        let errno = source.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
        let program = child.program.clone();
        match errno {
            // The interpreter that a script names is not there.
            Errno::ENOENT
            | Errno::EACCES
            | Errno::ENOEXEC
            | Errno::ETXTBSY
            | Errno::E2BIG
            | Errno::ELOOP => Self::NotExecutable { program, source },
            _ => Self::Io { program, source },
        }
    }
}

impl Child {
    /// A program with arguments and our environment.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, ..Self::default() }
    }

    pub(super) fn image(&self) -> Result<Image, StartError> {
        let path = find_in(&self.program, self.variable("PATH").as_deref())?;
        let arguments: Vec<&OsStr> =
            [&self.program].into_iter().chain(&self.arguments).map(OsString::as_os_str).collect();
        let image = self
            .environment()
            .and_then(|environment| Image::new(path.as_os_str(), &arguments, environment));
        image.map_err(|error| StartError::io(self, error))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        if let Some((_, value)) = self.set.iter().rev().find(|(other, _)| other == name) {
            return Some(value.clone());
        }
        let removed = self.remove.iter().any(|other| other == name);
        if removed { None } else { std::env::var_os(name) }
    }

    fn environment(&self) -> io::Result<Vec<CString>> {
        let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for name in &self.remove {
            variables.remove(name);
        }
        variables.extend(self.set.iter().cloned());
        let text = |(name, value): (OsString, OsString)| {
            let text = [name.into_vec(), vec![b'='], value.into_vec()].concat();
            CString::new(text).map_err(io::Error::from)
        };
        variables.into_iter().map(text).collect()
    }
}

/// Finds a program as `execvp` would: a name with a `/` is a path, any other is looked up in `PATH`.
///
/// # Errors
/// [`StartError::NotFound`], or [`StartError::NotExecutable`] when all that was found cannot be executed.
pub fn find(program: &OsStr) -> Result<PathBuf, StartError> {
    find_in(program, std::env::var_os("PATH").as_deref())
}

/// As [`find`], in the folders of this `PATH`.
pub(crate) fn find_in(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, StartError> {
    let not_found = || StartError::NotFound { program: program.to_owned() };
    if program.is_empty() {
        return Err(not_found());
    }
    let is_path = program.as_bytes().contains(&b'/');
    let folders = if is_path {
        vec![PathBuf::new()]
    } else {
        std::env::split_paths(path.unwrap_or(DEFAULT_PATH.as_ref())).collect()
    };
    let mut refused = None;
    for folder in folders {
        // An empty entry of PATH is the working folder, and must not be looked up in PATH again.
        let is_here = folder.as_os_str().is_empty() && !is_path;
        let candidate = if is_here { Path::new(".").join(program) } else { folder.join(program) };
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(Unfit::NotSeen(error)) if is_path && !is_missing(&error) => refused = Some(error),
            // As in a shell: a folder of PATH that may not be looked into does not hold the program.
            Err(Unfit::NotSeen(_)) => {}
            Err(Unfit::NotProgram(error)) => refused = Some(error),
        }
    }
    match refused {
        Some(source) => Err(StartError::NotExecutable { program: program.to_owned(), source }),
        None => Err(not_found()),
    }
}

/// Why a path does not name a program.
enum Unfit {
    /// Nothing can be seen there.
    NotSeen(io::Error),
    /// What is there cannot be executed.
    NotProgram(io::Error),
}

fn check(candidate: &Path) -> Result<(), Unfit> {
    let metadata = std::fs::metadata(candidate).map_err(Unfit::NotSeen)?;
    if metadata.is_dir() {
        return Err(Unfit::NotProgram(io::Error::from_raw_os_error(Errno::EISDIR as i32)));
    }
    access(candidate, AccessFlags::X_OK).map_err(|errno| Unfit::NotProgram(errno.into()))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_are_found_as_execvp_would() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("first/tool")).expect("a folder in the place of a program");
        fs::create_dir_all(path("second")).expect("a folder");
        fs::write(path("second/tool"), "").expect("a file");
        // It cannot be looked into, whoever looks.
        std::os::unix::fs::symlink("loop", path("loop")).expect("a link");
        let path_variable = std::env::join_paths(["none", "loop", "first", "second"].map(path));
        let path_variable = path_variable.expect("a PATH");
        let find = |name: &str| find_in(name.as_ref(), Some(&path_variable));

        assert!(
            matches!(find("tool"), Err(error @ StartError::NotExecutable { .. }) if error.exit_code() == 126)
        );
        fs::set_permissions(path("second/tool"), Permissions::from_mode(0o700)).expect("a mode");
        assert_eq!(find("tool").expect("a program"), path("second/tool"));
        assert!(
            matches!(find("other"), Err(error @ StartError::NotFound { .. }) if error.exit_code() == 127)
        );
        assert!(matches!(find(""), Err(StartError::NotFound { .. })));
        let by_path = path("second/tool");
        assert_eq!(find_in(by_path.as_os_str(), None).expect("a program"), by_path);
        assert!(matches!(
            find_in(path("loop/tool").as_os_str(), None),
            Err(StartError::NotExecutable { .. })
        ));
        let below_a_file = path("second/tool/deeper");
        assert!(matches!(
            find_in(below_a_file.as_os_str(), None),
            Err(StartError::NotFound { .. })
        ));
    }

    #[test]
    fn the_environment_is_ours_with_the_changes() {
        let child = Child {
            set: vec![("ADDED".into(), "1".into()), ("PATH".into(), "/nowhere".into())],
            remove: vec!["HOME".into(), "ADDED".into()],
            ..Child::new("sh", [""; 0])
        };
        let environment = child.environment().expect("no NUL");
        let has =
            |text: &str| environment.iter().any(|variable| variable.to_bytes() == text.as_bytes());
        assert!(has("ADDED=1") && has("PATH=/nowhere"));
        assert!(!environment.iter().any(|variable| variable.to_bytes().starts_with(b"HOME=")));
        assert!(matches!(child.image(), Err(StartError::NotFound { .. })), "its own PATH counts");
    }
}
