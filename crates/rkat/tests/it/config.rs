//! `rkat config`.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn get_prints_config_with_defaults() {
    assert_snapshot!(Rkat::new().args(["config", "get"]).run(), @r#"
    [agent]
    model = "claude-opus-4-7"
    max_tokens_per_turn = 16384
    budget_warning_threshold = 0.8
    structured_output_retries = 2

    [limits]
    max_reply_bytes = 102400

    [retry]
    max_retries = 3
    initial_delay = "500ms"
    max_delay = "30s"
    multiplier = 2.0

    [tools]
    builtins_enabled = false
    shell_enabled = false
    comms_enabled = false
    mob_enabled = false
    schedule_enabled = true
    workgraph_enabled = false
    default_timeout = "10m"
    max_concurrent = 10
    secrets = []

    [approvals]
    policy = "never"
    timeout = "10m"
    allow = []

    [shell]
    timeout_secs = 30
    sandbox = "workspace"
    security_mode = "unrestricted"
    security_patterns = []

    [skills]
    enabled = true
    max_injection_bytes = 32768
    inventory_threshold = 12
    inventory_budget = 8192
    repositories = []

    [skills.identity]
    remaps = []

    [registry]
    enabled = true
    tools = []
    state_timeout_ms = 10000

    [registry.scopes]
    skills = "skills"
    prompts = "prompts"

    [hooks]
    default_timeout_ms = 5000
    payload_max_bytes = 131072
    background_max_concurrency = 32
    client_overrides = false
    entries = []

    [compaction]
    auto_compact_threshold = 100000
    recent_turn_budget = 4
    max_summary_tokens = 4096
    min_turns_between_compactions = 3

    [memory]
    enabled = true
    scope = "session"

    [provider_tools.anthropic]
    web_search = true

    [provider_tools.openai]
    web_search = true

    [provider_tools.gemini]
    google_search = true
    --- stderr
    --- exit 0
    "#);
}

