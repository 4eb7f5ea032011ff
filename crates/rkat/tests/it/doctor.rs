//! `rkat doctor` and `rkat usage`.

use serde_json::{Value, json};

use crate::support::Rkat;

fn checks(report: &Value) -> Vec<String> {
    let line =
        |check: &Value| format!("{} {}", check["check"].as_str().unwrap(), check["health"].as_str().unwrap());
    report["checks"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn healthy_realm_passes_all_checks() {
    let report = Rkat::new().args(["doctor", "--json"]).run().json();
    assert_eq!(report["healthy"], true);
    assert_eq!(
        checks(&report),
        ["keys warning", "store ok", "config ok", "sandbox ok", "servers ok", "skills ok"]
    );
}

#[test]
fn doctor_reports_faults_without_secrets() {
    let rkat = Rkat::new();
    let hook = json!({"id": "h", "runtime": {"type": "command", "command": "no-such-program", "env": {"KEY": "canary-env"}}});
    let patch = json!({"hooks": {"entries": [hook]}}).to_string();
    rkat.args(["config", "patch", "--json", &patch]).run();
    let mut command = rkat.command(std::path::Path::new(env!("CARGO_BIN_EXE_rkat")));
    let done = command.args(["doctor", "--json"]).env("ANTHROPIC_API_KEY", "canary-key").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let stdout = String::from_utf8(done.stdout).unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(!stdout.contains("canary") && !stderr.contains("canary"), "{stdout}{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        checks(&report),
        ["keys ok", "store ok", "config ok", "hooks fault", "sandbox ok", "servers ok", "skills ok"]
    );
    assert_eq!(report["checks"][3]["message"], "command `no-such-program` of the hook `h` not found");
}

/// Output of `rkat` on kernels with missing features.
#[cfg(target_os = "linux")]
#[test]
fn missing_sandbox_features_are_reported() {
    use meerkat_testkit::{MissingFeature, with_restricted_kernel};
    let rkat = Rkat::new();
    let sandbox = |lacking| {
        let report = with_restricted_kernel(lacking, || rkat.args(["doctor", "--json"]).run().json());
        let check = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "sandbox");
        let check = check.unwrap();
        format!("{}: {}\n{}", check["health"], check["message"], check["fix"])
    };
    let reports = [MissingFeature::Landlock, MissingFeature::Seccomp, MissingFeature::Namespaces]
        .map(sandbox)
        .join("\n\n");
    insta::assert_snapshot!(reports, @r#"
    "warning": "shell commands are rejected: this kernel cannot sandbox programs (requires Landlock from Linux 6.2 or newer)"
    "use Linux 6.2 or newer with Landlock and seccomp, or set `shell.sandbox` to `off`"

    "warning": "shell commands are rejected: this kernel cannot filter system calls (it lacks seccomp)"
    "use Linux 6.2 or newer with Landlock and seccomp, or set `shell.sandbox` to `off`"

    "warning": "shell commands run in a sandbox without separate mounts: a file that a command creates in a directory with a secret file can be read only by the next command"
    "allow user namespaces, or list files that are not secret in `tools.secrets`"
    "#);
    let call = r#"call shell {"command": "echo ran"}"#;
    let run = || {
        let args = ["run", "--tools", "workspace", call];
        with_restricted_kernel(MissingFeature::Landlock, || rkat.args(args).run().stdout)
    };
    let rejection = "cannot run commands in a sandbox on this system; the realm's owner can set `shell.sandbox` to `off`: \
                   this kernel cannot sandbox programs (requires Landlock from";
    let output = run();
    assert!(output.contains(rejection), "{output}");
    rkat.args(["config", "patch", "--json", r#"{"shell": {"sandbox": "off"}}"#]).run();
    let ran = run();
    assert!(ran.contains("ran\\n") && ran.contains(r#""sandbox":"off""#), "{ran}");
    insta::assert_snapshot!(sandbox(MissingFeature::Landlock), @r#"
    "warning": "shell commands run without a sandbox, because `shell.sandbox` is `off`"
    "set `shell.sandbox` to `workspace`"
    "#);
}

#[test]
fn usage_is_grouped_by_model_day_or_session() {
    let rkat = Rkat::new();
    let prices = json!({"prices": {"offline": {"input": 1000.0, "output": 1000.0}}}).to_string();
    rkat.args(["config", "patch", "--json", &prices]).run();
    let first = rkat.args(["run", "--json", "say hello"]).run().json();
    rkat.args(["run", "--json", "say hello again"]).run();
    assert!(first["cost_usd"].as_f64().unwrap() > 0.0, "{first}");
    for (by, rows) in [("model", 1), ("day", 1), ("session", 2)] {
        let report = rkat.args(["usage", "--by", by, "--json"]).run().json();
        let entries = report["rows"].as_array().unwrap();
        assert_eq!((report["by"].as_str().unwrap(), entries.len()), (by, rows));
        let sessions: u64 = entries.iter().map(|row| row["sessions"].as_u64().unwrap()).sum();
        let cost: f64 = entries.iter().map(|row| row["cost_usd"].as_f64().unwrap()).sum();
        assert!(sessions == 2 && cost > first["cost_usd"].as_f64().unwrap(), "{report}");
    }
}

#[test]
fn usage_is_grouped_by_values_of_a_label() {
    let rkat = Rkat::new();
    for label in ["team=core", "team=core", "other=x"] {
        rkat.args(["run", "-q", "--label", label, "say hello"]).run().text();
    }
    let report = rkat.args(["usage", "--by", "label", "team", "--json"]).run().json();
    let rows: Vec<_> =
        report["rows"].as_array().unwrap().iter().map(|row| (&row["key"], &row["sessions"])).collect();
    assert_eq!(rows, [(&json!("-"), &json!(1)), (&json!("core"), &json!(2))]);
    assert_eq!(rkat.args(["usage", "--by", "label"]).run().code, Some(2));
    assert_eq!(rkat.args(["usage", "team"]).run().code, Some(2));
}

#[test]
fn budget_warning_and_cost_are_printed() {
    let rkat = Rkat::new();
    let prices = json!({"prices": {"offline": {"input": 1000.0, "output": 1000.0}}}).to_string();
    rkat.args(["config", "patch", "--json", &prices]).run();
    let cost = rkat.args(["run", "--json", "say hello"]).run().json()["cost_usd"].as_f64().unwrap();
    let limit = (cost / 0.9).to_string();
    let done = rkat.args(["run", "--max-cost", &limit, "say hello"]).run();
    assert!(done.stderr.contains("warning: 90% of the run's cost budget is used"), "{done}");
    assert!(done.stderr.contains(&format!("tokens · ${cost:.4} · offline")), "{done}");
}
