//! Hooks: well-behaved and misbehaving Python scripts, and hook files.

use std::path::Path;
use std::time::{Duration, Instant};

use meerkat_testkit::{assert_no_process_with_mark, mark, processes_with_mark};
use serde_json::{Value, json};

use crate::support::{Output, Rkat};

/// Script of a hook that reads its input and acts on the words of the prompt.
const GUARD: &str = r#"
import json, os, sys, time
event = json.load(sys.stdin)
words = event.get("prompt", "").split()
if "allow" in words:
    print(json.dumps({"decision": {"decision": "allow"}}))
elif "deny" in words:
    print(json.dumps({"decision": {"decision": "deny", "reason_code": "policy_violation", "message": "Not today."}}))
elif "hang" in words:
    time.sleep(1000)
elif "crash" in words:
    raise RuntimeError("out of order")
elif "garbage" in words:
    print("<html>not an answer</html>")
elif "flood" in words:
    sys.stdout.write("x" * 1000000)
elif "leave" in words:
    os.kill(os.getpid(), 9)
"#;

fn entry(id: &str, capability: &str, args: &[&str]) -> Value {
    json!({
        "id": id, "point": "run_started", "capability": capability, "timeout_ms": 3000,
        "runtime": {"type": "command", "command": "python3", "args": args},
    })
}

/// Runs a prompt under the hook, and returns the exit code and the last relevant line of output.
fn run(rkat: &Rkat, prompt: &str) -> (Option<i32>, String) {
    let done = rkat.args(["run", prompt]).env("PATH", "/usr/local/bin:/usr/bin:/bin").run();
    let output = if done.code == Some(0) { &done.stdout } else { &done.stderr };
    (
        done.code,
        output
            .lines()
            .rfind(|line| line.contains("guard") || done.code == Some(0))
            .unwrap_or_default()
            .to_owned(),
    )
}

#[test]
fn hook_script_outcomes_are_handled() {
    let rkat = Rkat::new();
    let guard = json!({"hooks": {"entries": [entry("guard", "guardrail", &["-c", GUARD])]}}).to_string();
    rkat.args(["config", "patch", "--json", &guard]).run();
    let table = [
        ("say allow", Some(0), "allow"),
        ("say nothing special", Some(0), "nothing special"),
        ("say deny", Some(1), "Not today."),
        ("say hang", Some(1), "timed out after 3000 ms"),
        ("say crash", Some(1), "RuntimeError: out of order"),
        ("say garbage", Some(1), "invalid output"),
        ("say flood", Some(1), "wrote more than 131072 bytes"),
        ("say leave", Some(1), "signal: 9"),
    ];
    for (prompt, code, expected) in table {
        let result = run(&rkat, prompt);
        assert!(result.0 == code && result.1.contains(expected), "{prompt}: {result:?}");
    }
    // An observer that fails in the same ways never blocks a run.
    let watch = json!({"hooks": {"entries": [entry("guard", "observe", &["-c", GUARD])]}}).to_string();
    rkat.args(["config", "patch", "--json", &watch]).run();
    for (prompt, ..) in table {
        assert_eq!(run(&rkat, prompt), (Some(0), prompt.trim_start_matches("say ").to_owned()), "{prompt}");
    }
}

/// Adds a shell command as a hook of `run_started`.
fn add_shell_hook(rkat: &Rkat, script: &str) {
    let hook = json!({
        "id": "h", "point": "run_started", "timeout_ms": 60_000,
        "runtime": {"type": "command", "command": "/bin/sh", "args": ["-c", script]},
    });
    let patch = json!({"hooks": {"entries": [hook]}}).to_string();
    assert_eq!(rkat.args(["config", "patch", "--json", &patch]).run().code, Some(0));
}

#[test]
fn escaped_children_end_with_their_hook() {
    let (rkat, mark) = (Rkat::new(), mark());
    let child = format!("sleep {mark}");
    add_shell_hook(&rkat, &format!("cat >/dev/null; setsid {child} >/dev/null 2>&1 & ({child} &)"));
    assert_eq!(run_in_work_dir(&rkat, &["run", "-q", "say hi"]).text(), "hi\n");
    assert_no_process_with_mark(&mark);
}

