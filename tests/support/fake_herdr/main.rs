//! The fake Herdr as a command.

fn main() {}
