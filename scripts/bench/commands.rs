//! What a hook or a script pays for a call, and what a wrapped agent costs while nothing happens.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{percentile, row};

const CALLS: usize = 200;

/// `wrap` round an agent that tells its variables and sleeps.
struct Wrapped {
    folder: tempfile::TempDir,
    wrap: Child,
    link: PathBuf,
}

impl Wrapped {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let told = folder.path().join("told");
        let script =
            "echo \"$AGENT_PRESENCE_SOCKET\" > \"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 1000";
        // A terminal of its own, as a user's: script(1) gives one.
        let command = format!(
            "'{}' wrap --session s -- sh -c '{script}' '{}'",
            program("agent-presence").display(),
            told.display()
        );
        let wrap = Command::new("script")
            .args(["-qefc", &command, "/dev/null"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .env_remove("HERDR_ENV")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !told.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let link = fs::read_to_string(told).unwrap().trim().into();
        Self { folder, wrap, link }
    }

    /// The processes of ours: the guardian, the relay, and what holds the agent's session.
    fn processes(&self) -> Vec<u32> {
        let program = program("agent-presence");
        let mine = |pid: &u32| {
            let path = format!("/proc/{pid}/exe");
            fs::read_link(path).is_ok_and(|path| path == program) && self.has_folder(*pid)
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(mine).collect()
    }

    fn has_folder(&self, pid: u32) -> bool {
        let folder = self.folder.path().to_str().unwrap().to_owned();
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|text| String::from_utf8_lossy(&text).contains(&folder))
    }

    fn signal(&self, signal: &str) {
        for pid in self.processes() {
            let _ = Command::new("kill").args([signal, &pid.to_string()]).status();
        }
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        self.signal("-CONT");
        self.signal("-KILL");
        let _ = self.wrap.kill();
        let _ = self.wrap.wait();
    }
}

fn program(name: &str) -> PathBuf {
    env::current_exe().unwrap().with_file_name(name)
}

fn call(link: &Path) -> Duration {
    let mut command = Command::new(program("agent-presence"));
    command
        .args(["state", "working"])
        .env("AGENT_PRESENCE_SOCKET", link)
        .env("AGENT_PRESENCE_SESSION", "s")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    timed(&mut command)
}

fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    command.status().unwrap();
    began.elapsed()
}

/// A state said by a script, the wrap alive, stopped and dead, against a program that does nothing.
pub(crate) fn scripts() {
    let alive = Wrapped::start();
    let stopped = Wrapped::start();
    stopped.signal("-STOP");
    let dead = alive.folder.path().join("dead.sock");
    let mut samples = [const { Vec::new() }; 4];
    for turn in 0..CALLS {
        samples[0].push(timed(&mut Command::new("/bin/true")));
        samples[1].push(call(&alive.link));
        samples[2].push(call(&dead));
        // Its listen queue takes only so many.
        if turn < 100 {
            samples[3].push(call(&stopped.link));
        }
    }
    let [mut floor, mut alive, mut dead, mut stopped] = samples;
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let floor = percentile(&mut floor, share);
        row(
            &format!("{name}, wrap alive, against /bin/true"),
            percentile(&mut alive, share),
            floor,
        );
        row(&format!("{name}, wrap dead"), percentile(&mut dead, share), floor);
        row(&format!("{name}, wrap stopped"), percentile(&mut stopped, share), floor);
    }
}

/// Ten seconds in which nothing happens.
pub(crate) fn idle() {
    let wrapped = Wrapped::start();
    std::thread::sleep(Duration::from_secs(1));
    let processes = wrapped.processes();
    let before: Vec<_> = processes.iter().map(|pid| (ticks(*pid), wakes(*pid))).collect();
    std::thread::sleep(Duration::from_secs(10));
    for (pid, (ticks_before, wakes_before)) in processes.iter().zip(before) {
        println!(
            "process {pid}: {} CPU ticks, {} wakes in 10 s, {} KiB of its own, {} KiB resident",
            ticks(*pid) - ticks_before,
            wakes(*pid) - wakes_before,
            status(*pid, "RssAnon:"),
            status(*pid, "VmRSS:"),
        );
    }
}

fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Of all its threads.
fn wakes(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    threads
        .map(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).unwrap();
            field(&status, "voluntary_ctxt_switches:")
        })
        .sum()
}

/// A number of `/proc/PID/status`.
pub(crate) fn status(pid: u32, name: &str) -> u64 {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap(), name)
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
