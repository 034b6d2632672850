//! Herdr's own program, for when its socket cannot be reached.

use super::TransportError;
use crate::herdr::environment::Environment;
use crate::herdr::report::{Answer, read_answer};
use crate::os::process::kill_group;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long the program may take. It has no limit of its own (H023).
const LIMIT: Duration = Duration::from_millis(1_500);

/// How long its output may come after its end. Only a program that it left behind could still write.
const DRAIN_LIMIT: Duration = Duration::from_millis(20);

/// How long a killed child is waited for when nobody else will.
const REAP_TRIES: u32 = 20;
const REAP_PAUSE: Duration = Duration::from_micros(500);

/// The most of its output that is kept.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// Runs Herdr's program with `words`.
pub(super) async fn exchange(
    environment: &Environment,
    words: &[String],
) -> Result<Answer, TransportError> {
    let program = environment.program().ok_or(TransportError::NoProgram)?;
    // An absolute program, no `pre_exec`, PATH as it is: all that the standard library needs to start it
    // by `posix_spawn` instead of a fork, which takes 25 ms in a large agent.
    let mut command = Command::new(program);
    for (name, value) in environment.variables() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C in the terminal must not end the release that it causes, and what
        // the program starts can be ended with it.
        .process_group(0)
        .spawn()
        .map_err(TransportError::Run)?;
    let mut run = Run { group: child.id(), child };
    let Ok(result) = timeout(LIMIT, run.finish()).await else {
        run.kill();
        // Reaped here, so that no zombie stays in the agent. It was killed: this is short, or the kernel
        // cannot let go of it, and tokio reaps it later.
        let _ = timeout(DRAIN_LIMIT, run.child.wait()).await;
        return Err(TransportError::Timeout(LIMIT));
    };
    let (status, output, errors) = result.map_err(TransportError::Run)?;
    judge(status, &output, &errors)
}

/// A run that is killed, with all that it started, when nobody waits for it any more.
struct Run {
    child: Child,
    /// The group's leader while it is not reaped.
    group: Option<u32>,
}

impl Run {
    async fn finish(&mut self) -> std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let status = {
            let reading = async {
                tokio::join!(read(stdout, &mut output), read(stderr, &mut errors));
            };
            tokio::pin!(reading);
            let mut read_all = false;
            let status = loop {
                tokio::select! {
                    status = self.child.wait() => break status,
                    () = &mut reading, if !read_all => read_all = true,
                }
            };
            // Reaped, by us or by somebody else: from now on the number may be another process's.
            self.group = None;
            if !read_all {
                let _ = timeout(DRAIN_LIMIT, reading).await;
            }
            status?
        };
        Ok((status, output, errors))
    }

    fn kill(&mut self) {
        if let Some(leader) = self.group.take() {
            kill_group(leader);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.group.is_none() {
            return;
        }
        self.kill();
        // The runtime may be about to end, and would reap nobody then. A killed child is gone in well
        // under a millisecond; one that the kernel keeps longer is left to tokio.
        for _ in 0..REAP_TRIES {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(REAP_PAUSE);
        }
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    if let Some(pipe) = pipe {
        // What was read before an error is all there is.
        let _ = pipe.take(OUTPUT_LIMIT).read_to_end(into).await;
    }
}

/// What an exit code and the output mean (H023).
fn judge(status: ExitStatus, output: &[u8], errors: &[u8]) -> Result<Answer, TransportError> {
    let said = [output, errors].into_iter().find_map(read_answer);
    if let Some(Err(refusal)) = said {
        return Err(TransportError::Refused(refusal));
    }
    let text = || {
        let text = if errors.is_empty() { output } else { errors };
        crate::herdr::text::one_line(&String::from_utf8_lossy(text), 200)
    };
    match status.code() {
        Some(0) => Ok(said.and_then(Result::ok).unwrap_or_default()),
        Some(2)
            if text().contains("unknown option: --") && text_ends_the_option(errors, output) =>
        {
            Err(TransportError::NoResumeCommands)
        }
        Some(2) => Err(TransportError::Usage(text())),
        _ => Err(TransportError::Failed { status: status.to_string(), text: text() }),
    }
}

/// `unknown option: --` and not `unknown option: --seq`.
fn text_ends_the_option(errors: &[u8], output: &[u8]) -> bool {
    [errors, output].into_iter().any(|text| {
        String::from_utf8_lossy(text).lines().any(|line| {
            line.trim_end_matches(['\'', '"', '`', ' ']).ends_with("unknown option: --")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn exit(code: i32, output: &str, errors: &str) -> Result<Answer, String> {
        judge(ExitStatus::from_raw(code << 8), output.as_bytes(), errors.as_bytes())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_an_exit_means() {
        assert_eq!(exit(0, "", ""), Ok(Answer::default()));
        assert_eq!(exit(0, "some text", ""), Ok(Answer::default()));
        let json = r#"{"error":{"code":"pane_not_found","message":"gone"}}"#;
        let refused = Err("Herdr refused it with pane_not_found: gone".to_owned());
        assert_eq!(exit(1, json, ""), refused);
        assert_eq!(exit(1, "", json), refused);
        let old = "Herdr's program is older than 0.9.2 and takes no resume command";
        assert_eq!(exit(2, "", "unknown option: --\n"), Err(old.to_owned()));
        assert_eq!(exit(2, "", "error: unknown option: --\nusage: …"), Err(old.to_owned()));
        let usage = "Herdr's program did not understand its options: unknown option: --seq";
        assert_eq!(exit(2, "", "unknown option: --seq\n"), Err(usage.to_owned()));
        let failed = "Herdr's program failed with exit status: 1: no server";
        assert_eq!(exit(1, "", "no server\n"), Err(failed.to_owned()));
    }
}