#[test]
fn killed_rkat_takes_its_hooks_with_it() {
    let (rkat, mark) = (Rkat::new(), mark());
    add_shell_hook(&rkat, &format!("cat >/dev/null; setsid sleep {mark}"));
    let run = rkat.args(["run", "say hi"]).env("PATH", "/usr/bin:/bin").start();
    let has_started = || processes_with_mark(&mark).iter().any(|line| line.starts_with("sleep"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_started() {
        assert!(Instant::now() < deadline, "the hook did not start");
    }
    run.signal("KILL");
    run.finish();
    assert_no_process_with_mark(&mark);
}

/// Returns a hook that appends its id to a file when it is called.
fn marker_hook(id: &str, mark: &Path) -> String {
    format!(
        "[[hooks.entries]]\nid = \"{id}\"\npoint = \"run_started\"\n[hooks.entries.runtime]\ntype = \"command\"\n\
         command = \"sh\"\nargs = [\"-c\", \"echo {id} >> {}\"]\n",
        mark.display()
    )
}

fn write(dir: &Path, text: &str) {
    std::fs::create_dir_all(dir.join(".rkat")).unwrap();
    std::fs::write(dir.join(".rkat/config.toml"), text).unwrap();
}

fn run_in_work_dir(rkat: &Rkat, args: &[&str]) -> Output {
    rkat.args(args.iter().copied()).env("PATH", "/usr/local/bin:/usr/bin:/bin").run()
}

#[test]
fn untrusted_clone_starts_nothing() {
    let rkat = Rkat::new();
    let mark = rkat.home().join("mark");
    write(&rkat.work(), &marker_hook("hostile", &mark));
    let inner = rkat.work().join("deep/er");
    std::fs::create_dir_all(&inner).unwrap();
    for args in [
        &["run", "say hi"][..],
        &["mcp", "list"],
        &["skill", "list"],
        &["session", "list"],
        &["doctor"],
        &["config", "get"],
    ] {
        let done = run_in_work_dir(&rkat, args);
        assert!(done.code == Some(0) && !mark.exists(), "{args:?}: {done}");
        let done = rkat.args(args.iter().copied()).current_dir(&inner).run();
        assert!(done.code == Some(0) && !mark.exists(), "{args:?} from within: {done}");
    }
    let done = run_in_work_dir(&rkat, &["run", "say hi"]);
    let notice = "notice: ignoring hooks in [dir]/work/.rkat/config.toml: not trusted; review it, then run `rkat trust`";
    assert!(rkat.redact(&done.stderr).contains(notice), "{done}");
}

#[test]
fn hooks_run_in_user_project_realm_order() {
    let rkat = Rkat::new();
    let mark = rkat.home().join("mark");
    write(&rkat.home(), &marker_hook("user", &mark));
    write(&rkat.work(), &marker_hook("project", &mark));
    let realm = json!({
        "id": "realm", "point": "run_started",
        "runtime": {"type": "command", "command": "sh", "args": ["-c", format!("echo realm >> {}", mark.display())]},
    });
    rkat.args(["config", "patch", "--json", &json!({"hooks": {"entries": [realm]}}).to_string()]).run();
    let called = || {
        let _ = std::fs::remove_file(&mark);
        run_in_work_dir(&rkat, &["run", "say hi"]);
        std::fs::read_to_string(&mark).unwrap_or_default()
    };
    assert_eq!(called(), "user\nrealm\n");
    let trusted = run_in_work_dir(&rkat, &["trust"]);
    assert!(trusted.stdout.contains("config.toml and its hooks; run `rkat trust` again"), "{trusted}");
    assert_eq!(called(), "user\nproject\nrealm\n");
    write(&rkat.work(), &marker_hook("changed", &mark));
    assert_eq!(called(), "user\nrealm\n", "a changed file must be trusted again");
    run_in_work_dir(&rkat, &["trust"]);
    assert_eq!(called(), "user\nchanged\nrealm\n");
    run_in_work_dir(&rkat, &["trust", "--remove"]);
    assert_eq!(called(), "user\nrealm\n");
}

#[test]
fn invalid_hook_file_prevents_runs() {
    let rkat = Rkat::new();
    write(&rkat.home(), "[[hooks.entries]]\nid = \"guard\"\npoint = \"never\"\n");
    let done = run_in_work_dir(&rkat, &["run", "say hi"]);
    assert_ne!(done.code, Some(0));
    let location = "[dir]/home/.rkat/config.toml:3: `hooks.entries[0].point`: unknown variant `never`";
    assert!(rkat.redact(&done.stderr).contains(location), "{done}");
    let report = run_in_work_dir(&rkat, &["doctor"]);
    assert!(report.code == Some(1) && rkat.redact(&report.stdout).contains(location), "{report}");
}

#[test]
fn guardrails_of_enclosing_project_apply() {
    let rkat = Rkat::new();
    let (mark, repo) = (rkat.home().join("mark"), rkat.work());
    write(&repo, &marker_hook("repo", &mark));
    for dir in ["pkg", "sub/.git", "tools/.rkat"] {
        std::fs::create_dir_all(repo.join(dir)).unwrap();
    }
    std::fs::write(repo.join("tools/.rkat/mcp.toml"), "").unwrap();
    let runs = |args: &[&str], dir: &str| {
        let _ = std::fs::remove_file(&mark);
        let run = rkat.args(args.iter().copied().chain(["run", "say hi"])).current_dir(&repo.join(dir));
        let done = run.env("PATH", "/usr/local/bin:/usr/bin:/bin").run();
        assert_eq!(done.code, Some(0), "{done}");
        (std::fs::read_to_string(&mark).unwrap_or_default(), rkat.redact(&done.stderr))
    };
    let table: [(&[&str], &str); 3] = [(&["--context-root", "pkg"], ""), (&[], "sub"), (&[], "tools")];
    for (args, dir) in table {
        let (called, output) = runs(args, dir);
        let notice = "ignoring hooks in [dir]/work/.rkat/config.toml: not trusted; review it, then run \
                      `rkat trust` in [dir]/work";
        assert!(called.is_empty() && output.contains(notice), "{args:?} {dir}: {output}");
    }
    run_in_work_dir(&rkat, &["trust"]);
    for (args, dir) in table {
        assert_eq!(runs(args, dir).0, "repo\n", "{args:?} {dir}");
    }
}
