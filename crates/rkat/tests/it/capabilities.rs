//! `rkat capabilities`.

use insta::assert_snapshot;
use meerkat_testkit::checkpoint;

use crate::support::Rkat;

#[test]
fn capabilities_list_build_features() {
    let report = Rkat::new().args(["capabilities"]).run().json();
    let row = |entry: &serde_json::Value| format!("{} {}", entry["id"].as_str().unwrap(), entry["status"]);
    let rows: Vec<_> = report["capabilities"].as_array().unwrap().iter().map(row).collect();
    assert_snapshot!(format!("{}\n{}", report["contract_version"], rows.join("\n")), @r#"
    {"major":0,"minor":6,"patch":6}
    sessions "Available"
    streaming "Available"
    structured_output "Available"
    hooks "Available"
    builtins {"DisabledByPolicy":{"description":"Disabled by config"}}
    shell {"DisabledByPolicy":{"description":"Disabled by config"}}
    comms {"NotCompiled":{"feature":"comms"}}
    memory_store "Available"
    schedule {"NotCompiled":{"feature":"schedule"}}
    work_graph {"NotCompiled":{"feature":"workgraph"}}
    session_store "Available"
    session_compaction "Available"
    skills "Available"
    mcp_live "Available"
    registry "Available"
    "#);
}

#[test]
fn report_needs_no_store() {
    let rkat = Rkat::new();
    let expected = rkat.args(["capabilities"]).run();
    assert!(expected.stderr.is_empty(), "{expected}");
    assert!(!rkat.data().join("meerkat").exists(), "asking creates no realm");
    let homeless = rkat.args(["capabilities"]).env("HOME", "").env("XDG_DATA_HOME", "").run();
    assert_eq!((homeless.text(), homeless.stderr.as_str()), (expected.text(), ""));
    rkat.session("say hi");
    let realms = rkat.data().join("meerkat/realms");
    let realm = std::fs::read_dir(realms).unwrap().next().unwrap().unwrap().path();
    let database = realm.join("sessions.sqlite3");
    checkpoint(&database);
    std::fs::write(database, "no database").unwrap();
    let damaged = rkat.args(["capabilities"]).run();
    assert_eq!(damaged.text(), expected.text());
    assert!(damaged.stderr.contains("the report is for the default config"), "{damaged}");
}
