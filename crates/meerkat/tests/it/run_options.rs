//! Every field of run and resume requests: its effect, or the error that rejects it.

use meerkat::{Error, ErrorKind};
use meerkat_core::{ModelErrorKind, ToolOutput};
use meerkat_testkit::{FnTool, Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, call};

async fn run(world: &World, mut arguments: Value) -> Result<Value, Error> {
    arguments["prompt"] = json!("hi");
    arguments["model"] = json!(ScriptedModel::ID);
    call(world, "meerkat_run", arguments).await
}

#[tokio::test]
async fn instructions_and_prompt_stay_until_changed() {
    let world = World::new([]);
    let options = json!({"system_prompt": "Review.", "additional_instructions": ["Be brief.", "Be kind."]});
    let id = run(&world, options).await.unwrap()["session_id"].clone();
    let resume = |mut arguments: Value| {
        arguments["session_id"] = id.clone();
        arguments["prompt"] = json!("more");
        arguments
    };
    call(&world, "meerkat_resume", resume(json!({}))).await.unwrap();
    let changed = json!({"additional_instructions": ["Be long."], "system_prompt": "Write."});
    call(&world, "meerkat_resume", resume(changed)).await.unwrap();
    let systems: Vec<_> = world.model.seen().into_iter().map(|seen| seen.system).collect();
    let first = "Review.\n\nBe brief.\n\nBe kind.";
    assert_eq!(systems, [first, first, "Write.\n\nBe long."]);
}

#[tokio::test]
async fn overlay_applies_to_one_run_under_either_name() {
    let tools = ["look", "touch"].map(|name| FnTool::new(name, async |_| ToolOutput::text("ok")));
    let world = World::with(ScriptedModel::new([]), tools);
    let id = run(&world, json!({})).await.unwrap()["session_id"].clone();
    let overlays = [
        json!({"flow_tool_overlay": {"allowed_tools": ["look"]}}),
        json!({"turn_tool_overlay": {"blocked_tools": ["look"]}}),
        json!({"flow_tool_overlay": {"allowed_tools": ["look"], "blocked_tools": ["look"]}}),
        json!({"flow_tool_overlay": null}),
    ];
    for mut arguments in overlays {
        arguments["session_id"] = id.clone();
        arguments["prompt"] = json!("more");
        call(&world, "meerkat_resume", arguments).await.unwrap();
    }
    let offered: Vec<_> = world.model.seen().into_iter().map(|seen| seen.tools.join(" ")).collect();
    assert_eq!(offered, ["look touch", "look", "touch", "", "look touch"]);
}

#[tokio::test]
async fn resume_accepts_schema_budget_and_model() {
    let world = World::new([Script::say("one"), Script::say("two"), Script::say("{\"n\": 1}")]);
    let id = run(&world, json!({})).await.unwrap()["session_id"].clone();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let arguments = json!({
        "session_id": id, "prompt": "count", "output_schema": schema, "structured_output_retries": 0,
    });
    let reply = call(&world, "meerkat_resume", arguments).await.unwrap();
    assert_eq!(reply["structured_output"], json!({"n": 1}));
    let swap = json!({"session_id": id, "prompt": "say swapped", "model": "offline"});
    let swapped = call(&world, "meerkat_resume", swap).await.unwrap();
    assert_eq!((&swapped["model"], &swapped["content"][0]["text"]), (&json!("offline"), &json!("swapped")));
    let stays = json!({"session_id": id, "prompt": "say still", "budget_limits": {"max_tokens": 1}});
    let spent = call(&world, "meerkat_resume", stays).await.unwrap();
    assert_eq!(spent["model"], "offline", "the model stays for the rest of the session");
    let read = call(&world, "meerkat_read", json!({"session_id": id})).await.unwrap();
    assert_eq!(read["state"]["model"], "offline");
}