#[test]
fn config_has_a_generation_and_paths() {
    let rkat = Rkat::new();
    let mut got = rkat.args(["--instance", "me", "config", "get", "--with-generation"]).run().json();
    assert_eq!(got["config"], rkat.args(["config", "get", "--json"]).run().json());
    assert_eq!(got["config"], rkat.args(["config", "get", "--format", "json"]).run().json());
    got["config"] = serde_json::Value::Null;
    assert_snapshot!(rkat.redact(&format!("{got:#}")), @r#"
    {
      "config": null,
      "generation": 0,
      "realm_id": "[workspace]",
      "instance_id": "me",
      "backend": "sqlite",
      "resolved_paths": {
        "root": "[dir]/data/meerkat/realms/[workspace]",
        "manifest_path": "[dir]/data/meerkat/realms/[workspace]/realm_manifest.json",
        "config_path": "[dir]/data/meerkat/realms/[workspace]/sessions.sqlite3",
        "sessions_sqlite_path": "[dir]/data/meerkat/realms/[workspace]/sessions.sqlite3"
      }
    }
    "#);
}

#[test]
fn unchanged_copy_keeps_tokens_and_defaults() {
    let rkat = Rkat::new();
    let server = r#"{"self_hosted": {"servers": {"desk": {"base_url": "http://127.0.0.1:9", "bearer_token": "word"}}}}"#;
    rkat.args(["config", "patch", "--json", server]).run().text();
    let printed = rkat.args(["config", "get"]).run();
    assert!(
        printed.text().contains("bearer_token = \"***\"") && !printed.text().contains("word"),
        "{printed}"
    );
    std::fs::write(rkat.work().join("f"), printed.text()).unwrap();
    rkat.args(["config", "set", "f"]).run().text();
    std::fs::write(rkat.work().join("f"), printed.text().replace("16384", "999")).unwrap();
    rkat.args(["config", "set", "f"]).run().text();
    let again = rkat.args(["config", "get"]).run();
    assert_eq!(again.text(), printed.text().replace("16384", "999"));
    assert_eq!(rkat.args(["run", "-q", "say hi"]).run().text(), "hi\n", "no model was set");
    let renamed = printed.text().replace("servers.desk", "servers.chair");
    std::fs::write(rkat.work().join("f"), renamed).unwrap();
    assert_snapshot!(rkat.args(["config", "set", "f"]).run(), @r"
    --- stderr
    error: invalid config: `self_hosted.servers.chair.bearer_token` is `***`, which stands for the stored token, but no token is stored; write the token itself [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn invalid_base_url_is_rejected() {
    let rkat = Rkat::new();
    let patch = |url: &str| format!(r#"{{"providers": {{"openai": {{"base_url": "{url}"}}}}}}"#);
    assert_snapshot!(rkat.args(["config", "patch", "--json", &patch("https://me:word@host")]).run(), @r"
    --- stderr
    error: invalid config: `providers.openai.base_url` must not contain a user name or password; configure the token separately [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["config", "patch", "--json", &patch("localhost")]).run(), @r"
    --- stderr
    error: invalid config: `providers.openai.base_url` must be a URL such as `https://host/path` [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn output_of_get_can_be_set() {
    let rkat = Rkat::new();
    let printed = rkat.args(["config", "get"]).run();
    assert_eq!(rkat.args(["config", "set", "-"]).stdin(printed.text()).run().code, Some(0));
    assert_eq!(rkat.args(["config", "get"]).run().text(), printed.text());
}

#[test]
fn config_is_changed_by_text_file_and_stdin() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("c.toml"), "[agent]\nmax_turns = 3\n").unwrap();
    std::fs::write(rkat.work().join("c.json"), "{\"agent\": {\"max_turns\": 4}}").unwrap();
    let turns = || rkat.args(["config", "get", "--json"]).run().json()["agent"]["max_turns"].clone();
    assert_snapshot!(rkat.args(["config", "set", "--toml", "agent.max_turns = 1"]).run(), @r"
    generation 1 of realm [workspace]
    --- stderr
    --- exit 0
    ");
    assert_eq!(turns(), 1);
    let changes: [(&[&str], &str, u64); 5] = [
        (&["config", "patch", "--json", "{\"agent\": {\"max_turns\": 2}}"], "", 2),
        (&["config", "set", "c.toml"], "", 3),
        (&["config", "patch", "c.json"], "", 4),
        (&["config", "set", "-"], "[agent]\nmax_turns = 5", 5),
        (&["config", "patch", "-"], "{\"agent\": {\"max_turns\": 6}}", 6),
    ];
    for (args, stdin, expected) in changes {
        let done = rkat.args(args.iter().copied()).stdin(stdin).run();
        assert_eq!((done.code, turns()), (Some(0), expected.into()), "{done}");
    }
}

#[test]
fn null_in_a_patch_restores_the_default() {
    let rkat = Rkat::new();
    rkat.args(["config", "set", "--toml", "agent.max_turns = 1\nretry.max_retries = 9"]).run().text();
    rkat.args(["config", "patch", "--json", "{\"retry\": {\"max_retries\": null}}"]).run().text();
    let config = rkat.args(["config", "get", "--json"]).run().json();
    assert_eq!((&config["agent"]["max_turns"], &config["retry"]["max_retries"]), (&1.into(), &3.into()));
}

#[test]
fn stale_generation_is_rejected() {
    let rkat = Rkat::new();
    rkat.args(["config", "set", "--json", "{}", "--expected-generation", "0"]).run().text();
    let late = ["config", "patch", "--json", "{}", "--expected-generation", "0"];
    assert_snapshot!(rkat.args(late).run(), @r"
    --- stderr
    error: config generation is `1`, not `0`; read the config again, then reapply the change [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn invalid_document_is_reported_with_its_location() {
    let rkat = Rkat::new();
    let set = |document: &str| rkat.args(["config", "set", "--json", document]).run();
    assert_snapshot!(set("{\"agent\": {\"modle\": \"x\"}}"), @r"
    --- stderr
    error: invalid config: `agent.modle`: unknown field `modle`, expected one of `model`, `max_tokens_per_turn`, `system_prompt`, `system_prompt_file`, `tool_instructions`, `temperature`, `budget_warning_threshold`, `max_turns`, `provider_params`, `output_schema`, `extraction_prompt`, `structured_output_retries` [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(set("{\"agent\": {\"max_turns\": 0}}"), @r"
    --- stderr
    error: invalid config: `agent.max_turns` must be greater than 0 [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(set("{\"agent\""), @r"
    --- stderr
    error: `--json` is not JSON: EOF while parsing an object at line 1 column 8 [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["config", "set", "missing.toml"]).run(), @r"
    --- stderr
    error: cannot read `missing.toml`: No such file or directory (os error 2) [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["config", "set"]).run(), @r"
    --- stderr
    error: the following required arguments were not provided:
      <FILE|--json <JSON>|--toml <TOML>>

    Usage: rkat config set <FILE|--json <JSON>|--toml <TOML>>

    For more information, try '--help'.
    --- exit 2
    ");
}
