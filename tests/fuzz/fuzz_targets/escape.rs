//! How a terminal's output is cut changes nothing in the sequences that are found in it.
#![no_main]

// The file itself, because it is private to the crate.
#[allow(dead_code)]
#[path = "../../../src/wrap/escape.rs"]
mod escape;

use libfuzzer_sys::fuzz_target;

fn found(bytes: &[u8], part: usize) -> (Vec<String>, bool) {
    let mut parser = escape::Parser::default();
    let mut found = Vec::new();
    for bytes in bytes.chunks(part) {
        parser.feed(bytes, |sequence| found.push(format!("{sequence:?}")));
    }
    (found, parser.is_inside())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((part, bytes)) = bytes.split_first() else { return };
    let whole = found(bytes, bytes.len().max(1));
    assert_eq!(found(bytes, usize::from(*part).max(1)), whole);
    assert_eq!(found(bytes, 1), whole);
});
