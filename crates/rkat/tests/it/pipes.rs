//! Pipes: closed and stalled readers, colors, and secrets.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::Rkat;

/// Returns the write end of a pipe without a reader.
fn closed_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

#[test]
fn closed_pipe_is_not_an_error() {
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
        let done = command().stdout(closed_pipe()).output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), stderr.contains("panicked")), (Some(0), false), "{line:?}: {stderr}");
        let both = command().stdout(closed_pipe()).stderr(closed_pipe()).status().unwrap();
        assert_eq!(both.code(), Some(0), "{line:?}");
    }
    let mut failing = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    let failed = failing.arg("fail auth").stdin(Stdio::null()).stderr(closed_pipe()).status();
    assert_eq!(failed.unwrap().code(), Some(1));
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_exits_1() {
    let rkat = Rkat::new();
    rkat.session("say one");
    let lines: [&[&str]; 8] = [
        &["run", "say hi"],
        &["run", "--json", "say hi"],
        &["run", "--stream", "say hi"],
        &["run", "--json", "fail auth"],
        &["session", "list"],
        &["session", "list", "--json"],
        &["realm", "list"],
        &["doctor"],
    ];
    for line in lines {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
        let done = command.args(line).stdin(Stdio::null()).stdout(full).output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(
            done.status.code() == Some(1) && stderr.contains("error: cannot write"),
            "{line:?}: {stderr}"
        );
        assert!(stderr.contains("No space left on device"), "{line:?}: {stderr}");
    }
    let listed = rkat.args(["session", "list", "--json"]).run().json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 5);
    assert_eq!(rkat.args(["run", "-q", "--resume", "say more"]).run().text(), "more\n");
}

#[test]
fn run_with_closed_pipe_is_stored_completely() {
    let rkat = Rkat::new();
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    command.args(["run", "--stream", "say one\nsay two"]).stdin(Stdio::null());
    command.stdout(closed_pipe()).stderr(closed_pipe()).status().unwrap();
    let session = rkat.args(["session", "show", "last", "--json"]).run().json();
    assert_eq!(session["state"]["last_assistant_text"], "one\ntwo");
}

#[test]
fn unread_stdout_does_not_block_the_run() {
    let rkat = Rkat::new();
    let answer = "word ".repeat(40_000);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    command.args(["run", "--stream", "-q", "-"]).stdin(Stdio::piped()).stdout(writer);
    let mut run = command.spawn().unwrap();
    drop(command);
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(format!("say {answer}").as_bytes()).unwrap();
    drop(stdin);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let listed = rkat.args(["session", "list", "--json"]).run().json();
        if listed["sessions"][0]["message_count"] == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "the run is blocked by its reader: {listed}");
    }
    assert!(run.try_wait().unwrap().is_none(), "the answer does not fit into the pipe");
    let mut printed = String::new();
    reader.read_to_string(&mut printed).unwrap();
    assert_eq!(printed.trim_end(), answer.trim_end());
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn unread_stderr_does_not_block_the_run() {
    let rkat = Rkat::new();
    let dir = rkat.work().join(".rkat");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), "[hooks]\nentries = []\n").unwrap();
    std::fs::write(dir.join("mcp.toml"), "[[servers]]\nname = \"x\"\ncommand = \"true\"\n").unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // Fill the pipe to capacity.
    writer.write_all(&[b'.'; 64 * 1024]).unwrap();
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    command.args(["run", "-q", "say hi"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    let mut run = command.spawn().unwrap();
    drop(command);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let listed = rkat.args(["session", "list", "--json"]).run().json();
        if listed["sessions"][0]["message_count"] == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "the run is blocked by its reader: {listed}");
    }
    assert!(run.try_wait().unwrap().is_none(), "notices do not fit into the pipe");
    let mut output = String::new();
    reader.read_to_string(&mut output).unwrap();
    for file in ["config.toml", "mcp.toml"] {
        assert!(output.contains(&format!("{file}: not trusted")), "{}", output.trim_start_matches('.'));
    }
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn pipes_get_no_colors_and_no_secrets() {
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
