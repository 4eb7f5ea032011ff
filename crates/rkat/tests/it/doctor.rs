//! `rkat doctor` and `rkat usage`.

use serde_json::{Value, json};

use crate::support::Rkat;

fn checks(report: &Value) -> Vec<String> {
    let line =
        |check: &Value| format!("{} {}", check["check"].as_str().unwrap(), check["health"].as_str().unwrap());
    report["checks"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn a_healthy_realm_is_said_to_be_so() {
    let report = Rkat::new().args(["doctor", "--json"]).run().json();
    assert_eq!(report["healthy"], true);
    assert_eq!(
        checks(&report),
        ["keys warning", "store ok", "config ok", "sandbox ok", "servers ok", "skills ok"]
    );
}

#[test]
fn what_is_wrong_is_said_with_what_to_do_and_without_secrets() {
    let rkat = Rkat::new();
    let hook = json!({"id": "h", "runtime": {"type": "command", "command": "no-such-program", "env": {"KEY": "canary-env"}}});
    let patch = json!({"hooks": {"entries": [hook]}}).to_string();
    rkat.args(["config", "patch", "--json", &patch]).run();
    let mut command = rkat.command(std::path::Path::new(env!("CARGO_BIN_EXE_rkat")));
    let done = command.args(["doctor", "--json"]).env("ANTHROPIC_API_KEY", "canary-key").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let shown = String::from_utf8(done.stdout).unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(!shown.contains("canary") && !told.contains("canary"), "{shown}{told}");
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        checks(&report),
        ["keys ok", "store ok", "config ok", "hooks fault", "sandbox ok", "servers ok", "skills ok"]
    );
    assert_eq!(report["checks"][3]["message"], "the program `no-such-program` of the hook `h` is not there");
}

/// Answers of `rkat` on kernels that can do less.
#[cfg(target_os = "linux")]
#[test]
fn a_sandbox_that_cannot_be_had_is_told_with_what_to_do() {
    use meerkat_testkit::{Lacking, on_lesser_kernel};
    let rkat = Rkat::new();
    let sandbox = |lacking| {
        let report = on_lesser_kernel(lacking, || rkat.args(["doctor", "--json"]).run().json());
        let found = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "sandbox");
        let found = found.unwrap();
        format!("{}: {}\n{}", found["health"], found["message"], found["fix"])
    };
    let told = [Lacking::Landlock, Lacking::Seccomp, Lacking::Namespaces].map(sandbox).join("\n\n");
    insta::assert_snapshot!(told, @r#"
    "warning": "shell commands are refused: this kernel does not confine programs (Landlock of Linux 6.2 or newer is needed)"
    "use Linux 6.2 or newer with Landlock and seccomp, or set `shell.sandbox` to `off`"

    "warning": "shell commands are refused: this kernel does not filter system calls (it lacks seccomp)"
    "use Linux 6.2 or newer with Landlock and seccomp, or set `shell.sandbox` to `off`"

    "warning": "shell commands run in a sandbox without mounts of its own: what a command makes in a directory that holds a secret file can be read by the next command only"
    "allow user namespaces, or say with `tools.secrets` what is no secret"
    "#);
    let call = r#"call shell {"command": "echo ran"}"#;
    let run = || {
        let args = ["run", "--tools", "workspace", call];
        on_lesser_kernel(Lacking::Landlock, || rkat.args(args).run().stdout)
    };
    let refused = "commands cannot be run in a sandbox here; the owner of this realm may set `shell.sandbox` to `off`: \
                   this kernel does not confine programs (Landlock of Linux 6.2";
    let told = run();
    assert!(told.contains(refused), "{told}");
    rkat.args(["config", "patch", "--json", r#"{"shell": {"sandbox": "off"}}"#]).run();
    let ran = run();
    assert!(ran.contains("ran\\n") && ran.contains(r#""sandbox":"off""#), "{ran}");
    insta::assert_snapshot!(sandbox(Lacking::Landlock), @r#"
    "warning": "shell commands run without a sandbox, because `shell.sandbox` is `off`"
    "set `shell.sandbox` to `workspace`"
    "#);
}

#[test]
fn usage_is_summed_up_by_model_day_and_session() {
    let rkat = Rkat::new();
    let prices = json!({"prices": {"offline": {"input": 1000.0, "output": 1000.0}}}).to_string();
    rkat.args(["config", "patch", "--json", &prices]).run();
    let first = rkat.args(["run", "--json", "say hello"]).run().json();
    rkat.args(["run", "--json", "say hello again"]).run();
    assert!(first["cost_usd"].as_f64().unwrap() > 0.0, "{first}");
    for (by, rows) in [("model", 1), ("day", 1), ("session", 2)] {
        let report = rkat.args(["usage", "--by", by, "--json"]).run().json();
        let found = report["rows"].as_array().unwrap();
        assert_eq!((report["by"].as_str().unwrap(), found.len()), (by, rows));
        let sessions: u64 = found.iter().map(|row| row["sessions"].as_u64().unwrap()).sum();
        let cost: f64 = found.iter().map(|row| row["cost_usd"].as_f64().unwrap()).sum();
        assert!(sessions == 2 && cost > first["cost_usd"].as_f64().unwrap(), "{report}");
    }
}

#[test]
fn a_budget_that_is_nearly_used_up_is_told_and_so_is_what_a_run_cost() {
    let rkat = Rkat::new();
    let prices = json!({"prices": {"offline": {"input": 1000.0, "output": 1000.0}}}).to_string();
    rkat.args(["config", "patch", "--json", &prices]).run();
    let cost = rkat.args(["run", "--json", "say hello"]).run().json()["cost_usd"].as_f64().unwrap();
    let limit = (cost / 0.9).to_string();
    let done = rkat.args(["run", "--max-cost", &limit, "say hello"]).run();
    assert!(done.stderr.contains("warning: 90 % of the run's money is used"), "{done}");
    assert!(done.stderr.contains(&format!("tokens · ${cost:.4} · offline")), "{done}");
}
