//! The realm's config: validation, patches, and generations.

use meerkat::{Coded as _, Config, ConfigAccess, ConfigChange, CurrentConfig, Error, ErrorKind, Outcome};
use meerkat_store::{Change, Transaction};
use meerkat_testkit::Script;
use serde_json::{Value, json};

use crate::world::{World, call, object, say};

async fn get(world: &World) -> CurrentConfig {
    world.runtime.config().get().await.unwrap()
}

async fn set(world: &World, document: Value, expected: Option<u64>) -> Result<CurrentConfig, Error> {
    Ok(world.runtime.config().change(ConfigChange::Set(object(document)), expected).await?)
}

async fn patch(world: &World, patch: Value, expected: Option<u64>) -> Result<CurrentConfig, Error> {
    Ok(world.runtime.config().change(ConfigChange::Patch(object(patch)), expected).await?)
}

#[tokio::test]
async fn initial_config_is_all_defaults() {
    assert_eq!(get(&World::new([])).await, CurrentConfig { config: Config::default().into(), generation: 0 });
}

#[tokio::test]
async fn set_replaces_and_patch_merges_the_config() {
    let world = World::new([]);
    let first = set(&world, json!({"agent": {"max_turns": 7, "temperature": 0.5}}), None).await.unwrap();
    assert_eq!((first.generation, first.config.agent.max_turns), (1, Some(7)));
    let second =
        patch(&world, json!({"agent": {"max_turns": 8}, "tools": {"max_concurrent": 3}}), None).await;
    let second = second.unwrap();
    assert_eq!((second.generation, second.config.agent.max_turns), (2, Some(8)));
    assert_eq!((second.config.agent.temperature, second.config.tools.max_concurrent), (Some(0.5), 3));
    assert_eq!(get(&world).await, second);
    let third = set(&world, json!({"tools": {"max_concurrent": 4}}), None).await.unwrap();
    assert_eq!(
        (third.generation, third.config.agent.max_turns),
        (3, None),
        "omitted keys return to their defaults"
    );
    assert_eq!(get(&world).await, third);
}

#[tokio::test]
async fn null_resets_a_key_to_its_default() {
    let world = World::new([]);
    patch(&world, json!({"tools": {"max_concurrent": 3, "tool_timeouts": {"a": "5s"}}}), None).await.unwrap();
    let inner = patch(&world, json!({"tools": {"max_concurrent": null}}), None).await.unwrap();
    assert_eq!((inner.config.tools.max_concurrent, inner.config.tools.tool_timeouts.len()), (10, 1));
    let outer = patch(&world, json!({"tools": null}), None).await.unwrap();
    assert_eq!(outer, CurrentConfig { config: Config::default().into(), generation: 3 });
    assert_eq!(get(&world).await, outer);
}

#[tokio::test]
async fn owner_replaces_an_unreadable_config() {
    let world = World::new([]);
    let damaged =
        Transaction { guards: Vec::new(), changes: vec![Change::PutConfig(b"{\"agent\": ".to_vec())] };
    world.runtime.realm().store().commit(damaged).await.unwrap();
    let error = world.runtime.config().get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreError);
    assert!(error.body().message.contains("`rkat config set`"), "{}", error.body().message);
    let new = json!({"agent": {"max_turns": 7}});
    let change = ConfigChange::Set(object(new.clone()));
    let denied = world.runtime.config().change_as(ConfigAccess::Client, change, None).await;
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::StoreError);
    assert!(patch(&world, new.clone(), None).await.is_err());
    let replaced = set(&world, new, Some(1)).await.unwrap();
    assert_eq!((replaced.generation, replaced.config.agent.max_turns), (2, Some(7)));
    assert_eq!(get(&world).await, replaced);
}

#[tokio::test]
async fn invalid_config_keeps_the_owners_protections() {
    let world = World::new([]);
    // A newer version may have stored a key that this one does not know.
    let stored = json!({"agent": {"future": 1}, "approvals": {"policy": "always"}});
    let document = serde_json::to_vec(&stored).unwrap();
    let transaction = Transaction { guards: Vec::new(), changes: vec![Change::PutConfig(document)] };
    world.runtime.realm().store().commit(transaction).await.unwrap();
    for access in [ConfigAccess::Client, ConfigAccess::Anonymous] {
        for change in
            [ConfigChange::Set(object(json!({}))), ConfigChange::Patch(object(json!({"agent": null})))]
        {
            let denied = world.runtime.config().change_as(access, change, None).await.unwrap_err();
            assert_eq!(denied.to_string(), get_error(&world).await);
        }
    }
    patch(&world, json!({"agent": null}), None).await.unwrap();
    assert_eq!(get(&world).await.config.approvals.policy, meerkat::ApprovalPolicy::Always);
}

