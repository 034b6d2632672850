//! The rules of the house that ARCHITECTURE.md states, checked on the source text.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

/// Every `.rs` file below a folder of the crate, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root).unwrap().to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no source in {folder}");
    found
}

/// The lines of code: no comments, since documentation may name anything, and no tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .map(str::trim)
        .filter(|line| !line.starts_with("//"))
}

/// Whether `word` is in `line`, and not as the end of a longer one.
fn holds(line: &str, word: &str) -> bool {
    let begins_here = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(place, _)| begins_here(&line[..place]))
}

/// The files of `folder` in which a line of code holds one of `words`, unless the path begins with
/// one of `but_in`.
fn users_of(folder: &str, words: &[&str], but_in: &[&str]) -> Vec<String> {
    let mut users = Vec::new();
    for (path, text) in sources(folder) {
        if but_in.iter().any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        for line in code(&text) {
            if words.iter().any(|word| holds(line, word)) {
                users.push(format!("{}: {line}", path.display()));
            }
        }
    }
    users
}

const NOBODY: [&str; 0] = [];

#[test]
fn the_faces_know_neither_each_other_nor_the_house() {
    let rooms = ["cli", "hooks", "hub", "link", "presence", "session", "store", "wrap"];
    for (face, other) in [("herdr", "collie"), ("collie", "herdr")] {
        let mut forbidden: Vec<String> =
            rooms.iter().map(|room| format!("crate::{room}")).collect();
        forbidden.push(format!("crate::{other}"));
        let forbidden: Vec<&str> = forbidden.iter().map(String::as_str).collect();
        assert_eq!(users_of(face, &forbidden, &[]), NOBODY);
    }
}

#[test]
fn a_session_knows_nobody() {
    let forbidden =
        ["crate::", "std::time::SystemTime", "Instant::now", "std::io", "std::fs", "tokio"];
    assert_eq!(users_of("src/session", &forbidden, &[]), NOBODY);
}

#[test]
fn the_system_knows_nobody() {
    let allowed = |user: &String| user.contains("crate::os");
    let mut users = users_of("src/os", &["crate::"], &[]);
    users.retain(|user| !allowed(user));
    assert_eq!(users, NOBODY);
}

#[test]
fn unsafe_code_is_in_its_two_rooms() {
    let rooms = ["src/os", "src/wrap"];
    for folder in ["src", "herdr", "collie"] {
        assert_eq!(users_of(folder, &["unsafe {", "unsafe fn", "unsafe impl"], &rooms), NOBODY);
    }
}

#[test]
fn types_of_nix_stay_in_their_two_rooms() {
    for folder in ["src", "herdr", "collie"] {
        assert_eq!(users_of(folder, &["nix::"], &["src/os", "src/wrap"]), NOBODY);
    }
}

/// Who uses the crate sees nothing of what it is built on: neither in a signature nor in a public field.
#[test]
fn no_public_signature_names_what_it_is_built_on() {
    let built_on =
        ["nix", "hyper", "hyper_util", "http_body_util", "bytes", "tokio", "ratatui", "clap"];
    let mut found = Vec::new();
    for folder in ["src", "herdr", "collie"] {
        for (path, text) in sources(folder) {
            let code: Vec<&str> = code(&text).collect();
            let code = code.join(" ");
            let mut words: Vec<String> = built_on.iter().map(|name| format!("{name}::")).collect();
            for import in code.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
                if built_on.iter().any(|name| import.starts_with(&format!("{name}::"))) {
                    let names = import.split(|c: char| !c.is_alphanumeric() && c != '_');
                    let is_type = |name: &&str| name.starts_with(char::is_uppercase);
                    words.extend(names.filter(is_type).map(str::to_owned));
                }
            }
            for public in code.split("pub ").skip(1) {
                let signature = public.split(['{', ';', '=']).next().unwrap();
                let is_type = signature.starts_with("struct ") || signature.starts_with("enum ");
                // The fields of a type have a `pub` of their own, or are nobody's business.
                let signature = if is_type { "" } else { signature };
                if words.iter().any(|word| holds(signature, word)) {
                    found.push(format!("{}: {signature}", path.display()));
                }
            }
        }
    }
    assert_eq!(found, NOBODY);
}

/// `cli/` and `wrap/` see the presence, never a transport: the words of the wires are not theirs.
#[test]
fn the_ways_in_know_no_wire() {
    let wire = ["hyper::", "/durable/v1", "agent_session_id", "resume_argv"];
    for folder in ["src/cli", "src/wrap", "src/presence", "src/session", "src/link"] {
        assert_eq!(users_of(folder, &wire, &[]), NOBODY);
    }
    assert_eq!(users_of("collie", &["/durable/v1"], &["collie/wire"]), NOBODY);
}

/// rustfmt does not follow a module that a macro declares, and says nothing.
#[test]
fn modules_are_plain_items() {
    for folder in ["src", "herdr", "collie"] {
        for (path, text) in sources(folder) {
            let inside = text.lines().find(|line| {
                let word = line.trim_start();
                word.len() < line.len()
                    && word.ends_with(';')
                    && (word.starts_with("mod ") || word.starts_with("pub mod "))
            });
            assert_eq!(inside, None, "{}", path.display());
        }
    }
}

/// A file that needs more is two files. Tests do not count.
#[test]
fn no_file_is_longer_than_600_lines() {
    for folder in ["src", "herdr", "collie"] {
        for (path, text) in sources(folder) {
            if path.ends_with("tests.rs") {
                continue;
            }
            let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
            assert!(lines <= 600, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn the_program_is_called_and_nothing_else() {
    let main = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs"));
    assert!(main.unwrap().lines().count() < 20);
}

/// The README's first command is `cargo run`, and there are helper programs to run as well.
#[test]
fn cargo_run_is_the_command_itself() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    assert!(manifest.unwrap().contains("\ndefault-run = \"agent-presence\"\n"));
}

#[test]
fn the_changelog_names_this_version() {
    let changelog = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CHANGELOG.md"));
    let version = format!("## {}", env!("CARGO_PKG_VERSION"));
    let changelog = changelog.unwrap();
    assert!(changelog.contains("## Unreleased") || changelog.contains(&version));
}
