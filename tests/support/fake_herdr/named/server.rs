//! The server of a named session: its panes run real shells, and it remembers over a stop.

use super::kept::{self, KeptPane};
use super::pane::{Shell, Surroundings};
use super::{client_socket, config_folder, folder, socket};
use crate::cli::Exit;
use crate::model::{Model, Pane};
use crate::server::{Behaviour, Shared, serve};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often it looks at its panes.
const TICK: Duration = Duration::from_millis(10);

/// How long an agent may be gone from the front of its pane (H071).
const GRACE: Duration = Duration::from_secs(1);

/// How long the processes of a pane have after HUP, and after TERM (H080).
const KILL_STEPS: [(Signal, Duration); 3] = [
    (Signal::SIGHUP, Duration::from_millis(300)),
    (Signal::SIGTERM, Duration::from_millis(300)),
    (Signal::SIGKILL, Duration::from_millis(300)),
];

/// What the attached terminals share.
#[derive(Default)]
struct Screen {
    clients: Vec<UnixStream>,
    /// What the first pane has written: a terminal that comes later sees it too.
    written: Vec<u8>,
    typed: Vec<u8>,
    /// A terminal has been attached.
    attached: bool,
}

struct Server {
    name: String,
    folder: PathBuf,
    shared: Arc<Shared>,
    screen: Arc<Mutex<Screen>>,
    shells: BTreeMap<String, Shell>,
    /// Panes whose command is typed when a terminal is attached.
    waiting: Vec<KeptPane>,
    idle_since: BTreeMap<String, Instant>,
    saved: String,
    changed_at: Option<(String, Instant)>,
}

/// Serves the session to its end.
pub(super) fn run(name: &str) -> Exit {
    let folder = folder(name);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    // A server that was killed leaves its sockets.
    for path in [socket(name), client_socket(&folder)] {
        let _ = fs::remove_file(path);
    }
    let version = env::var("FAKE_HERDR_VERSION").unwrap_or_else(|_| "0.9.3".to_owned());
    let kept = kept::read(&folder);
    let mut model = Model::new(&version);
    model.panes = match &kept {
        Some(panes) => panes.iter().map(|pane| (pane.id.clone(), Pane::default())).collect(),
        None => (1..=pane_count()).map(|n| (format!("w1:p{n}"), Pane::default())).collect(),
    };
    let takes_commands = model.takes_commands();
    let waits_for_terminal = model.is_at_least([0, 9, 3]);
    let ids: Vec<String> = model.panes.keys().cloned().collect();
    let screen = Arc::new(Mutex::new(Screen::default()));
    let shared = serve(&socket(name), model, Behaviour::Answers);
    let mut server = Server {
        name: name.to_owned(),
        folder,
        shared,
        screen,
        shells: BTreeMap::new(),
        waiting: Vec::new(),
        idle_since: BTreeMap::new(),
        saved: String::new(),
        changed_at: None,
    };
    match kept {
        None => {
            let folder = env::current_dir().unwrap();
            for id in ids {
                server.start_shell(&id, &folder, Surroundings::Server);
            }
        }
        Some(panes) => {
            for pane in panes {
                if pane.resume.is_some() && takes_commands && resumes_agents() {
                    server.shared.with_model(|model| {
                        let restored = Some((pane.written.clone(), false));
                        model.panes.get_mut(&pane.id).unwrap().restored = restored;
                    });
                    server.waiting.push(pane);
                } else {
                    server.start_shell(&pane.id, &pane.folder, Surroundings::Login);
                }
            }
        }
    }
    server.listen_for_terminals();
    loop {
        if !waits_for_terminal || server.screen.lock().unwrap().attached {
            server.restore();
        }
        server.pass_on_keys();
        server.look_at_panes();
        server.save_after_a_while();
        if server.shared.with_model(|model| model.stopping) {
            server.stop();
            return Exit { code: 0, output: String::new(), errors: String::new() };
        }
        thread::sleep(TICK);
    }
}

