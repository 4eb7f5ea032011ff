//! A worker that registers a skill, a section of it, and a slash command, then serves them until it is stopped.
//! `iii-seed URL`; prints `ready` when everything is registered.

use iii_sdk::{register_worker, InitOptions, RegisterFunction, RegisterTriggerInput, TriggerRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

#[derive(Default, Deserialize, JsonSchema)]
struct GreetArgs {
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct SkillContent {
    content: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ws://localhost:49134".into());
    let iii = register_worker(&url, InitOptions::default());

    iii.register_function(
        RegisterFunction::new("demo::guide", |_input: Value| {
            Ok::<_, String>(SkillContent {
                content: "# Demo guide\n\nThe long-form docs for the demo worker.".into(),
            })
        })
        .description("Detailed guide for the demo worker."),
    );
    iii.register_function(
        RegisterFunction::new("demo::greet_prompt", |input: GreetArgs| {
            Ok::<_, String>(SkillContent { content: format!("Greet {} warmly.", input.name) })
        })
        .description("Render the greet prompt."),
    );
    iii.register_function(RegisterFunction::new("demo::on_change", |input: Value| {
        println!("changed {}", input["id"]);
        Ok::<_, String>(Value::Null)
    }));
    iii.register_trigger(RegisterTriggerInput {
        trigger_type: "skills::on-change".into(),
        function_id: "demo::on_change".into(),
        config: json!({}),
        metadata: None,
    })?;

    iii.trigger(TriggerRequest {
        function_id: "skills::register".into(),
        payload: json!({
            "id": "demo",
            "skill": "# demo\n\n\
                      A demo worker.\n\n\
                      See [`guide`](iii://demo/demo::guide) for the long version.\n"
        }),
        action: None,
        timeout_ms: Some(5_000),
    })
    .await?;
    iii.trigger(TriggerRequest {
        function_id: "prompts::register".into(),
        payload: json!({
            "name": "greet",
            "description": "Compose a greeting.",
            "arguments": [
                { "name": "name", "description": "Who to greet", "required": true }
            ],
            "function_id": "demo::greet_prompt"
        }),
        action: None,
        timeout_ms: Some(5_000),
    })
    .await?;
    println!("ready");
    tokio::signal::ctrl_c().await?;
    Ok(())
}
