//! The command `agent-presence`.

fn main() {}
