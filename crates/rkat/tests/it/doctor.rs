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
    assert_eq!(checks(&report), ["keys warning", "store ok", "config ok", "servers ok", "skills ok"]);
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
        ["keys ok", "store ok", "config ok", "hooks fault", "servers ok", "skills ok"]
    );
    assert_eq!(report["checks"][3]["message"], "the program `no-such-program` of the hook `h` is not there");
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