async fn get_error(world: &World) -> String {
    world.runtime.config().get().await.unwrap_err().to_string()
}

#[tokio::test]
async fn config_errors_quote_only_the_start() {
    let world = World::new([]);
    let long = "long \u{7}".repeat(60_000);
    let server = json!({"base_url": "http://127.0.0.1:1"});
    let with = |field: &str, value: Value| {
        let mut server = server.clone();
        server[field] = value;
        json!({"self_hosted": {"servers": {&long: server}}})
    };
    let hook = json!({"id": "h", "runtime": {"type": "http", "url": "http://127.0.0.1:1", "headers": {&long: "***"}}});
    let cases = [
        with("bearer_token", json!("***")),
        with("bearer_token_env", json!("RKAT_TOKEN")),
        with("base_url", json!("no URL")),
        json!({"hooks": {"entries": [hook]}}),
        json!({"prices": {&long: 1}}),
        json!({&long: 1}),
        json!({"self_hosted": {"models": {&long: {"server": long, "remote_model": "m"}}}}),
        json!({"agent": {"output_schema": {"type": long}}}),
    ];
    for (case, document) in cases.into_iter().enumerate() {
        let error = patch(&world, document, None).await.unwrap_err();
        let body = serde_json::to_string(&error.body()).unwrap();
        assert!(body.len() < 2000 && !error.to_string().contains('\u{7}'), "case {case}: {body}");
    }
    let env = json!({"base_url": "http://127.0.0.1:1", "bearer_token_env": "DESK_TOKEN"});
    let error = as_client(&world, json!({"self_hosted": {"servers": {&long: env}}})).await.unwrap_err();
    let body = serde_json::to_string(&error.body()).unwrap();
    assert!(body.len() < 2000 && error.data().unwrap()["key"].as_str().unwrap().ends_with('…'), "{body}");
}

#[tokio::test]
async fn timeout_of_a_self_hosted_model_is_bounded() {
    let world = World::new([]);
    let with = |secs: u64| {
        json!({"self_hosted": {
            "servers": {"desk": {"base_url": "http://127.0.0.1:1"}},
            "models": {"m": {"server": "desk", "remote_model": "m", "call_timeout_secs": secs}},
        }})
    };
    for secs in [0, 2_592_001, u64::MAX] {
        let error = patch(&world, with(secs), None).await.unwrap_err().to_string();
        let expected =
            "invalid config: `self_hosted.models.m.call_timeout_secs`: must be from 1 to 2592000 (30 days)";
        assert_eq!(error, expected);
    }
    for secs in [1, 2_592_000] {
        patch(&world, with(secs), None).await.unwrap();
    }
}

#[tokio::test]
async fn change_to_a_stale_generation_is_rejected() {
    let world = World::new([]);
    patch(&world, json!({"agent": {"max_turns": 7}}), Some(0)).await.unwrap();
    for stale in [0, 2] {
        let error = patch(&world, json!({"agent": {"max_turns": 8}}), Some(stale)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParams);
        let data = json!({
            "type": "generation_conflict",
            "expected_generation": stale,
            "current_generation": 1,
        });
        assert_eq!(error.data(), Some(data));
    }
    assert_eq!((get(&world).await.generation, get(&world).await.config.agent.max_turns), (1, Some(7)));
    assert_eq!(set(&world, json!({}), Some(1)).await.unwrap().generation, 2);
}

#[tokio::test]
async fn invalid_config_is_rejected() {
    let world = World::new([]);
    patch(&world, json!({"agent": {"max_turns": 7}}), None).await.unwrap();
    let cases = [
        (json!({"agent": {"modle": "x"}}), "`agent.modle`: unknown field `modle`"),
        (json!({"extra": 1}), "`extra`: unknown field `extra`"),
        (json!({"agent": {"max_turns": "many"}}), "`agent.max_turns`: invalid type"),
        (json!({"tools": {"max_concurrent": 0}}), "`tools.max_concurrent` must be greater than 0"),
        (json!({"tools": {"tool_timeouts": {"a": "soon"}}}), "`tools.tool_timeouts.a`: "),
        (json!({"agent": {"model": " "}}), "`agent.model` must not be empty"),
    ];
    for (document, message) in cases {
        for error in [set(&world, document.clone(), None).await, patch(&world, document.clone(), None).await]
        {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParams);
            assert!(error.to_string().starts_with(&format!("invalid config: {message}")), "{error}");
        }
    }
    let current = get(&world).await;
    assert_eq!((current.generation, current.config.agent.max_turns), (1, Some(7)));
}

