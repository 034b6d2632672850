//! OSC 7501, the Program Status Protocol: how a program tells its terminal what it is doing.
//!
//! [`Scanner`] finds what concerns it in a program's output, [`Records`] keeps what was said and tells
//! what it amounts to.
//!
//! ```
//! use agent_presence::wrap::program_status::{Records, Scanner, State};
//!
//! let (mut scanner, mut records) = (Scanner::default(), Records::default());
//! for chunk in [&b"\x1b]7501;state=wor"[..], b"king:progress=40\x1b\\ and text"] {
//!     scanner.feed(chunk, |event| records.apply(event));
//! }
//! let aggregate = records.aggregate().expect("a record is there");
//! assert_eq!((aggregate.state, aggregate.progress), (State::Working, Some(40)));
//! ```

mod records;
mod report;
mod scanner;

pub use records::{Aggregate, Records};
pub use report::{Kind, Record, Report, State};
pub(super) use scanner::event;
pub use scanner::{Event, Scanner};
