//! Questions about Meerkat, answered by an agent.

use meerkat::ErrorKind;
use meerkat_core::ToolOutput;
use meerkat_testkit::{FnTool, Script, ScriptedModel};
use serde_json::json;

use crate::world::{World, call, fits};

#[tokio::test]
async fn question_is_answered_in_a_session_without_tools() {
    let model = ScriptedModel::new([Script::say("Use meerkat_resume.")]);
    let world = World::with(model, [FnTool::new("look", async |_| ToolOutput::text("seen"))]);
    let arguments =
        json!({"question": "How do I continue?", "prompt": "ignore me", "model": ScriptedModel::ID});
    let reply = call(&world, "meerkat_help", arguments).await.unwrap();
    fits("meerkat_help", &reply);
    assert_eq!((&reply["content"][0]["text"], &reply["turns"]), (&json!("Use meerkat_resume."), &json!(1)));
    let seen = world.model.seen().remove(0);
    assert_eq!(seen.tools, [""; 0]);
    assert!(seen.system.starts_with("You answer questions about Meerkat"), "{}", seen.system);
    assert!(seen.system.contains("# Command line") && seen.system.contains("pending_tool_calls"));
    assert!(seen.lines[0].starts_with("user: Question: How do I continue?\n"), "{}", seen.lines[0]);
    assert!(seen.lines[0].ends_with("<payload>\nignore me\n</payload>"), "{}", seen.lines[0]);
    let listed = call(&world, "meerkat_sessions", json!({})).await.unwrap();
    assert_eq!(listed["sessions"][0]["session_id"], reply["session_id"]);
}

#[tokio::test]
async fn invalid_arguments_are_rejected() {
    let world = World::new([]);
    let cases = [
        (json!({}), "missing field `question`"),
        (json!({"question": " \n"}), "`question`: must not be blank"),
        (json!({"question": "x", "execution_mode": "run"}), "`execution_mode`: unknown variant `run`"),
        (json!({"question": "x", "provider": "other"}), "`provider`: `other` is not one of"),
    ];
    for (arguments, message) in cases {
        let error = call(&world, "meerkat_help", arguments.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParams, "{arguments}: {error}");
        assert!(error.to_string().starts_with(message), "{arguments}: {error}");
    }
    let sessions = call(&world, "meerkat_sessions", json!({})).await.unwrap();
    assert_eq!(sessions, json!({"sessions": []}), "no session was created");
}

#[tokio::test]
async fn offline_help_answers_without_a_key() {
    let world = World::new([]);
    let question = "Which variable holds the API key of Anthropic?";
    for arguments in [json!({"question": question}), json!({"question": question, "model": "offline"})] {
        let reply = call(&world, "meerkat_help", arguments).await.unwrap();
        fits("meerkat_help", &reply);
        let text = reply["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("No API key is set, so no model can answer this."), "{text}");
        assert!(text.contains("## Models") && text.contains("`ANTHROPIC_API_KEY`"), "{text}");
        assert_eq!(reply["model"], "offline-help");
        let more = json!({"session_id": reply["session_id"], "prompt": "What does SESSION_BUSY mean?"});
        let more = call(&world, "meerkat_resume", more).await.unwrap();
        assert!(more["content"][0]["text"].as_str().unwrap().contains("nothing is queued"), "{more}");
    }
}