#[tokio::test]
async fn concurrent_patches_are_all_applied() {
    let world = World::new([]);
    let one = async |key: &str| {
        patch(&world, json!({"tools": {"tool_timeouts": {key: "5s"}}}), None).await.unwrap()
    };
    let (a, b, c) = tokio::join!(one("a"), one("b"), one("c"));
    let mut generations = [a.generation, b.generation, c.generation];
    generations.sort_unstable();
    assert_eq!(generations, [1, 2, 3]);
    assert_eq!(get(&world).await.config.tools.tool_timeouts.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test]
async fn run_uses_the_config_at_its_start() {
    let world = World::new([]);
    let id = world.session("one").await;
    world
        .configure(json!({"agent": {"system_prompt": "From config.", "tool_instructions": "Look first."}}))
        .await;
    world.resume(id, crate::world::then("two")).await.unwrap();
    let seen = world.model.seen();
    assert!(seen[0].system.starts_with("You are an agent run by Meerkat."), "{}", seen[0].system);
    assert_eq!(seen[1].system, "From config.\n\nLook first.");
}

#[tokio::test]
async fn prompt_file_and_schema_come_from_config() {
    let world = World::new([Script::say("one"), Script::say("{}")]);
    let dir = meerkat_testkit::Scratch::new();
    let file = dir.join("prompt.md");
    std::fs::write(&file, "From a file.").unwrap();
    let schema = json!({"type": "object"});
    world
        .configure(json!({"agent": {
            "system_prompt_file": file, "output_schema": schema, "extraction_prompt": "As JSON, please.",
        }}))
        .await;
    let done = world.create(say("hi")).await.unwrap();
    let Outcome::Completed(answer) = done.report.outcome else { panic!("{:?}", done.report) };
    assert_eq!(answer.structured_output, Some(json!({})));
    let seen = world.model.seen();
    assert_eq!(seen[0].system, "From a file.");
    assert_eq!(seen[1].lines.last().map(String::as_str), Some("user: As JSON, please."));

    std::fs::remove_file(&file).unwrap();
    let error = world.create(say("hi")).await.unwrap_err();
    let place = format!("invalid config: `agent.system_prompt_file`: `{}` cannot be read: ", file.display());
    assert!(error.to_string().starts_with(&place), "{error}");
    let wrong = [
        (
            json!({"agent": {"system_prompt_file": "here.md"}}),
            "`agent.system_prompt_file` must be an absolute path",
        ),
        (json!({"agent": {"output_schema": {"type": 7}}}), "`agent.output_schema`: "),
        (json!({"max_tokens": 0}), "`max_tokens` must be greater than 0"),
        (
            json!({"agent": {"structured_output_retries": 101}}),
            "`agent.structured_output_retries` must be at most 100",
        ),
        (json!({"limits": {"max_reply_bytes": 7}}), "`limits.max_reply_bytes` must be at least 1024"),
    ];
    for (patch, message) in wrong {
        let change = ConfigChange::Patch(object(patch));
        let error = world.runtime.config().change(change, None).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("invalid config: {message}")), "{error}");
    }
}

/// Changes the config as a client of a server.
async fn as_client(world: &World, patch: Value) -> Result<Value, Error> {
    call(world, "meerkat_config", json!({"action": "patch", "patch": patch})).await
}

#[tokio::test]
async fn client_cannot_redirect_the_owners_secrets() {
    let world = World::new([]);
    world
        .configure(json!({
            "providers": {"openai": {"base_url": "https://proxy.example"}},
            "self_hosted": {"servers": {
                "desk": {"base_url": "https://desk.example", "bearer_token_env": "DESK_TOKEN"},
                "chair": {"base_url": "https://chair.example", "bearer_token": "word"},
            }},
        }))
        .await;
    let server = |name: &str, server: Value| json!({"self_hosted": {"servers": {name: server}}});
    let rejected = [
        (
            json!({"providers": {"anthropic": {"base_url": "https://evil.example"}}}),
            "providers.anthropic.base_url",
        ),
        (json!({"providers": {"openai": {"base_url": "https://evil.example"}}}), "providers.openai.base_url"),
        (
            server("desk", json!({"base_url": "https://evil.example"})),
            "self_hosted.servers.desk.bearer_token_env",
        ),
        (
            server("new", json!({"base_url": "https://evil.example", "bearer_token_env": "AWS_SECRET"})),
            "self_hosted.servers.new.bearer_token_env",
        ),
        (
            server("chair", json!({"base_url": "https://evil.example", "bearer_token": "***"})),
            "self_hosted.servers.chair.base_url",
        ),
        (json!({"agent": {"system_prompt_file": "/etc/passwd"}}), "agent.system_prompt_file"),
        (
            json!({"skills": {"repositories": [{
                "type": "http", "name": "evil", "source_uuid": "01936f8a-7b2c-7000-8000-000000000001",
                "url": "https://evil.example", "auth_token": "${AWS_SECRET}",
            }]}}),
            "skills.repositories[0]",
        ),
    ];
    for (patch, key) in rejected {
        let error = as_client(&world, patch.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidParams, "{patch}: {error}");
        assert_eq!(error.data(), Some(json!({"type": "config_protected", "key": key})), "{patch}");
        assert!(!error.to_string().contains("rkat"), "{error}");
    }
    let allowed = [
        json!({"providers": {"openai": null}}),
        json!({"agent": {"max_turns": 3}}),
        server("desk", json!({"base_url": "https://desk.example"})),
        server("own", json!({"base_url": "https://own.example", "bearer_token": "the client's own"})),
        server("chair", json!({"bearer_token": "***"})),
        server("chair", json!(null)),
    ];
    for patch in allowed {
        as_client(&world, patch.clone()).await.unwrap_or_else(|error| panic!("{patch}: {error}"));
    }
}

