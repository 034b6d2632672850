//! See `oracle::body`.
#![no_main]

#[allow(dead_code)]
#[path = "../../collie/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::body(bytes));
