//! Reports of failures: exit codes, and error codes on stderr and in JSON.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn failed_run_exits_1_and_is_resumable() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["run", "fail auth"]).run(), @r#"
    --- stderr
    error: the offline model was told to fail with `auth` [AGENT_ERROR]
    hint: rkat run --resume=[workspace]:[uuid] "…" continues the session
    --- exit 1
    "#);
    assert_snapshot!(rkat.args(["run", "--json", "fail auth"]).run(), @r#"
    {"error":{"code":"AGENT_ERROR","message":"the offline model was told to fail with `auth`","data":{"session_id":"[uuid]","session_ref":"[workspace]:[uuid]","session_created":true,"resumable":true,"error_class":"auth","terminal_cause_kind":"llm_failure"}}}
    --- stderr
    error: the offline model was told to fail with `auth` [AGENT_ERROR]
    hint: rkat run --resume=[workspace]:[uuid] "…" continues the session
    --- exit 1
    "#);
    assert_eq!(rkat.args(["-q", "--resume", "say better"]).run().text(), "better\n");
}

#[test]
fn suggested_resume_command_works() {
    let rkat = Rkat::new();
    let failed = rkat.args(["--state-root", "my realms", "--realm", "team", "run", "fail auth"]).run();
    assert_snapshot!(failed, @r#"
    --- stderr
    error: the offline model was told to fail with `auth` [AGENT_ERROR]
    hint: rkat run --state-root 'my realms' --resume=team:[uuid] "…" continues the session
    --- exit 1
    "#);
    let hint = failed.stderr.lines().find_map(|line| line.strip_prefix("hint: rkat ")).unwrap();
    let line = hint.strip_suffix(" \"…\" continues the session").unwrap();
    let shell = format!("'{}' {line} -q 'say better'", env!("CARGO_BIN_EXE_rkat"));
    let again = rkat.command(std::path::Path::new("sh")).args(["-c", &shell]).output().unwrap();
    let printed = (String::from_utf8(again.stdout).unwrap(), String::from_utf8(again.stderr).unwrap());
    assert_eq!(printed, ("better\n".to_owned(), String::new()));
}

#[test]
fn exhausted_budget_reports_the_last_failure() {
    let rkat = Rkat::new();
    let many_retries = "retry = { max_retries = 1000000, initial_delay = \"100ms\", multiplier = 1.0 }";
    rkat.args(["config", "set", "--toml", many_retries]).run().text();
    assert_snapshot!(rkat.args(["run", "-q", "-d", "1s", "fail overloaded"]).run(), @r"
    --- stderr
    warning: the run ended before a retry; the last model call failed: the offline model was told to fail with `overloaded`
    --- exit 2
    ");
}

#[test]
fn unknown_model_suggests_rkat_models() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["run", "-m", "nobody-1", "x"]).run(), @r"
    --- stderr
    error: cannot use model `nobody-1`: unknown model; see `rkat models` [PROVIDER_ERROR]
    --- exit 1
    ");
}

#[test]
fn exhausted_budget_exits_2_without_an_error() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["run", "--max-tool-calls", "1", "call a\ncall b"]).run(), @r"
    --- stderr
    no API key configured; using the offline model
    session [uuid] · 1 step · 0 tool calls · 67 tokens · offline
    the run's budget is exhausted
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["run", "-q", "-d", "1s", "wait 60000"]).run(), @r"
    --- stderr
    --- exit 2
    ");
    let tokens = rkat.args(["run", "--json", "--max-total-tokens", "5", "call a\nthen\nsay done"]).run();
    let reply: serde_json::Value = serde_json::from_str(&tokens.stdout).unwrap();
    assert_eq!(
        (tokens.code, &reply["terminal_cause_kind"]),
        (Some(2), &"budget_exhausted".into()),
        "{tokens}"
    );
}

