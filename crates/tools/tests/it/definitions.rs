//! Tool definitions for models.

use meerkat_tools::ShellOptions;
use serde_json::json;

use crate::support::World;

#[test]
fn every_tool_is_described() {
    let world = World::with_shell(ShellOptions::default());
    let tools = world.source().tools();
    let line = |tool: &std::sync::Arc<dyn meerkat_core::Tool>| {
        let def = tool.def();
        let names: Vec<_> =
            def.input_schema["properties"].as_object().into_iter().flat_map(|all| all.keys()).collect();
        let required = def.input_schema["required"].as_array().map_or(0, Vec::len);
        assert!(!def.description.is_empty());
        format!("{} {names:?} {required}", def.name)
    };
    let mut lines: Vec<_> = tools.iter().map(line).collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    apply_patch ["patch"] 1
    blob_inspect ["blob_id"] 1
    blob_load_file ["path", "media_type"] 1
    blob_save_file ["blob_id", "path", "overwrite"] 2
    datetime [] 0
    list_files ["path", "glob", "depth", "limit"] 0
    read_file ["path", "offset", "limit"] 1
    search_files ["pattern", "path", "glob", "ignore_case", "context", "limit"] 1
    shell ["command", "working_dir", "timeout_secs", "background"] 1
    shell_job_cancel ["job_id"] 1
    shell_job_status ["job_id"] 1
    shell_jobs [] 0
    task_create ["subject", "description", "priority", "labels", "blocks", "blocked_by", "owner", "metadata"] 2
    task_get ["id"] 1
    task_list ["status", "labels"] 0
    task_update ["id", "subject", "description", "status", "priority", "labels", "owner", "metadata", "add_blocks", "remove_blocks", "add_blocked_by", "remove_blocked_by"] 1
    view_image ["path"] 1
    "#);
}

#[tokio::test]
async fn time_is_in_the_configured_zone() {
    let world = World::new();
    assert_eq!(
        world.json("datetime", json!({})).await,
        json!({
            "iso8601": "2026-03-01T12:30:45+00:00", "date": "2026-03-01", "time": "12:30:45", "timezone": "UTC",
            "unix_timestamp": 1_772_368_245, "year": 2026, "month": 3, "day": 1, "weekday": "Sunday",
        })
    );
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let (kind, message) = World::new().failure("read_file", json!({ "path": 1 })).await;
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("invalid_arguments", "`path`: invalid type: integer `1`, expected a string")
    );
}