#[tokio::test]
async fn variables_of_other_services_are_rejected() {
    let world = World::new([]);
    for name in ["RKAT_TOKEN", "OPENAI_API_KEY", "rkat_token", "GOOGLE_API_KEY", "RKAT_ANTHROPIC_API_KEY"] {
        let server = json!({"base_url": "https://desk.example", "bearer_token_env": name});
        let error =
            patch(&world, json!({"self_hosted": {"servers": {"desk": server}}}), None).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "invalid config: `self_hosted.servers.desk.bearer_token_env`: `{name}` may hold a secret that is not \
                 for this server; use another variable"
            )
        );
    }
}

#[tokio::test]
async fn explicit_default_model_is_honored() {
    let world = World::new([]);
    let run = async || call(&world, "meerkat_run", json!({"prompt": "hi"})).await;
    assert_eq!(run().await.unwrap()["model"], "offline");
    let masked = get(&world).await.config;
    assert_eq!(serde_json::to_value(&*masked).unwrap()["agent"]["model"], "claude-opus-4-7");
    set(&world, to_json(&masked), None).await.unwrap();
    assert_eq!(run().await.unwrap()["model"], "offline", "writing back a copy sets nothing");
    set(&world, json!({"agent": {"model": "claude-opus-4-7"}}), None).await.unwrap();
    let error = run().await.unwrap_err().to_string();
    assert!(error.starts_with("cannot use model `claude-opus-4-7`: no API key"), "{error}");
    patch(&world, json!({"agent": {"model": null}}), None).await.unwrap();
    assert_eq!(run().await.unwrap()["model"], "offline");
}

#[tokio::test]
async fn masked_repository_token_is_restored() {
    let world = World::new([]);
    let source = |name: &str, id: u8| {
        json!({
            "type": "git", "name": name, "source_uuid": format!("01936f8a-7b2c-7000-8000-00000000000{id}"),
            "url": "https://git.example/skills", "auth_token": format!("token of {name}"),
        })
    };
    set(&world, json!({"skills": {"repositories": [source("a", 1), source("b", 2)]}}), None).await.unwrap();
    let mut masked = to_json(&get(&world).await.config);
    let list = &mut masked["skills"]["repositories"];
    assert_eq!((&list[0]["auth_token"], &list[1]["auth_token"]), (&json!("***"), &json!("***")));
    list[0]["git_ref"] = json!("next");
    list.as_array_mut().unwrap().reverse();
    let stored = &set(&world, masked.clone(), None).await.unwrap().config.skills.repositories;
    let written = format!("{stored:?}");
    assert!(written.contains("token of a") && written.contains("token of b"), "{written}");
    assert!(written.contains("\"next\"") && !written.contains("***"), "{written}");
    masked["skills"]["repositories"][0]["name"] = json!("c");
    let error = set(&world, masked, None).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid config: `skills.repositories[0].auth_token` is `***`"), "{error}");
}

fn to_json(config: &Config) -> Value {
    serde_json::to_value(config).unwrap()
}

#[tokio::test]
async fn masked_url_login_is_restored() {
    let world = World::new([]);
    // Such a URL is rejected now, but may be stored.
    let stored = json!({"providers": {"gemini": {"base_url": "https://me:word@host/v1"}}});
    let transaction = meerkat_store::Transaction {
        guards: Vec::new(),
        changes: vec![meerkat_store::Change::PutConfig(serde_json::to_vec(&stored).unwrap())],
    };
    world.runtime.realm().store().commit(transaction).await.unwrap();
    let masked = to_json(&get(&world).await.config);
    assert_eq!(masked["providers"]["gemini"]["base_url"], "https://***@host/v1");
    let current = set(&world, masked, None).await.unwrap().config;
    assert_eq!(current.providers.gemini.base_url.as_deref(), Some("https://me:word@host/v1"));
}
