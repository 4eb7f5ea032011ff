//! A worker that registers a skill, a section of it, and a slash command, observes changes, then serves until it is
//! stopped.
//! `iii-newest URL`; prints `ready` when everything is registered.

use iii_sdk::{register_worker, CallRequest, Error, InitOptions, Observed, RegisterFunction};
use serde_json::{json, Value};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ws://localhost:49134".into());
    let iii = register_worker(&url, InitOptions::default());
    iii.register_function(
        "demo::guide",
        RegisterFunction::new(|_: Value| {
            Ok::<_, Error>(json!({ "content": "# Demo guide\n\nThe long-form docs for the demo worker." }))
        }),
    );
    iii.register_function(
        "demo::greet_prompt",
        RegisterFunction::new(|input: Value| {
            let name = input["name"].as_str().unwrap_or("world");
            Ok::<_, Error>(json!({ "content": format!("Greet {name} warmly.") }))
        }),
    );
    iii.register_function(
        "demo::on_change",
        RegisterFunction::new(|event: Observed| {
            println!("changed {}", event.input.unwrap_or_default()["id"]);
            Ok::<_, Error>(json!(null))
        }),
    );
    let changes = iii.observe("skills::register", "demo::on_change");
    let calls = [
        (
            "skills::register",
            json!({ "id": "demo", "skill": "# demo\n\nA demo worker.\n\nSee [`guide`](iii://demo/demo::guide) for the long version.\n" }),
        ),
        (
            "prompts::register",
            json!({ "name": "greet", "description": "Compose a greeting.", "function_id": "demo::greet_prompt",
                "arguments": [{ "name": "name", "description": "Who to greet", "required": true }] }),
        ),
    ];
    for (function_id, payload) in calls {
        let request = CallRequest { function_id: function_id.into(), payload, action: None, timeout_ms: Some(5_000) };
        iii.call(request).await?;
    }
    changes.ready().await?;
    println!("ready");
    tokio::signal::ctrl_c().await?;
    Ok(())
}