#[tokio::test]
async fn unavailable_options_are_rejected_by_name() {
    let world = World::new([]);
    let nothing = [
        json!({"preload_skills": null, "skill_refs": [], "skill_references": [], "hooks_override": {}}),
        json!({"hooks_override": {"entries": [], "disable": []}, "comms_name": " ", "keep_alive": false}),
        json!({"enable_builtins": false, "builtin_config": {"enable_shell": true}, "host_mode": false}),
        json!({"stream": false, "verbose": null, "labels": null, "budget_limits": {}, "provider_params": {}}),
    ];
    for arguments in nothing {
        run(&world, arguments.clone()).await.unwrap_or_else(|error| panic!("{arguments}: {error}"));
    }
    let options = [
        (json!({"comms_name": "a"}), "comms"),
        (json!({"keep_alive": true, "comms_name": "a"}), "comms"),
        (json!({"host_mode": true, "comms_name": "a"}), "comms"),
    ];
    for (option, feature) in options {
        let error = run(&world, option.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CapabilityUnavailable, "{option}: {error}");
        assert!(error.to_string().contains(&format!("`{feature}`")), "{option}: {error}");
    }
}

#[cfg(not(feature = "skills"))]
#[tokio::test]
async fn build_without_skills_reports_it() {
    let world = World::new([]);
    let key = json!({"source_uuid": "00000000-0000-4b11-8111-000000000001", "skill_name": "task-workflow"});
    let mut reference = key.clone();
    reference["kind"] = json!("structured");
    let results = [
        run(&world, json!({"preload_skills": [key]})).await,
        run(&world, json!({"skill_refs": [reference]})).await,
        call(&world, "meerkat_skills", json!({"action": "list"})).await,
    ];
    for outcome in results {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CapabilityUnavailable);
        assert_eq!(error.to_string(), "loading skills is not available in this build (feature `skills`)");
    }
}

#[tokio::test]
async fn errors_are_reported_in_a_fixed_order() {
    let world = World::new([]);
    // Every field is invalid; each round removes the one that was reported.
    let mut option = json!({
        "labels": {"meerkat.x": "1"},
        "keep_alive": true,
        "skill_references": ["old"],
        "output_schema": {"type": "nothing"},
        "additional_instructions": ["x".repeat(40_000)],
        "tools": [{"name": "", "description": "", "input_schema": {}}],
        "hooks_override": {"disable": ["h"]},
    });
    let errors = [
        ("labels", "the label `meerkat.x` is reserved"),
        ("keep_alive", "`keep_alive` needs a `comms_name`"),
        ("skill_references", "`skill_references` is no longer accepted"),
        ("output_schema", "`output_schema` is not a valid JSON Schema"),
        ("additional_instructions", "`additional_instructions[0]` is longer than"),
        ("tools", "`tools[0].name`: `` must have 1 to 64"),
        ("hooks_override", "`hooks_override`: unknown hook `h`"),
    ];
    for (field, message) in errors {
        let error = run(&world, option.clone()).await.unwrap_err();
        assert!(error.to_string().starts_with(message), "{field}: {error}");
        option.as_object_mut().unwrap().remove(field);
    }
    run(&world, option).await.unwrap();
    let shapes = [
        json!({"hooks_override": {"entries": 5}}),
        json!({"skill_refs": [{"kind": "loose", "source_uuid": "x", "skill_name": "y"}]}),
        json!({"preload_skills": ["task-workflow"]}),
        json!({"labels": {"n": 1}}),
        json!({"provider": "nobody"}),
        json!({"structured_output_retries": 101}),
    ];
    for option in shapes {
        assert_eq!(
            run(&world, option.clone()).await.unwrap_err().kind(),
            ErrorKind::InvalidParams,
            "{option}"
        );
    }
}

#[tokio::test]
async fn session_limit_rejects_further_runs() {
    let world = World::new([Script::say("one"), Script::Hang]);
    world.configure(json!({"limits": {"max_sessions": 1}})).await;
    let (_, running) = world.hanging().await;
    let error = run(&world, json!({})).await.unwrap_err();
    assert_eq!((error.kind(), error.kind().code()), (ErrorKind::TooManySessions, "TOO_MANY_SESSIONS"));
    let message = "1 sessions are running, which is the limit; try again when a run has ended, or raise \
         `limits.max_sessions`";
    let data = Some(json!({"type": "limit_reached", "limit": 1}));
    assert_eq!((error.body().message.as_str(), error.body().data), (message, data));
    world.model.release();
    running.await.unwrap().unwrap();
    run(&world, json!({})).await.unwrap();
}

