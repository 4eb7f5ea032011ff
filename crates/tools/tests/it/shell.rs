//! What a command is given, what comes back, and which are run at all.

use meerkat_tools::{Policy, ShellOptions};
use serde_json::json;

use crate::support::{World, free};

#[tokio::test]
async fn a_command_gets_no_secret_of_the_environment() {
    let reply = World::with_shell(free()).shell("env").await;
    assert!(!reply["stdout"].as_str().unwrap().contains("SECRET"), "{reply}");
}

#[tokio::test]
async fn an_exit_code_is_no_failure() {
    let mut reply = World::with_shell(free()).shell("echo out; echo err >&2; exit 7").await;
    reply["duration_secs"] = json!(0);
    assert_eq!(
        reply,
        json!({
            "exit_code": 7, "stdout": "out\n", "stderr": "err\n", "timed_out": false, "duration_secs": 0,
            "stdout_lossy": false, "stderr_lossy": false, "sandbox": "off",
        })
    );
}

#[tokio::test]
async fn a_command_reads_nothing_and_has_no_terminal() {
    let reply = World::with_shell(free()).shell("cat; tty; exec 3</dev/tty").await;
    assert_eq!(reply["stdout"], "not a tty\n", "{reply}");
    assert_ne!(reply["exit_code"], 0);
}

#[tokio::test]
async fn long_output_keeps_its_end_and_becomes_a_blob() {
    let world = World::with_shell(free());
    let reply = world.shell("seq 1 100000").await;
    let shown = reply["stdout"].as_str().unwrap();
    assert!(shown.starts_with("[… 488895 bytes left out before this; blob sha256:00"), "{}", &shown[..120]);
    assert!(shown.ends_with("\n99999\n100000\n"));
    let id = format!("sha256:{}", "0".repeat(64));
    let inspected = world.json("blob_inspect", json!({ "blob_id": id })).await;
    assert_eq!(inspected, json!({ "blob_id": id, "media_type": "text/plain", "size_bytes": 588_895 }));
}

#[tokio::test]
async fn bytes_that_are_no_text_are_told() {
    let reply = World::with_shell(free()).shell("printf 'a\\377b'").await;
    assert_eq!((&reply["stdout"], &reply["stdout_lossy"]), (&json!("a\u{fffd}b"), &json!(true)));
}

#[tokio::test]
async fn a_working_folder_stays_in_the_workspace() {
    let world = World::with_shell(free());
    world.write("sub/file", "x");
    world.link("out", "/etc");
    let reply = world.json("shell", json!({ "command": "ls", "working_dir": "sub" })).await;
    assert_eq!(reply["stdout"], "file\n");
    for bad in ["..", "/etc", "out", "sub/../.."] {
        let (kind, _) = world.failure("shell", json!({ "command": "ls", "working_dir": bad })).await;
        assert_eq!(kind, "access_denied", "{bad}");
    }
}

#[tokio::test]
async fn a_command_that_is_not_allowed_is_not_run() {
    let policy = Policy::Allow(vec!["git *".to_owned(), "touch made".to_owned()]);
    let world = World::with_shell(ShellOptions { policy, ..free() });
    let (kind, said) = world.failure("shell", json!({ "command": "git status; touch other" })).await;
    let expected = "`touch other` is not among the commands that are allowed here";
    assert_eq!((kind.as_str(), said.as_str()), ("access_denied", expected));
    assert_eq!(world.shell("touch made").await["exit_code"], 0);
    assert_eq!((world.read("made").is_some(), world.read("other")), (true, None));
}

#[tokio::test]
async fn restrictions_need_a_shell_whose_language_is_known() {
    let policy = Policy::Deny(vec!["rm *".to_owned()]);
    let program = Some("/bin/true".to_owned());
    let world = World::with_shell(ShellOptions { policy, program, ..free() });
    let (kind, said) = world.failure("shell", json!({ "command": "ls" })).await;
    let expected = "`shell.security_patterns` need `shell.program` to be `sh`, `bash` or `dash`, not `true`";
    assert_eq!((kind.as_str(), said.as_str()), ("access_denied", expected));
}
