//! Redaction of secrets that the runtime holds.

use meerkat_core::ToolOutput;
use meerkat_testkit::{FnTool, Script, ScriptedModel};
use serde_json::json;

use crate::world::{World, say};

#[tokio::test]
async fn config_secret_in_tool_output_is_redacted() {
    let look = FnTool::new("look", async |_| ToolOutput::text("it says swordfish-4711, and more"));
    let script = [Script::call("c1", "look", json!({})), Script::say("done")];
    let world = World::with(ScriptedModel::new(script), [look]);
    let server = json!({ "base_url": "http://127.0.0.1:1", "bearer_token": "swordfish-4711" });
    world.configure(json!({ "self_hosted": { "servers": { "desk": server } } })).await;
    let (done, recorder) = world.record(say("look")).await;
    let id = done.unwrap().session_id;
    let lines = world.model.seen().last().unwrap().lines.clone();
    assert_eq!(lines.last().unwrap(), "results: c1=it says ***, and more");
    assert_eq!(lines, world.lines(id).await[..3]);
    assert!(!format!("{:?}", recorder.events()).contains("swordfish"));
}
