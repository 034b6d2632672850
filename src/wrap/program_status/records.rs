//! What a program has said so far.

use super::{Event, Kind, Record, Report, State};

/// The most records that are kept. The least recently updated goes first.
const RECORD_LIMIT: usize = 256;

/// What all records of a program amount to: the one that matters most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// What it is doing.
    pub state: State,
    /// What it waits for, with [`State::Blocked`] only.
    pub kind: Option<Kind>,
    /// Per cent done, 0 to 100.
    pub progress: Option<u8>,
    /// The program's name, its nearest ancestor's where the record has none.
    pub app: Option<String>,
    /// What it works on.
    pub title: Option<String>,
    /// What it has to say.
    pub message: Option<String>,
}

/// The records of one terminal.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The least recently updated first.
    records: Vec<(String, Record)>,
}

impl Records {
    /// Takes in what the program's output said.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Report(Report::Set { id, record }) => {
                self.records.retain(|(other, _)| *other != id);
                if self.records.len() == RECORD_LIMIT {
                    self.records.remove(0);
                }
                self.records.push((id, record));
            }
            Event::Report(Report::Clear { id }) => {
                self.records.retain(|(other, _)| !is_at_or_below(other, &id));
            }
            Event::ShellPrompt => {
                self.records.retain(|(_, r)| matches!(r.state, State::Done | State::Error));
            }
            Event::Reset => self.records.clear(),
            Event::Query => {}
        }
    }

    /// The record that matters most: blocked, then error, working, done, idle, and the most recently
    /// updated of equals. `None` without any.
    pub fn aggregate(&self) -> Option<Aggregate> {
        // Of equals, `max_by_key` gives the last.
        let (id, record) = self.records.iter().max_by_key(|(_, record)| record.state)?;
        let Record { state, kind, progress, app: _, title, message } = record.clone();
        Some(Aggregate { state, kind, progress, app: self.app_of(id), title, message })
    }

    /// The record of exactly this id, which is empty for the program as a whole.
    pub fn get(&self, id: &str) -> Option<&Record> {
        self.records.iter().find(|(other, _)| other == id).map(|(_, record)| record)
    }

    fn app_of(&self, id: &str) -> Option<String> {
        let mut id = id;
        loop {
            if let Some(app) = self.get(id).and_then(|record| record.app.clone()) {
                return Some(app);
            }
            if id.is_empty() {
                return None;
            }
            id = id.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }
}

fn is_at_or_below(id: &str, ancestor: &str) -> bool {
    let rest = id.strip_prefix(ancestor);
    ancestor.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reports: &[&str]) -> Records {
        let mut records = Records::default();
        for text in reports {
            records.apply(match *text {
                "prompt" => Event::ShellPrompt,
                "reset" => Event::Reset,
                text => Event::Report(Report::parse(text.as_bytes()).expect(text)),
            });
        }
        records
    }

    fn ids(records: &Records) -> Vec<&str> {
        records.records.iter().map(|(id, _)| id.as_str()).collect()
    }

    #[test]
    fn a_report_replaces_its_record_whole() {
        let records = after(&["state=working:progress=5:app=pi", "state=working"]);
        let record = records.get("").expect("the root record");
        assert_eq!((record.progress, record.app.as_deref()), (None, None));
    }

    #[test]
    fn clear_removes_a_record_and_those_below_it() {
        let reports = ["state=idle", "state=idle:id=a", "state=idle:id=a/b", "state=idle:id=ab"];
        let cleared = [reports.as_slice(), &["state=clear:id=a"]].concat();
        assert_eq!(ids(&after(&cleared)), ["", "ab"]);
        let cleared = [reports.as_slice(), &["state=clear"]].concat();
        assert_eq!(ids(&after(&cleared)), [""; 0]);
    }

    #[test]
    fn the_257th_record_takes_the_place_of_the_least_recently_updated() {
        let mut records = Records::default();
        let set = |id: usize| Report::parse(format!("state=idle:id=r{id}").as_bytes());
        for id in (0..256).chain([0, 256]) {
            records.apply(Event::Report(set(id).expect("a report")));
        }
        assert_eq!(records.records.len(), 256);
        assert!(records.get("r0").is_some(), "it was updated again");
        assert!(records.get("r1").is_none());
    }

    #[test]
    fn the_aggregate_is_the_most_pressing_and_then_the_most_recent() {
        let order = [
            "state=idle",
            "state=done:id=a",
            "state=working:id=b",
            "state=error:id=c",
            "state=blocked:id=d",
        ];
        for (count, expected) in
            [State::Idle, State::Done, State::Working, State::Error, State::Blocked]
                .into_iter()
                .enumerate()
        {
            let aggregate = after(&order[..=count]).aggregate().expect("a record");
            assert_eq!(aggregate.state, expected);
        }
        let records = after(&[
            "state=working:id=a:progress=1",
            "state=working:id=b:progress=2",
            "state=working:id=a:progress=3",
        ]);
        assert_eq!(records.aggregate().and_then(|aggregate| aggregate.progress), Some(3));
        assert_eq!(after(&[]).aggregate(), None);
    }

    #[test]
    fn the_app_comes_from_the_nearest_ancestor() {
        let app = |reports: &[&str]| after(reports).aggregate().and_then(|aggregate| aggregate.app);
        let root = ["state=idle:app=pi", "state=working:id=a/b/c"];
        assert_eq!(app(&root).as_deref(), Some("pi"));
        let nearer = ["state=idle:app=pi", "state=idle:id=a:app=claude", "state=working:id=a/b/c"];
        assert_eq!(app(&nearer).as_deref(), Some("claude"));
    }

    #[test]
    fn a_shell_prompt_ends_what_ran_and_a_reset_ends_all() {
        let all = [
            "state=idle",
            "state=working:id=w",
            "state=blocked:id=b",
            "state=done:id=d",
            "state=error:id=e",
        ];
        assert_eq!(ids(&after(&[all.as_slice(), &["prompt"]].concat())), ["d", "e"]);
        assert_eq!(ids(&after(&[all.as_slice(), &["reset"]].concat())), [""; 0]);
    }
}
