//! Pipes: readers that go away, and what must not be in them.

use std::path::Path;
use std::process::Stdio;

use crate::support::Rkat;

/// The writing end of a pipe that nobody reads.
fn unread() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let rkat = Rkat::new();
    rkat.session("say one");
    let lines: [&[&str]; 8] = [
        &["session", "list"],
        &["session", "show", "last", "--json"],
        &["config", "get"],
        &["completions", "bash"],
        &["capabilities"],
        &["run", "say hi"],
        &["run", "--stream", "say hi"],
        &["run", "-v", "say hi"],
    ];
    for line in lines {
        let command = || {
            let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
            command.args(line).stdin(Stdio::null());
            command
        };
        let done = command().stdout(unread()).output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), stderr.contains("panicked")), (Some(0), false), "{line:?}: {stderr}");
        let both = command().stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(both.code(), Some(0), "{line:?}");
    }
    let failed =
        rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat"))).arg("fail auth").stderr(unread()).status();
    assert_eq!(failed.unwrap().code(), Some(1));
}

#[test]
fn a_run_whose_reader_goes_away_is_kept_whole() {
    let rkat = Rkat::new();
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    command.args(["run", "--stream", "say one\nsay two"]).stdin(Stdio::null());
    command.stdout(unread()).stderr(unread()).status().unwrap();
    let shown = rkat.args(["session", "show", "last", "--json"]).run().json();
    assert_eq!(shown["state"]["last_assistant_text"], "one\ntwo");
}

#[test]
fn there_are_no_colours_and_no_secrets_in_pipes() {
    let rkat = Rkat::new();
    let secret = "sk-ant-secret";
    let lines: [&[&str]; 6] = [
        &["run", "-v", "say hi"],
        &["run", "--json", "fail auth"],
        &["session", "list"],
        &["config", "get", "--with-generation"],
        &["capabilities"],
        &["--help"],
    ];
    for line in lines {
        let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
        command.args(line).stdin(Stdio::null()).env_remove("NO_COLOR").env("TERM", "xterm-256color");
        let done = command.env("ANTHROPIC_API_KEY", secret).env("OPENAI_API_KEY", secret).output().unwrap();
        let all =
            format!("{}{}", String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
        assert!(!all.contains('\u{1b}') && !all.contains(secret), "{line:?}: {all}");
    }
}
