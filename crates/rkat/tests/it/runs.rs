//! `rkat run`: output.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn run_prints_answer_and_summary() {
    assert_snapshot!(Rkat::new().args(["run", "say hello"]).run(), @r"
    hello
    --- stderr
    no API key configured; using the offline model
    session [uuid] · 1 step · 0 tool calls · 66 tokens · offline
    --- exit 0
    ");
}

#[test]
fn unknown_command_is_a_prompt() {
    assert_snapshot!(Rkat::new().args(["say hello"]).run(), @r"
    hello
    --- stderr
    no API key configured; using the offline model
    session [uuid] · 1 step · 0 tool calls · 66 tokens · offline
    --- exit 0
    ");
}

#[test]
fn json_output_is_complete() {
    assert_snapshot!(Rkat::new().args(["run", "--json", "say hello"]).run(), @r#"
    {
      "text": "hello",
      "session_id": "[uuid]",
      "session_ref": "[workspace]:[uuid]",
      "turns": 1,
      "tool_calls": 0,
      "usage": {
        "input_tokens": 64,
        "output_tokens": 2
      },
      "cost_usd": null,
      "structured_output": null,
      "extraction_error": null,
      "schema_warnings": null,
      "model": "offline",
      "terminal_cause_kind": null
    }
    --- stderr
    no API key configured; using the offline model
    session [uuid] · 1 step · 0 tool calls · 66 tokens · offline
    --- exit 0
    "#);
}

#[test]
fn json_options_are_equivalent() {
    let rkat = Rkat::new();
    let keys = |args: [&str; 4]| {
        let value = rkat.args(args).run().json();
        value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys(["run", "-o", "json", "say a"]), keys(["--json", "-q", "--no-stream", "say a"]));
}

#[test]
fn quiet_prints_only_the_answer() {
    assert_snapshot!(Rkat::new().args(["run", "-q", "say hello"]).run(), @r"
    hello
    --- stderr
    --- exit 0
    ");
}

#[test]
fn streamed_answer_has_the_same_text() {
    let rkat = Rkat::new();
    let streamed = rkat.args(["run", "-q", "--stream", "say one two\nsay three"]).run();
    assert_eq!(streamed.text(), "one two\nthree\n");
    let unstreamed = rkat.args(["run", "-q", "--no-stream", "say one two\nsay three"]).run();
    assert_eq!(unstreamed.text(), streamed.text());
}

#[test]
fn verbose_prints_events_to_stderr() {
    assert_snapshot!(Rkat::new().args(["run", "-v", "call look {}"]).run(), @r#"
    look failed → {"error":"tool_not_found","message":"no tool is named `look`; available: there are none"}
    --- stderr
    {"type":"run_started","session_id":"[uuid]","prompt":"call look {}"}
    {"type":"turn_started","turn_number":0}
    {"type":"tool_call_requested","id":"call_1","name":"look","args":{}}
    {"type":"tool_result_received","id":"call_1","name":"look","content":[{"type":"text","text":"{\"error\":\"tool_not_found\",\"message\":\"no tool is named `look`; available: there are none\"}"}],"is_error":true}
    {"type":"turn_completed","stop_reason":"tool_use","usage":{"input_tokens":65,"output_tokens":2}}
    {"type":"turn_started","turn_number":1}
    {"type":"text_delta","delta":"look "}
    {"type":"text_delta","delta":"failed "}
    {"type":"text_delta","delta":"→ "}
    {"type":"text_delta","delta":"{\"error\":\"tool_not_found\",\"message\":\"no "}
    {"type":"text_delta","delta":"tool "}
    {"type":"text_delta","delta":"is "}
    {"type":"text_delta","delta":"named "}
    {"type":"text_delta","delta":"`look`; "}
    {"type":"text_delta","delta":"available: "}
    {"type":"text_delta","delta":"there "}
    {"type":"text_delta","delta":"are "}
    {"type":"text_delta","delta":"none\"}"}
    {"type":"text_complete","content":"look failed → {\"error\":\"tool_not_found\",\"message\":\"no tool is named `look`; available: there are none\"}"}
    {"type":"turn_completed","stop_reason":"end_turn","usage":{"input_tokens":88,"output_tokens":27}}
    {"type":"run_completed","session_id":"[uuid]","result":"look failed → {\"error\":\"tool_not_found\",\"message\":\"no tool is named `look`; available: there are none\"}","extraction_required":false,"usage":{"input_tokens":153,"output_tokens":29}}
    no API key configured; using the offline model
    session [uuid] · 2 steps · 0 tool calls · 182 tokens · offline
    --- exit 0
    "#);
}

#[test]
fn named_offline_model_prints_no_notice() {
    assert_snapshot!(Rkat::new().args(["run", "-m", "offline", "say hello"]).run(), @r"
    hello
    --- stderr
    session [uuid] · 1 step · 0 tool calls · 66 tokens · offline
    --- exit 0
    ");
}

#[test]
fn offline_model_identifies_itself() {
    let done = Rkat::new().args(["run", "-q", "What is the capital of France?"]).run();
    assert!(done.text().starts_with("I am Meerkat's offline model"), "{done}");
}

#[test]
fn labels_are_stored_with_the_session() {
    let rkat = Rkat::new();
    rkat.args(["run", "-q", "--label", "team=a", "--label", "kind=demo", "say hi"]).run().text();
    let session = rkat.args(["session", "show", "last", "--json"]).run().json();
    assert_eq!(session["state"]["labels"], serde_json::json!({ "team": "a", "kind": "demo" }));
}

#[test]
fn all_run_options_are_accepted() {
    let pairs = [
        ("--instructions", "Be brief."),
        ("--system", "You count."),
        ("--param", "effort=2"),
        ("--params-json", "{\"x\": [1]}"),
        ("--max-tokens", "50"),
        ("--max-tool-calls", "5"),
        ("--max-total-tokens", "5000"),
        ("--max-duration", "5m"),
        ("--model", "offline"),
        ("--provider", "other"),
    ];
    let options = pairs.iter().flat_map(|(option, value)| [*option, *value]);
    let done = Rkat::new().args(["run", "-q", "say hi"].into_iter().chain(options)).run();
    assert_eq!(done.text(), "hi\n");
}
