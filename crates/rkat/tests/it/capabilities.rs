//! `rkat capabilities`.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn the_build_says_what_it_can_do() {
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