#[test]
fn run_with_too_many_steps_exits_2() {
    let rkat = Rkat::new();
    rkat.args(["config", "set", "--toml", "agent.max_turns = 1"]).run().text();
    assert_snapshot!(rkat.args(["run", "call a\nthen\nsay done"]).run(), @r#"
    --- stderr
    error: the run reached its limit of 1 steps [AGENT_ERROR]
    hint: rkat run --resume=[workspace]:[uuid] "…" continues the session
    --- exit 2
    "#);
}

#[test]
fn turn_limit_during_extraction_exits_2() {
    let rkat = Rkat::new();
    rkat.args(["config", "set", "--toml", "agent.max_turns = 2\nagent.structured_output_retries = 100"])
        .run()
        .text();
    let schema = r#"{"type": "object", "required": ["n"]}"#;
    let run = rkat.args(["run", "--json", "--schema", schema, "say hi\njson []"]).run();
    let reply: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &reply["turns"]), (Some(2), &2.into()), "{run}");
    assert_eq!(reply["extraction_error"]["reason"], "the run reached its limit of 2 model calls");
}

#[test]
fn output_limit_of_zero_is_rejected() {
    assert_snapshot!(Rkat::new().args(["run", "--max-tokens", "0", "say hi"]).run(), @r"
    --- stderr
    error: `max_tokens` must be greater than 0; omit it to use the config's limit [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn invalid_command_line_exits_2() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["run", "--wrong", "x"]).run(), @r"
    --- stderr
    error: unexpected argument '--wrong' found

      tip: to pass '--wrong' as a value, use '-- --wrong'

    Usage: rkat run [OPTIONS] [PROMPT]

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["run", "-d", "soon", "x"]).run(), @r"
    --- stderr
    error: invalid value 'soon' for '--max-duration <TIME>': invalid duration `soon`; expected a value such as `500ms`, `30s`, `10m`, or `2h`

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["run", "--label", "team", "x"]).run(), @r"
    --- stderr
    error: `team` must be KEY=VALUE [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["run", "-p", "nobody", "x"]).run(), @r"
    --- stderr
    error: invalid value 'nobody' for '--provider <PROVIDER>': unknown provider `nobody`; expected one of anthropic, openai, gemini, self_hosted, other

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["-r", "no good", "x"]).run(), @r"
    --- stderr
    error: `no good` is not a realm id: only letters, digits, `_` and `-` are allowed [INVALID_PARAMS]
    --- exit 2
    ");
    assert_eq!(rkat.args([]).run().code, Some(2));
}

#[test]
fn model_without_api_key_is_rejected() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["run", "-m", "claude-opus-4-6", "x"]).run(), @r"
    --- stderr
    error: cannot use model `claude-opus-4-6`: no API key; set `ANTHROPIC_API_KEY`, or use the model `offline` [PROVIDER_ERROR]
    --- exit 1
    ");
    assert_snapshot!(rkat.args(["run", "--json", "-m", "claude-opus-4-6", "x"]).run(), @r#"
    {"error":{"code":"PROVIDER_ERROR","message":"cannot use model `claude-opus-4-6`: no API key; set `ANTHROPIC_API_KEY`, or use the model `offline`"}}
    --- stderr
    error: cannot use model `claude-opus-4-6`: no API key; set `ANTHROPIC_API_KEY`, or use the model `offline` [PROVIDER_ERROR]
    --- exit 1
    "#);
}

#[test]
fn transient_failure_is_retried() {
    let rkat = Rkat::new();
    rkat.args(["config", "set", "--toml", "retry.initial_delay = \"1ms\""]).run().text();
    let done = rkat.args(["run", "-q", "fail overloaded 2\nsay in the end"]).run();
    assert_eq!(done.text(), "in the end\n");
}

#[test]
fn help_and_version_exit_0() {
    let rkat = Rkat::new();
    for args in [&["--help"][..], &["-h"], &["help", "run"], &["run", "--help"], &["--version"]] {
        let output = rkat.args(args.iter().copied()).run();
        assert!(output.text().starts_with("R") || output.text().starts_with("rkat 0."), "{output}");
    }
}
