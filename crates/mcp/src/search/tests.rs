use std::sync::Arc;

use meerkat_core::{BoxFuture, Invocation, Tool, ToolCall, ToolDef, ToolFailure, ToolOutput, ToolSource};
use serde_json::{Value, json};

use super::{SearchableTools, cost};

struct NamedTool(ToolDef);

impl Tool for NamedTool {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    fn call(&self, _: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async { ToolOutput::text("called") })
    }
}

struct ManyTools(usize);

impl ToolSource for ManyTools {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let named = |number: usize| ToolDef {
            name: format!("tool_{number:03}"),
            description: if number.is_multiple_of(10) {
                "Paints a fence.".to_owned()
            } else {
                "Digs a hole.".to_owned()
            },
            input_schema: json!({ "type": "object" }),
        };
        (0..self.0).map(|number| Arc::new(NamedTool(named(number))) as Arc<dyn Tool>).collect()
    }
}

fn names(source: &SearchableTools) -> Vec<String> {
    source.tools().iter().map(|tool| tool.def().name.clone()).collect()
}

async fn call(source: &SearchableTools, name: &str, args: Value) -> ToolOutput {
    let id = "0190b6a0-0000-7000-8000-000000000000";
    let call = ToolCall { id: "c".to_owned(), name: name.to_owned(), args };
    let tool = source.tools().into_iter().find(|tool| tool.def().name == name).unwrap();
    tool.call(Invocation { session_id: id.parse().unwrap(), run_id: id.parse().unwrap(), call, trace: None })
        .await
}

/// Returns the cost of all tools, and of those exposed.
fn costs(source: &SearchableTools) -> (usize, usize) {
    (cost(&source.source.tools()), cost(&source.tools()))
}

#[test]
fn few_tools_are_all_exposed() {
    let source = SearchableTools::new(Arc::new(ManyTools(3)), 8000);
    assert_eq!(names(&source), ["tool_000", "tool_001", "tool_002"]);
    assert_eq!(costs(&source), (28, 28));
}

#[tokio::test]
async fn many_tools_are_searched_and_loaded() {
    let source = SearchableTools::new(Arc::new(ManyTools(300)), 8000);
    assert_eq!(names(&source), ["tool_search", "tool_load"]);
    assert_eq!(costs(&source), (2797, 132));
    let found = call(&source, "tool_search", json!({ "query": "paint FENCE 120" })).await.content.to_text();
    let lines: Vec<_> = found.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[20]), (21, "tool_120: Paints a fence.", "(10 more)"));
    let nothing = call(&source, "tool_search", json!({ "query": "sing" })).await;
    assert_eq!(nothing, ToolOutput::text("No tool matches. Try other or fewer words."));
    let loaded = call(&source, "tool_load", json!({ "names": ["tool_120", "tool_999"] })).await;
    assert_eq!(loaded, ToolOutput::text("{\"loaded\":[\"tool_120\"],\"unknown\":[\"tool_999\"]}"));
    assert_eq!(names(&source), ["tool_search", "tool_load", "tool_120"]);
    assert_eq!(call(&source, "tool_120", json!({})).await, ToolOutput::text("called"));
    let none = call(&source, "tool_load", json!({})).await;
    let message = "{\"loaded\":[],\"unknown\":[]}";
    assert_eq!(none, ToolOutput::failure(ToolFailure::InvalidArguments, message));
}
