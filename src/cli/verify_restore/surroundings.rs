//! Where a test runs: in folders of its own, or in the user's.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::complain_left;
use super::line::{Line, quoted};
use super::probe::Seen;
use super::screen::Screen;
use super::waiting::{Vain, Waiting};
use crate::herdr::write_quiet_config;
use crate::link::{SESSION_VARIABLE, SOCKET_VARIABLE};
use crate::os::console::Program;
use crate::os::kept_file::private_folder;
use crate::os::random;

/// What a login shell gets, whoever starts it.
const LOGIN: [&str; 6] = ["USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// The `PATH` that it begins with.
pub(super) const LOGIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What the terminal of a test can do.
const TERMINAL: &str = "xterm-256color";

/// How long the user's login shell may take to say its `PATH`.
const PATH_LIMIT: Duration = Duration::from_secs(10);

/// A private folder that is removed with all that is in it.
#[derive(Debug)]
pub(super) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(super) fn new() -> io::Result<Self> {
        // Not `TMPDIR`, which is long on macOS: a socket's path has 103 bytes at most.
        let parent = fs::canonicalize("/tmp").unwrap_or_else(|_| env::temp_dir());
        let folder = parent.join(format!("apv-{}", random::hex(4)?));
        fs::create_dir(&folder)?;
        let folder = Self(folder);
        private_folder(&folder.0)?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Something may still be writing its last words there.
        let removed = (0..20).any(|_| match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
            _ => true,
        });
        if !removed {
            complain_left(&self.0.display().to_string(), &"it cannot be emptied");
        }
    }
}

/// A folder of the test's own, and the environment of what it starts.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) folder: TemporaryFolder,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Surroundings {
    /// The user's own folders.
    pub(super) fn here() -> io::Result<Self> {
        let ours = |name: &OsStr| {
            // They lead to the presence that we may be inside of.
            let names = [SOCKET_VARIABLE, SESSION_VARIABLE, "AGENT_PRESENCE_BIN", "TERM"];
            names.iter().any(|known| *known == name)
        };
        let mut environment: Vec<_> = env::vars_os().filter(|(name, _)| !ours(name)).collect();
        environment.push(("TERM".into(), TERMINAL.into()));
        Ok(Self { folder: TemporaryFolder::new()?, environment })
    }

    /// Throwaway folders, in which a login shell has the `PATH` that the user's own has.
    pub(super) fn throwaway(waiting: &Waiting) -> io::Result<Self> {
        let folder = TemporaryFolder::new()?;
        let path = path_of_login_shell(&folder, waiting);
        let home = Home::new(&folder, path.as_deref().unwrap_or(LOGIN_PATH))?;
        let ours = |name: &OsStr| {
            let name = name.as_encoded_bytes();
            let prefixes: [&[u8]; 5] =
                [b"HERDR_", b"XDG_", b"AGENT_PRESENCE_", b"TMUX", b"COLLIE_"];
            prefixes.iter().any(|prefix| name.starts_with(prefix))
                || [&b"HOME"[..], b"TERM", b"ENV", b"BASH_ENV", b"ZDOTDIR"].contains(&name)
        };
        let mut environment: Vec<_> = env::vars_os().filter(|(name, _)| !ours(name)).collect();
        environment.extend(home.variables());
        write_quiet_config(&home.0.join(".config"))?;
        Ok(Self { folder, environment })
    }
}

/// A home folder in which every login shell is quiet.
pub(super) struct Home(pub(super) PathBuf);

impl Home {
    pub(super) fn new(folder: &TemporaryFolder, path: &str) -> io::Result<Self> {
        let home = folder.path().join("h");
        for part in ["", ".config/fish/conf.d", "run"] {
            private_folder(&home.join(part))?;
        }
        let line = format!("PATH={}; export PATH\n", quoted(path));
        fs::write(home.join(".profile"), &line)?;
        fs::write(home.join(".zprofile"), &line)?;
        // zsh asks a new user for his wishes.
        fs::write(home.join(".zshrc"), "")?;
        fs::write(home.join(".hushlogin"), "")?;
        let words: Vec<String> = path.split(':').map(quoted).collect();
        let line = format!("set -gx PATH {}\nset -g fish_greeting\n", words.join(" "));
        fs::write(home.join(".config/fish/conf.d/path.fish"), line)?;
        Ok(Self(home))
    }

    /// The folders are where they are looked for without the variables: those do not come back.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        let folders = [
            ("HOME", ""),
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_RUNTIME_DIR", "run"),
        ];
        let mut variables: Vec<(OsString, OsString)> = folders
            .into_iter()
            .map(|(name, part)| (name.into(), self.0.join(part).into()))
            .collect();
        variables[0].1 = self.0.clone().into();
        variables.push(("TERM".into(), TERMINAL.into()));
        variables
    }
}

/// What a login shell starts with in `home`.
pub(super) fn login_environment(home: &OsStr, shell: &Path) -> Vec<(OsString, OsString)> {
    let own = LOGIN.iter().filter_map(|name| Some(((*name).into(), env::var_os(name)?)));
    let mut environment: Vec<(OsString, OsString)> = own.collect();
    environment.extend([
        ("HOME".into(), home.into()),
        ("SHELL".into(), shell.into()),
        ("PATH".into(), LOGIN_PATH.into()),
        ("TERM".into(), TERMINAL.into()),
        // What is typed here is nobody's to find again.
        ("HISTFILE".into(), "/dev/null".into()),
    ]);
    environment
}

/// The user's login shell.
pub(super) fn user_shell() -> PathBuf {
    let named = env::var_os("SHELL").map(PathBuf::from).filter(|shell| shell.is_absolute());
    named.unwrap_or_else(|| "/bin/sh".into())
}

/// The `PATH` of the user's login shell: what the throwaway one would not know.
fn path_of_login_shell(folder: &TemporaryFolder, waiting: &Waiting) -> Option<String> {
    let (shell, home) = (user_shell(), env::var_os("HOME")?);
    let file = folder.path().join("path");
    // By a name of ours, for a path that a shell would have to quote.
    let own = folder.path().join("probe");
    symlink(env::current_exe().ok()?, &own).ok()?;
    let line = Line::of_command(&[own.into(), "probe".into(), file.clone().into()]).ok()?;
    let arguments = [shell.clone().into(), "-l".into(), "-i".into(), "-c".into(), line.0.into()];
    let environment = login_environment(&home, &shell);
    let program = Program { path: &shell, arguments: &arguments, environment: &environment };
    let screen = Screen::start(&program).ok()?;
    let seen = waiting.at_most(PATH_LIMIT.min(waiting.limit), || {
        let seen = Seen::read(&file);
        (seen.is_some() || screen.has_ended()).then(|| seen.or_else(|| Seen::read(&file)))
    });
    match seen {
        Ok(seen) => seen?.variables.remove("PATH"),
        Err(Vain::TimedOut | Vain::Interrupted) => None,
    }
}