#[tokio::test]
async fn config_limits_cannot_be_exceeded() {
    let world = World::new([Script::call("c1", "none", json!({})), Script::say("never said")]);
    world.configure(json!({"limits": {"budget": 1}})).await;
    let reply = run(&world, json!({"budget_limits": {"max_tokens": 1_000_000}})).await.unwrap();
    assert_eq!(reply["terminal_cause_kind"], "budget_exhausted");
}

#[tokio::test]
async fn errors_name_the_requested_session() {
    let world = World::new([Script::say("one"), Script::Fail(ModelErrorKind::Auth)]);
    let id = run(&world, json!({})).await.unwrap()["session_id"].clone();
    let reference = world.runtime.reference(id.as_str().unwrap().parse().unwrap());
    let data = |error: Error| error.body().data.unwrap_or_default();
    let failed =
        data(call(&world, "meerkat_resume", json!({"session_id": id, "prompt": "x"})).await.unwrap_err());
    assert_eq!((&failed["session_id"], &failed["resumable"]), (&id, &json!(true)));
    assert_eq!((&failed["session_created"], &failed["session_ref"]), (&json!(false), &json!(reference)));

    let stream = call(&world, "meerkat_event_stream_open", json!({"session_id": id})).await.unwrap();
    let expected = json!({"session_id": id, "session_ref": reference});
    let wrong = [
        ("meerkat_resume", json!({"session_id": id, "prompt": ""})),
        ("meerkat_resume", json!({"session_id": id, "prompt": 7})),
        ("meerkat_resume", json!({"session_id": id, "prompt": "x", "model": "nobody-has-it"})),
        ("meerkat_history", json!({"session_id": id, "offset": "x"})),
        ("meerkat_interrupt", json!({"session_id": id})),
        ("meerkat_event_stream_open", json!({"session_id": id, "after": "x"})),
        ("meerkat_event_stream_read", json!({"stream_id": stream["stream_id"], "limit": 0})),
    ];
    for (name, arguments) in wrong {
        let error = call(&world, name, arguments.clone()).await.unwrap_err();
        assert_eq!(error.body().data.as_ref(), Some(&expected), "{name} {arguments}: {error}");
    }
    let unknown = json!("01936f8a-7b2c-7000-8000-000000000001");
    let operations = ["read", "history", "interrupt", "archive", "event_stream_open", "resume"]
        .map(|name| format!("meerkat_{name}"));
    for name in operations {
        let arguments = json!({"session_id": unknown, "prompt": "x"});
        let error = call(&world, &name, arguments).await.unwrap_err();
        let body = error.body();
        assert_eq!(
            (body.code.as_str(), &body.data.unwrap()["session_id"]),
            ("SESSION_NOT_FOUND", &unknown),
            "{name}"
        );
    }
    let malformed = call(&world, "meerkat_read", json!({"session_id": "x"})).await.unwrap_err();
    assert_eq!(malformed.body().data, None);
}

#[tokio::test]
async fn unusable_limits_and_handlers_are_rejected() {
    let world = World::new([]);
    let id = run(&world, json!({})).await.unwrap()["session_id"].clone();
    let tool = json!({"name": "t", "description": "", "input_schema": {}, "handler": "robot"});
    let cases = [
        (json!({"max_tokens": 0}), "`max_tokens` must be greater than 0; omit it to use the config's limit"),
        (
            json!({"tools": [tool]}),
            "`tools[0].handler`: unknown handler `robot`; use `callback`, or omit the field",
        ),
    ];
    for (mut arguments, message) in cases {
        let started = run(&world, arguments.clone()).await.unwrap_err();
        arguments["session_id"] = id.clone();
        arguments["prompt"] = json!("more");
        let resumed = call(&world, "meerkat_resume", arguments).await.unwrap_err();
        for error in [started, resumed] {
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidParams, message));
        }
    }
    let help = json!({"question": "How?", "max_tokens": 0});
    let error = call(&world, "meerkat_help", help).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParams, "{error}");
    assert_eq!(world.model.seen().len(), 1, "no other run was started");
}

#[tokio::test]
async fn zero_shell_timeout_is_rejected() {
    let world = World::new([]);
    let options = json!({"enable_builtins": true, "builtin_config": {"shell_timeout_secs": 0}});
    let error = run(&world, options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParams);
    assert_eq!(error.to_string(), "`builtin_config.shell_timeout_secs` must be greater than 0");
}
