//! `agent-presence sessions`: what can come back.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Exit, Failure, inside, output, resume, wrap};
use crate::store::{MAX_AGE, Record};
use crate::wrap::agents::Agent;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// For machines: one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Forget the sessions that were not seen for some time. It happens by itself after 30 days.
    Prune {
        /// For how long they were not seen, such as `7d`. Default: 30 days.
        #[arg(long, value_name = "TIME", value_parser = inside::duration)]
        older_than: Option<Duration>,
    },
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let records = resume::records()?;
    let now = SystemTime::now();
    if let Some(Action::Prune { older_than }) = arguments.action {
        let forgotten = records.prune(now - older_than.unwrap_or(MAX_AGE));
        output::print(&format!("{forgotten} forgotten"))?;
        return Ok(Exit::Done);
    }
    let mut agents = HashMap::new();
    let seen = records.list().into_iter().map(|(seen, record)| {
        let age = now.duration_since(seen).unwrap_or_default();
        let obstacle = resume::command(&record, known(&mut agents, &record)).err();
        Seen { record, at: seen, age, obstacle }
    });
    if arguments.json {
        output::print_json(&seen.map(|seen| seen.json()).collect::<Vec<_>>())?;
    } else {
        for seen in seen {
            output::print(&seen.line())?;
        }
    }
    Ok(Exit::Done)
}

/// What is known of the session's agent. Reading it takes longer than all the rest, so once for each.
fn known<'a>(
    agents: &'a mut HashMap<(String, Option<std::path::PathBuf>), Agent>,
    record: &Record,
) -> &'a Agent {
    let key = (wrap::program_name_of(record), resume::config(record));
    agents
        .entry(key)
        .or_insert_with_key(|(name, config)| wrap::known_agent(name, config.as_deref()))
}

struct Seen {
    record: Record,
    at: SystemTime,
    age: Duration,
    /// Why it cannot come back.
    obstacle: Option<String>,
}

impl Seen {
    fn json(&self) -> Value {
        let Record { token, agent, session, title, folder, .. } = &self.record;
        let seen = Timestamp::try_from(self.at).ok().map(|seen| format!("{seen:.0}"));
        json!({"token": token, "session": session, "agent": agent, "title": title,
            "folder": folder.to_string_lossy(), "seen": seen, "ageSeconds": self.age.as_secs(),
            "canComeBack": self.obstacle.is_none(), "why": self.obstacle})
    }

    fn line(&self) -> String {
        let Record { token, agent, session, title, folder, .. } = &self.record;
        let title = title.as_ref().unwrap_or(agent);
        let obstacle = self.obstacle.as_ref().map(|why| format!("  cannot come back: {why}"));
        let line = format!(
            "{token}  {:>4}  {agent}  {session}  {title}  {}{}",
            age(self.age),
            folder.to_string_lossy(),
            obstacle.unwrap_or_default()
        );
        output::plain(&line)
    }
}

/// How long ago, in its largest unit.
pub(super) fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_in_their_largest_unit() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (3_599, "59m"), (86_399, "23h"), (900_000, "10d")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }
}
