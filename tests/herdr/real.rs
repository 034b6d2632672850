//! A real Herdr, where there is one: `AGENT_PRESENCE_TEST_HERDR`, else `herdr` on `PATH`. It runs as a
//! named session in a `tmux` of its own, with folders of its own. (Only run against a stand-in so far.)

use super::*;
use agent_presence::herdr::Detection;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keeps a throwaway Herdr quiet.
const CONFIG: &str = "onboarding = false\n\n[update]\nversion_check = false\nmanifest_check = false\n\n\
                      [ui.sound]\nenabled = false\n";

/// A real Herdr that is starting has to be waited for longer.
const START: Duration = Duration::from_secs(20);

struct RealHerdr {
    program: PathBuf,
    folder: tempfile::TempDir,
    name: String,
}

impl RealHerdr {
    fn start() -> Option<Self> {
        let program = env::var_os("AGENT_PRESENCE_TEST_HERDR")
            .map(PathBuf::from)
            .or_else(|| which::which("herdr").ok());
        let (Some(program), Ok(_)) = (program, which::which("tmux")) else {
            println!("skipped: no herdr");
            return None;
        };
        let name = format!("agent-presence-{}", std::process::id());
        let herdr = Self { program, folder: tempfile::tempdir().unwrap(), name };
        let config = herdr.folder.path().join("config/herdr");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("config.toml"), CONFIG).unwrap();
        let session = herdr.name.as_str();
        herdr.tmux(&["new-session", "-d", "-x", "120", "-y", "40", "--"], |tmux| {
            tmux.arg(&herdr.program).args(["--session", session]);
        });
        Some(herdr)
    }

    fn tmux(&self, words: &[&str], more: impl FnOnce(&mut Command)) {
        let mut tmux = self.command("tmux");
        tmux.args(["-L", &self.name, "-f", "/dev/null"]).args(words);
        more(&mut tmux);
        assert!(tmux.status().unwrap().success(), "{tmux:?}");
    }

    /// A command that sees only the folders of this test, and no Herdr that we may be in.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for name in
            ["ENV", "PANE_ID", "SOCKET_PATH", "BIN_PATH", "SESSION", "TAB_ID", "WORKSPACE_ID"]
        {
            command.env_remove(format!("HERDR_{name}"));
        }
        let folder = self.folder.path();
        command
            .env_remove("TMUX")
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", folder.join("config"));
        for name in ["STATE", "DATA", "CACHE"] {
            command.env(format!("XDG_{name}_HOME"), folder.join(name));
        }
        command
    }

    /// The variables of a process in the first pane: its shell is asked to write them down.
    fn environment(&self) -> Environment {
        let path = self.folder.path().join("variables");
        let line = format!(" env >'{0}.new' && mv '{0}.new' '{0}'", path.display());
        let deadline = Instant::now() + START;
        let mut asked = Instant::now();
        while !path.exists() {
            assert!(Instant::now() < deadline, "no shell in the first pane");
            // A line that is typed before the shell is there may be lost.
            if asked.elapsed() > Duration::from_secs(1) {
                asked = Instant::now();
                self.tmux(&["send-keys", &line, "Enter"], |_| {});
            }
            thread::sleep(Duration::from_millis(20));
        }
        let text = fs::read_to_string(path).unwrap();
        let lookup = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            value.map(OsString::from)
        };
        match Environment::from_lookup(lookup) {
            Detection::Inside(environment) => environment,
            other => panic!("{other:?}: {text}"),
        }
    }
}

impl Drop for RealHerdr {
    fn drop(&mut self) {
        let _ = self.command(&self.program).args(["session", "stop", &self.name]).output();
        let _ = self.command("tmux").args(["-L", &self.name, "kill-server"]).output();
    }
}

#[test]
fn a_real_herdr_shows_what_is_reported() {
    let Some(herdr) = RealHerdr::start() else {
        return;
    };
    let environment = herdr.environment();
    // This process is no child of the pane's shell.
    let options = ReporterOptions::default().with_pane_ownership_check(false);
    let reporter = start_with(environment.clone(), options);
    let shown = || {
        let (source, agent) = (Source::new("my-agent"), AgentName::new("my-agent"));
        let seen = Inspection::of(&environment, &source.unwrap(), &agent.unwrap(), None).unwrap();
        (seen.holder, seen.shown_state)
    };
    reporter.session("s1", Some(resume()));
    for (state, words) in [
        (State::Working, vec!["working"]),
        (State::Blocked, vec!["blocked"]),
        (State::Idle, vec!["idle", "done"]),
    ] {
        reporter.report(state, Some("by a test"));
        wait_until(&reporter, |status| status.settled);
        let (holder, shown) = shown();
        assert_eq!(holder.as_deref(), Some("my-agent"));
        assert!(shown.as_deref().is_some_and(|shown| words.contains(&shown)), "{shown:?}");
    }
    reporter.release();
    assert!(reporter.finish(PATIENCE));
    assert_eq!(shown().0, None);
}