fn pane_count() -> u32 {
    env::var("FAKE_HERDR_PANES").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// `[session] resume_agents_on_restore`, on by default.
fn resumes_agents() -> bool {
    let text = fs::read_to_string(config_folder().join("config.toml")).unwrap_or_default();
    let config: toml::Table = toml::from_str(&text).unwrap();
    let value = config.get("session").and_then(|session| session.get("resume_agents_on_restore"));
    value.and_then(toml::Value::as_bool).unwrap_or(true)
}

impl Server {
    fn start_shell(&mut self, id: &str, folder: &Path, surroundings: Surroundings) {
        let herdrs: Vec<(&str, OsString)> = vec![
            ("HERDR_ENV", "1".into()),
            ("HERDR_PANE_ID", id.into()),
            ("HERDR_SOCKET_PATH", socket(&self.name).into()),
            ("HERDR_BIN_PATH", env::current_exe().unwrap().into()),
            ("HERDR_SESSION", self.name.clone().into()),
            ("HERDR_TAB_ID", "w1:t1".into()),
            ("HERDR_WORKSPACE_ID", "w1".into()),
        ];
        // The first pane has the focus: it is what a terminal shows.
        let screen = (id == "w1:p1").then(|| self.screen.clone());
        let shell = Shell::start(folder, &herdrs, surroundings, move |bytes| {
            if let Some(screen) = &screen {
                let mut screen = screen.lock().unwrap();
                screen.written.extend_from_slice(bytes);
                screen.clients.retain_mut(|client| client.write_all(bytes).is_ok());
            }
        });
        self.shared.with_model(|model| {
            let pane = model.panes.get_mut(id).unwrap();
            pane.shell_pid = Some(shell.pid());
            pane.folder = Some(folder.to_owned());
        });
        self.shells.insert(id.to_owned(), shell);
    }

    /// Starts the shells whose command was kept, and types it into each (H055).
    fn restore(&mut self) {
        for pane in std::mem::take(&mut self.waiting) {
            self.start_shell(&pane.id, &pane.folder, Surroundings::Login);
            let line = pane.line().unwrap();
            let shell = self.shells.get_mut(&pane.id).unwrap();
            shell.write(format!("{line}\r").as_bytes());
            let path = self.folder.join("typed");
            let mut log = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            writeln!(log, "{} {line}", pane.id).unwrap();
        }
    }

    fn listen_for_terminals(&self) {
        let listener = UnixListener::bind(client_socket(&self.folder)).unwrap();
        let screen = self.screen.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut reading = client.try_clone().unwrap();
                let mut locked = screen.lock().unwrap();
                let mut client = client;
                if client.write_all(&locked.written).is_ok() {
                    locked.clients.push(client);
                    locked.attached = true;
                }
                drop(locked);
                let screen = screen.clone();
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = reading.read(&mut buffer) {
                        screen.lock().unwrap().typed.extend_from_slice(&buffer[..count]);
                    }
                });
            }
        });
    }

    /// What was typed goes to the first pane, and what was sent to the pane that it was sent to.
    fn pass_on_keys(&mut self) {
        for (id, shell) in &mut self.shells {
            let sent = self.shared.with_model(|model| {
                model.panes.get_mut(id).map(|pane| std::mem::take(&mut pane.unsent))
            });
            shell.write(sent.unwrap_or_default().as_bytes());
        }
        if let Some(shell) = self.shells.get_mut("w1:p1") {
            let typed = std::mem::take(&mut self.screen.lock().unwrap().typed);
            if !typed.is_empty() {
                shell.write(&typed);
            }
        }
    }

    fn look_at_panes(&mut self) {
        self.shells.retain(|id, shell| {
            let ended = shell.has_ended();
            if ended {
                // A pane ends with its shell.
                self.shared.with_model(|model| model.panes.remove(id));
            }
            !ended
        });
        for (id, shell) in &self.shells {
            let (foreground, folder) = (shell.foreground(), shell.folder());
            let in_front = foreground.is_some_and(|group| group != shell.pid());
            self.shared.with_model(|model| {
                let takes_commands = model.takes_commands();
                let pane = model.panes.get_mut(id).unwrap();
                pane.foreground = foreground;
                pane.folder = folder.or(pane.folder.take());
                if let Some((_, has_run)) = &mut pane.restored {
                    *has_run |= in_front;
                }
                let is_agents = pane.holder.is_some()
                    || pane.restored.as_ref().is_some_and(|(_, has_run)| *has_run);
                // Stopped, in the background or dead: the shell is in front (H071).
                if in_front || !is_agents {
                    self.idle_since.remove(id);
                } else if self.idle_since.entry(id.clone()).or_insert_with(Instant::now).elapsed()
                    > GRACE
                    && takes_commands
                {
                    model.clear(id);
                }
            });
        }
    }

    /// A change is saved after a while (H054).
    fn save_after_a_while(&mut self) {
        let pause = env::var("FAKE_HERDR_SAVE_MS").ok().and_then(|ms| ms.parse().ok());
        let pause = Duration::from_millis(pause.unwrap_or(5_000));
        let text = self.shared.with_model(|model| kept::text(model));
        if text == self.saved {
            self.changed_at = None;
            return;
        }
        match &self.changed_at {
            Some((_, at)) if at.elapsed() >= pause => self.save(text),
            Some(_) => {}
            None => self.changed_at = Some((text, Instant::now())),
        }
    }

    fn save(&mut self, text: String) {
        // Others can read it, as they can Herdr's (H054).
        // Whoever reads it finds a whole one.
        let new = self.folder.join("session.json.new");
        fs::write(&new, &text).unwrap();
        fs::rename(new, self.folder.join("session.json")).unwrap();
        self.saved = text;
        self.changed_at = None;
    }

    /// Requests are refused by now: saves, then ends the processes of the panes (H080).
    fn stop(&mut self) {
        let mut text = self.shared.with_model(|model| kept::text(model));
        if !self.waiting.is_empty() {
            // Nobody has attached a terminal: what was kept is kept on.
            text = fs::read_to_string(self.folder.join("session.json")).unwrap();
        }
        self.save(text);
        for (signal, grace) in KILL_STEPS {
            let end = Instant::now() + grace;
            for shell in self.shells.values_mut() {
                shell.signal(Some(signal));
            }
            while Instant::now() < end && self.shells.values_mut().any(|shell| shell.signal(None)) {
                thread::sleep(TICK);
            }
        }
        for path in [client_socket(&self.folder), socket(&self.name)] {
            let _ = fs::remove_file(path);
        }
    }
}
