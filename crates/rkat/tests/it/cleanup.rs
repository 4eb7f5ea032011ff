//! However `rkat` exits, it leaves no process behind: neither an MCP server, nor its children, nor its supervisor.

#![cfg(target_os = "linux")]

use meerkat_testkit::ForkingServer;

use crate::support::Rkat;

/// Number of repetitions of each test.
const REPETITIONS: usize = 20;

fn with_forks() -> (Rkat, ForkingServer) {
    let rkat = Rkat::new();
    let forks = ForkingServer::new(&rkat.work());
    std::fs::create_dir_all(rkat.home().join(".rkat")).unwrap();
    std::fs::write(rkat.home().join(".rkat/mcp.toml"), forks.toml("forks")).unwrap();
    (rkat, forks)
}

/// Runs a prompt to its end, with a server that is connected before the run starts.
fn assert_clean_exit(prompt: &str, code: i32) {
    for _ in 0..REPETITIONS {
        let (rkat, forks) = with_forks();
        let done = rkat.args(["run", "--wait-for-mcp", "-m", "offline", prompt]).run();
        assert_eq!(done.code, Some(code), "{done}");
        forks.assert_none_left();
    }
}

/// Ends a run with a signal while its server and all child processes are running.
fn assert_clean_exit_after(signal: &str, code: Option<i32>) {
    for _ in 0..REPETITIONS {
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
fn successful_run_leaves_no_processes() {
    assert_clean_exit("call forks__greet {}\nthen\nsay done", 0);
}

#[test]
fn failed_run_leaves_no_processes() {
    assert_clean_exit("fail auth", 1);
}

#[test]
fn interrupted_run_leaves_no_processes() {
    assert_clean_exit_after("INT", Some(130));
}

#[test]
fn terminated_run_leaves_no_processes() {
    assert_clean_exit_after("TERM", Some(130));
}

#[test]
fn killed_run_leaves_no_processes() {
    assert_clean_exit_after("KILL", None);
}
