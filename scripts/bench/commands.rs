//! What a hook or a script pays for a call, and what a wrapped agent costs while nothing happens.

use std::env;
use std::fs;
use std::io::Read as _;
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

/// How long it takes until a wrapped agent that can come back is up, with many records of others and without.
pub(crate) fn starts() {
    const RUNS: usize = 50;
    const RECORDS: usize = 10_000;
    let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let agent = folder.path().join("claude");
    fs::write(&agent, "#!/bin/sh\necho up\n").unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o700)).unwrap();
    let few = folder.path().join("few");
    let many = folder.path().join("many");
    let run = |state: &Path| {
        let mut command = Command::new(program("agent-presence"));
        command.args(["wrap", "--"]).arg(&agent).env("XDG_STATE_HOME", state);
        command.env("XDG_RUNTIME_DIR", folder.path()).env_remove("HERDR_ENV");
        until_up(&mut command)
    };
    let records = many.join("agent-presence/sessions");
    // An agent that is gone at once waits a tenth of a second for its record, and no longer.
    while !records.exists() {
        run(&many);
    }
    let one = fs::read_dir(&records).unwrap().flatten().map(|entry| entry.path());
    let one = fs::read(one.into_iter().find(|path| path.extension().is_some()).unwrap()).unwrap();
    for number in 0..RECORDS {
        fs::write(records.join(format!("{number:032x}.json")), &one).unwrap();
    }
    let mark = records.join(".pruned");
    let mut samples = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        samples[0].push(until_up(&mut Command::new(&agent)));
        samples[1].push(run(&few));
        samples[2].push(run(&many));
        // As on the first start of a day.
        fs::remove_file(&mark).unwrap();
        samples[3].push(run(&many));
    }
    let [mut floor, mut few, mut many, mut first] = samples;
    for (name, share) in [("p50", 0.5), ("p90", 0.9)] {
        let floor = percentile(&mut floor, share);
        row(&format!("{name}, no records"), percentile(&mut few, share), floor);
        row(&format!("{name}, {RECORDS} records"), percentile(&mut many, share), floor);
        row(&format!("{name}, the first of a day"), percentile(&mut first, share), floor);
    }
    let began = Instant::now();
    let mut list = Command::new(program("agent-presence"));
    list.args(["sessions", "--json"]).env("XDG_STATE_HOME", folder.path().join("many"));
    list.stdout(Stdio::null()).status().unwrap();
    println!("`sessions --json` of all of them: {:.0?}", began.elapsed());
}

/// From the start of a command to its first output.
fn until_up(command: &mut Command) -> Duration {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    let time = began.elapsed();
    child.wait().unwrap();
    time
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
