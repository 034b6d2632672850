//! What the system gives: time, randomness, private files and sockets, locks, peers, processes,
//! terminals. All `unsafe` code is here or in `wrap`, and all types of nix stay here.

pub(crate) mod clock;
pub(crate) mod kept_file;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod socket;
