//! What the system gives: time, randomness, private files and sockets, locks, peers, processes,
//! terminals. All `unsafe` code is here or in `wrap`, and all types of nix stay here.

pub(crate) mod clock;
pub(crate) mod console;
pub(crate) mod folders;
pub(crate) mod kept_file;
pub(crate) mod leader;
pub(crate) mod peer;
pub(crate) mod private;
pub(crate) mod process;
pub(crate) mod pty;
pub(crate) mod random;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod terminal;
pub(crate) mod wait;
pub(crate) mod wake;

/// The machine's name, as far as the system says.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
