//! Sources of the prompt.

use std::fs::File;
use std::path::Path;

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn missing_or_dash_prompt_is_read_from_stdin() {
    let rkat = Rkat::new();
    for args in [&["run", "-q"][..], &["run", "-q", "-"]] {
        assert_eq!(rkat.args(args.iter().copied()).stdin("say from stdin\n").run().text(), "from stdin\n");
    }
}

/// Returns the last user message.
fn sent(rkat: &Rkat) -> String {
    let session = rkat.args(["session", "show", "last", "--json"]).run().json();
    let messages = session["messages"].as_array().unwrap();
    let last = messages.iter().rfind(|message| message["role"] == "user").unwrap();
    last["content"].as_str().unwrap().to_owned()
}

const BOTH: &str = "say done\n\n<stdin>\nsome notes\n</stdin>";

#[test]
fn pipe_is_sent_with_the_prompt() {
    let rkat = Rkat::new();
    let lines: [&[&str]; 3] =
        [&["run", "-q", "say done"], &["run", "-q", "--stdin", "say done"], &["-q", "say done"]];
    for line in lines {
        let done = rkat.args(line.iter().copied()).stdin("some notes\n").run();
        assert_eq!(
            (done.text(), done.stderr.as_str(), sent(&rkat).as_str()),
            ("done\n", "", BOTH),
            "{line:?}"
        );
    }
}

#[test]
fn file_is_sent_with_the_prompt() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("notes"), "some notes\n").unwrap();
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    command.args(["run", "-q", "say done"]).stdin(File::open(rkat.work().join("notes")).unwrap());
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap(), "done\n");
    assert_eq!(sent(&rkat), BOTH);
}

#[test]
fn input_above_the_limit_is_rejected() {
    let rkat = Rkat::new();
    let long = format!("say {}", "x".repeat(64 * 1024 * 1024));
    for args in [&["run", "-q"][..], &["run", "-q", "-"], &["run", "-q", "--json", "say done"]] {
        let done = rkat.args(args.iter().copied()).stdin(&long).run();
        assert_eq!(done.code, Some(2), "{done}");
        assert!(done.stderr.starts_with("error: stdin is longer than 64 MiB"), "{done}");
    }
    assert_eq!(rkat.args(["session", "list"]).run().stdout, "");
}

#[test]
fn empty_input_is_not_sent() {
    let rkat = Rkat::new();
    let lines: [(&[&str], Option<&str>); 4] = [
        (&["run", "-q", "say done"], None),
        (&["run", "-q", "say done"], Some("")),
        (&["run", "-q", "--no-stdin", "say done"], Some("some notes")),
        (&["run", "-q", "--stdin", "say done"], None),
    ];
    for (line, input) in lines {
        let done = rkat.args(line.iter().copied());
        let done = input.map_or_else(|| rkat.args(line.iter().copied()), |input| done.stdin(input)).run();
        assert_eq!((done.text(), sent(&rkat).as_str()), ("done\n", "say done"), "{line:?}");
    }
}

#[test]
fn silent_pipe_is_neither_awaited_nor_dropped() {
    let rkat = Rkat::new();
    let silent = rkat.args(["run", "-q", "say done"]).open_stdin().run();
    assert_snapshot!(silent, @r"
    --- stderr
    waiting for stdin to end (it is sent with the prompt); `--no-stdin` ignores it
    error: stdin is open and sent nothing; pass `--stdin` to wait for it, or `--no-stdin` to ignore it [INVALID_PARAMS]
    --- exit 2
    ");
    let ignored = rkat.args(["run", "-q", "--no-stdin", "say done"]).open_stdin().run();
    assert_eq!((ignored.text(), ignored.stderr.as_str()), ("done\n", ""));
}

#[test]
fn slow_pipe_is_announced_and_read() {
    let rkat = Rkat::new();
    let mut slow = rkat.args(["run", "-q", "--stdin", "say done"]).open_stdin().start();
    slow.wait_for("waiting for stdin to end");
    slow.write_stdin("some notes\n");
    assert_eq!(slow.finish().text(), "done\n");
    assert_eq!(sent(&rkat), BOTH);
    let mut prompt = rkat.args(["run", "-q"]).open_stdin().start();
    prompt.wait_for("waiting for the prompt on stdin");
    prompt.write_stdin("say late");
    assert_eq!(prompt.finish().text(), "late\n");
}

#[test]
fn binary_stdin_is_rejected() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("image"), b"\xff\xd8\xff").unwrap();
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    let done =
        command.args(["run", "say done"]).stdin(File::open(rkat.work().join("image")).unwrap()).output();
    let done = done.unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert_eq!(
        (done.status.code(), stderr.as_str()),
        (Some(2), "error: stdin is not UTF-8 text [INVALID_PARAMS]\n")
    );
}

#[test]
fn empty_prompt_is_rejected() {
    assert_snapshot!(Rkat::new().args(["run", "-"]).stdin("").run(), @r"
    --- stderr
    error: `prompt` is empty and there are no `tool_results` or `approvals` [INVALID_PARAMS]
    --- exit 2
    ");
}
