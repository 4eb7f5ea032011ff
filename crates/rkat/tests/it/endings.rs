//! However `rkat` ends, nothing that an MCP server started is left: neither the server, nor what it started, nor
//! who watches it.

#![cfg(target_os = "linux")]

use meerkat_testkit::Forks;

use crate::support::Rkat;

/// How often each ending is tried.
const TIMES: usize = 20;

fn with_forks() -> (Rkat, Forks) {
    let rkat = Rkat::new();
    let forks = Forks::new(&rkat.work());
    std::fs::create_dir_all(rkat.home().join(".rkat")).unwrap();
    std::fs::write(rkat.home().join(".rkat/mcp.toml"), forks.toml("forks")).unwrap();
    (rkat, forks)
}

/// Runs a prompt to its end, with a server that is there before it begins.
fn ends_by_itself(prompt: &str, code: i32) {
    for _ in 0..TIMES {
        let (rkat, forks) = with_forks();
        let done = rkat.args(["run", "--wait-for-mcp", "-m", "offline", prompt]).run();
        assert_eq!(done.code, Some(code), "{done}");
        forks.assert_none_left();
    }
}

/// Ends a run with a signal while its server and all that it started are there.
fn ends_by(signal: &str, code: Option<i32>) {
    for _ in 0..TIMES {
        let (rkat, forks) = with_forks();
        let mut run = rkat.args(["run", "-v", "--wait-for-mcp", "-m", "offline", "wait 60000"]).start();
        run.wait_for_step();
        forks.await_all();
        run.signal(signal);
        let done = run.finish();
        assert_eq!(done.code, code, "{done}");
        forks.assert_none_left();
    }
}

#[test]
fn a_run_that_ends_well_leaves_nothing() {
    ends_by_itself("call forks__greet {}\nthen\nsay done", 0);
}

#[test]
fn a_run_that_fails_leaves_nothing() {
    ends_by_itself("fail auth", 1);
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    ends_by("INT", Some(130));
}

#[test]
fn a_terminated_run_leaves_nothing() {
    ends_by("TERM", Some(130));
}

#[test]
fn a_killed_run_leaves_nothing() {
    ends_by("KILL", None);
}
