//! The environment, result, and admission of commands.

use meerkat_tools::{Policy, ShellOptions};
use serde_json::json;

use crate::support::{World, unsandboxed};

#[tokio::test]
async fn command_environment_has_no_secrets() {
    let reply = World::with_shell(unsandboxed()).shell("env").await;
    assert!(!reply["stdout"].as_str().unwrap().contains("SECRET"), "{reply}");
}

#[tokio::test]
async fn nonzero_exit_code_is_not_a_failure() {
    let mut reply = World::with_shell(unsandboxed()).shell("echo out; echo err >&2; exit 7").await;
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
async fn command_has_no_stdin_and_no_terminal() {
    let reply = World::with_shell(unsandboxed()).shell("cat; tty; exec 3</dev/tty").await;
    assert_eq!(reply["stdout"], "not a tty\n", "{reply}");
    assert_ne!(reply["exit_code"], 0);
}

#[tokio::test]
async fn long_output_keeps_its_end_and_is_stored() {
    let world = World::with_shell(unsandboxed());
    let reply = world.shell("seq 1 100000").await;
    let stdout = reply["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("[… 488895 bytes omitted before this; blob sha256:00"), "{}", &stdout[..120]);
    assert!(stdout.ends_with("\n99999\n100000\n"));
    let id = format!("sha256:{}", "0".repeat(64));
    let inspected = world.json("blob_inspect", json!({ "blob_id": id })).await;
    assert_eq!(inspected, json!({ "blob_id": id, "media_type": "text/plain", "size_bytes": 588_895 }));
}

#[tokio::test]
async fn non_utf8_output_is_flagged() {
    let reply = World::with_shell(unsandboxed()).shell("printf 'a\\377b'").await;
    assert_eq!((&reply["stdout"], &reply["stdout_lossy"]), (&json!("a\u{fffd}b"), &json!(true)));
}

#[tokio::test]
async fn working_directory_stays_in_the_workspace() {
    let world = World::with_shell(unsandboxed());
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
async fn disallowed_command_is_not_run() {
    let policy = Policy::Allow(vec!["git *".to_owned(), "touch made".to_owned()]);
    let world = World::with_shell(ShellOptions { policy, ..unsandboxed() });
    let (kind, message) = world.failure("shell", json!({ "command": "git status; touch other" })).await;
    let expected = "`touch other` is not an allowed command (`shell.security_patterns`)";
    assert_eq!((kind.as_str(), message.as_str()), ("access_denied", expected));
    assert_eq!(world.shell("touch made").await["exit_code"], 0);
    assert_eq!((world.read("made").is_some(), world.read("other")), (true, None));
}

#[tokio::test]
async fn policies_require_a_supported_shell() {
    let policy = Policy::Deny(vec!["rm *".to_owned()]);
    let program = Some("/bin/true".to_owned());
    let world = World::with_shell(ShellOptions { policy, program, ..unsandboxed() });
    let (kind, message) = world.failure("shell", json!({ "command": "ls" })).await;
    let expected =
        "`shell.security_patterns` require `shell.program` to be `sh`, `bash`, or `dash`, not `true`";
    assert_eq!((kind.as_str(), message.as_str()), ("access_denied", expected));
}
