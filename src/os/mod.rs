//! What the system gives: time, randomness, private files and sockets, locks, peers, processes,
//! terminals. All `unsafe` code is here or in `wrap`, and all types of nix stay here.

pub(crate) mod clock;
pub(crate) mod leader;
pub(crate) mod pty;
pub(crate) mod random;
pub(crate) mod signals;
pub(crate) mod terminal;
