//! Schemas of tools and outputs, as their authors write them.

#[path = "../../../crates/providers/src/schema/tests/checker.rs"]
mod checker;

use meerkat_core::ToolDef;
use meerkat_providers::fuzzing::Format;
use serde_json::Value;

use super::{kind_of, texts};
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "schemas", style: Style::Json, corpus, run };

/// The rules that a schema must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Anthropic,
    OpenAi,
    Gemini,
}

const DIALECTS: [(Format, Dialect); 3] = [
    (Format::Anthropic, Dialect::Anthropic),
    (Format::Responses, Dialect::OpenAi),
    (Format::Gemini, Dialect::Gemini),
];

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"type":"object","properties":{"a":{"type":"string","minLength":1,"pattern":"^a+$"},"b":{"type":["integer","null"],"minimum":0}},"required":["a"],"additionalProperties":false}"#,
        r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"properties":{"list":{"$ref":"#/$defs/n"}}}"##,
        r#"{"oneOf":[{"properties":{"kind":{"const":"a"}},"required":["kind"]},{"properties":{"kind":{"const":"b"},"x":{"type":"array"}}}],"allOf":[{"properties":{"y":{"enum":[1,"2",null]}}}]}"#,
        r#"{"type":"object","properties":{"t":{"type":"array","prefixItems":[{"type":"number"},{"type":"boolean"}],"items":false,"uniqueItems":true},"m":{"type":"object","patternProperties":{"^x":{"type":"string"}},"propertyNames":{"maxLength":3}}}}"#,
        r#"{"properties":{"when":{"type":"string","format":"date-time","default":"now"},"not":{"not":{"type":"null"}},"if":{"if":{"type":"string"},"then":{"minLength":2},"else":true}},"nullable":true}"#,
        r#"{"definitions":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"type":"object","properties":{"a b":{"$ref":"x"},"é":{},"d.e":{"exclusiveMinimum":true,"minimum":1}},"required":["a b","gone",1]}"#,
        "true",
        "null",
    ])
}

fn run(input: &[u8], _: &mut Random) -> Verdict {
    let Ok(schema) = serde_json::from_slice::<Value>(input) else {
        return Ok("no JSON".to_owned());
    };
    let mut outcome = String::new();
    for (format, dialect) in DIALECTS {
        outcome.push_str(&tool(format, dialect, &schema)?);
        let output = format.output_schema(&schema);
        if schema.is_object() && !output.is_object() {
            return Err(format!("{format:?}: the output schema is {output}"));
        }
    }
    Ok(outcome)
}

fn tool(format: Format, dialect: Dialect, schema: &Value) -> Verdict {
    let tool = ToolDef { name: "t".to_owned(), description: "d".to_owned(), input_schema: schema.clone() };
    let (taken, left_out) = format.tools(&[tool]);
    match (taken.as_slice(), left_out.as_slice()) {
        ([taken], []) => {
            checker::check(&taken.input_schema, dialect)?;
            if !checker::name_is_fine(&taken.name, dialect) {
                return Err(format!("{format:?}: invalid name `{}`", taken.name));
            }
            if format != Format::Gemini && format.tools(std::slice::from_ref(taken)).0 != [taken.clone()] {
                return Err(format!("{format:?}: repairing it twice changes it: {}", taken.input_schema));
            }
            Ok(shape(&taken.input_schema))
        }
        ([], [(name, reason)]) if name == "t" && !reason.is_empty() => Ok(kind_of(reason)),
        _ => Err(format!("{format:?}: one tool became {taken:?} and {left_out:?}")),
    }
}

/// Returns the keywords of a schema and of its properties.
fn shape(schema: &Value) -> String {
    let keys = |value: &Value| -> String {
        let Some(object) = value.as_object() else { return "-".to_owned() };
        let mut keys: Vec<_> = object.keys().map(|key| key.chars().take(4).collect::<String>()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().take(5).collect::<Vec<_>>().join(",")
    };
    let children =
        schema["properties"].as_object().into_iter().flatten().take(3).map(|(_, child)| keys(child));
    format!("{}({})", keys(schema), children.collect::<Vec<_>>().join(";"))
}
