//! A Herdr for tests: the model of its rules, a server on a socket, and (as the program `fake-herdr`)
//! its command line.
#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a helper of tests")]

pub(crate) mod model;
pub(crate) mod server;

pub(crate) use server::{Behaviour, FakeHerdr, Request, write_program};
