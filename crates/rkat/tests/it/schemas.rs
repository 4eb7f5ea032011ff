//! `rkat run --schema`.

use insta::assert_snapshot;

use crate::support::Rkat;

const COUNT: &str =
    r#"{"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}"#;

#[test]
fn schema_can_be_inline_or_a_file() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("count.json"), COUNT).unwrap();
    assert_snapshot!(rkat.args(["run", "-q", "--schema", COUNT, "say hi"]).run(), @r#"
    {
      "n": 3
    }
    --- stderr
    --- exit 0
    "#);
    let from_file = rkat.args(["run", "-q", "--schema", "count.json", "json {\"n\": 7}"]).run();
    assert_eq!(from_file.json(), serde_json::json!({ "n": 7 }));
}

#[test]
fn json_carries_text_and_structured_output() {
    let done = Rkat::new().args(["--json", "--schema", COUNT, "say hi\njson {\"n\": 9}"]).run().json();
    assert_eq!((&done["text"], &done["structured_output"]), (&"hi".into(), &serde_json::json!({ "n": 9 })));
}

#[test]
fn invalid_schema_is_rejected() {
    let rkat = Rkat::new();
    let with = |schema: &str| rkat.args(["run", "--schema", schema, "say hi"]).run();
    assert_snapshot!(with("{\"type\": \"nothing\"}"), @r#"
    --- stderr
    error: `output_schema` is not a valid JSON Schema: "nothing" is not valid under any of the schemas listed in the 'anyOf' keyword [INVALID_PARAMS]
    --- exit 2
    "#);
    assert_snapshot!(with("{\"type\""), @r"
    --- stderr
    error: `--schema` must be a JSON Schema: EOF while parsing an object at line 1 column 7 [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(with("missing.json"), @r"
    --- stderr
    error: cannot read the schema `missing.json`: No such file or directory (os error 2) [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn output_that_never_validates_fails() {
    assert_snapshot!(Rkat::new().args(["run", "-q", "--schema", COUNT, "json {\"n\": 1}"]).run(), @r#"
    --- stderr
    error: no structured output: at `/n`: 1 is less than the minimum of 3 (after 3 attempts; last output: {"n": 1}) [AGENT_ERROR]
    --- exit 1
    "#);
}
