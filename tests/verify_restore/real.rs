//! A real Herdr, where there is one: `AGENT_PRESENCE_TEST_HERDR`, else `herdr` on `PATH`. (Not run yet.)

use super::*;
use std::env;

#[test]
fn a_real_herdr_brings_an_agent_back() {
    let named = env::var_os("AGENT_PRESENCE_TEST_HERDR").map(PathBuf::from);
    let Some(program) = named.or_else(|| which::which("herdr").ok()) else {
        println!("skipped: no herdr");
        return;
    };
    let author = Author::new();
    author.agent("my-agent", &format!("{REPORT}\nexec cat"));
    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--json", "--herdr"]).arg(program);
    Verdict::of(command.args(["--", "my-agent"]).output().unwrap()).assert_passed();
    author.assert_clean();
}
