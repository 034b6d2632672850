//! Records that outlive the process: what brings a session back.

mod record;
mod records;
mod word;

pub(crate) use record::Record;
pub(crate) use records::{MAX_AGE, Records};
pub(crate) use word::{Word, optional_path};
