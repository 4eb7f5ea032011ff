//! Single requests: every scenario in every format.

use std::sync::Arc;

use meerkat_core::{Message, ModelRequest, OutputSchema, SchemaCompat};
use serde_json::{Value, json};

use crate::wires::Wire;
use crate::words::{ask, clip, shows, tool, tools, user, with_params, words};
use crate::{history, nasty};

/// One request.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    pub(crate) request: ModelRequest,
}

/// Every scenario in every format that supports it.
pub(crate) fn cases() -> Vec<Case> {
    let all = |wire: Wire| {
        let plain = plain().into_iter().chain(histories());
        let scenarios = plain.chain(settings(wire)).chain(outputs(wire)).chain(searches(wire));
        scenarios.map(move |(scenario, request)| {
            let name = format!("{}.{scenario}", wire.name());
            Case { name, wire, request }
        })
    };
    Wire::ALL.into_iter().flat_map(all).collect()
}

type Scenario = (&'static str, ModelRequest);

fn plain() -> Vec<Scenario> {
    let hi = || ask(vec![user("hi")]);
    let nothing = Arc::from([tool("now", json!({ "type": "object", "properties": {} }))]);
    vec![
        ("plain", hi()),
        ("no-system", ModelRequest { system: " ".to_owned(), ..hi() }),
        ("tools", ModelRequest { tools: tools(), ..hi() }),
        ("tool-without-arguments", ModelRequest { tools: nothing, ..hi() }),
        ("nasty-tools", ModelRequest { tools: nasty::tools(), ..hi() }),
        ("temperature", ModelRequest { temperature: Some(0.7), ..hi() }),
        ("high-temperature", ModelRequest { temperature: Some(1.5), ..hi() }),
        ("small-limit", ModelRequest { max_tokens: 1, ..hi() }),
        ("large-limit", ModelRequest { max_tokens: u32::MAX, ..hi() }),
        ("video", ask(vec![shows(vec![words("watch"), clip()])])),
    ]
}

fn histories() -> Vec<Scenario> {
    let with = |messages: Vec<Message>| ModelRequest { tools: tools(), ..ask(messages) };
    vec![
        ("parallel-calls", with(history::parallel_calls())),
        ("failures", with(history::failures())),
        ("images", with(history::images())),
        ("only-images", with(history::only_images())),
        ("images-in-results", with(history::images_in_results())),
        ("long", with(history::long())),
        ("interrupted", with(history::interrupted())),
        ("orphans", with(history::orphans())),
        ("blanks", with(history::blanks())),
        ("unreadable-arguments", with(history::unreadable())),
        ("odd-ids", with(history::odd_ids())),
        ("notices", with(history::notices())),
        ("out-of-turn", with(history::out_of_turn())),
        ("made-images", with(history::made_images())),
        ("signatures", with(history::signatures())),
        ("calls-without-tools", ask(history::parallel_calls())),
        ("nothing", with(Vec::new())),
    ]
}

fn settings(wire: Wire) -> Vec<Scenario> {
    let thinking = || with_params(wire.thinking());
    let mut all = vec![
        ("thinking", thinking()),
        ("thinking-with-tools", ModelRequest { tools: tools(), ..thinking() }),
        ("thinking-in-little-room", ModelRequest { max_tokens: 100, ..thinking() }),
        ("thinking-at-a-temperature", ModelRequest { temperature: Some(0.5), ..thinking() }),
        (
            "thinking-after-calls",
            ModelRequest { tools: tools(), ..over(thinking(), history::parallel_calls()) },
        ),
        (
            "thinking-after-signatures",
            ModelRequest { tools: tools(), ..over(thinking(), history::signatures()) },
        ),
        ("more-parameters", ModelRequest { tools: tools(), ..with_params(wire.more()) }),
        ("more-parameters-without-tools", with_params(wire.more())),
        (
            "what-is-ours-stays",
            with_params(
                json!({ "messages": [], "input": [], "contents": [], "stream": false, "model": "x", "tools": [] }),
            ),
        ),
    ];
    if !wire.is_own() {
        // Parameters that a session accumulates when it is run with every provider.
        let everything = json!({
            "thinking_level": "low", "effort": "low", "reasoning_effort": "low", "google_search": {}, "top_k": 5,
            "web_search": { "type": wire.search()["web_search"]["type"] }, "thinking": { "type": "adaptive" },
            "compaction": true,
        });
        all.push(("parameters-for-everyone", ModelRequest { tools: tools(), ..with_params(everything) }));
    }
    if wire.is_anthropic() {
        let compaction = json!({ "compaction": "auto", "thinking": false });
        all.push(("compaction", ModelRequest { tools: tools(), ..with_params(compaction) }));
        all.push(("thinking-by-budget", with_params(json!({ "thinking_budget": 50 }))));
    }
    all
}

fn over(request: ModelRequest, messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages: messages.into_iter().map(Arc::new).collect(), ..request }
}

fn outputs(wire: Wire) -> Vec<Scenario> {
    let raw =
        json!({ "type": "object", "properties": { "answer": { "type": "string" } }, "required": ["answer"] });
    let output_schema = |schema: &Value, strict: bool| {
        let name = strict.then(|| "My output!".to_owned());
        Arc::new(OutputSchema { schema: schema.clone(), name, strict, compat: SchemaCompat::Lossy })
    };
    let with = |schema: &Value, strict| ModelRequest {
        output_schema: Some(output_schema(schema, strict)),
        ..over(with_params(wire.thinking()), vec![user("answer")])
    };
    let after =
        ModelRequest { output_schema: Some(output_schema(&raw, false)), ..ask(history::parallel_calls()) };
    vec![
        ("output", with(&raw, false)),
        ("output-strict", with(&raw, true)),
        ("output-nasty", with(&nasty::output(), false)),
        ("output-nasty-strict", with(&nasty::output(), true)),
        ("output-after-calls", after),
    ]
}

fn searches(wire: Wire) -> Vec<Scenario> {
    let search = || with_params(wire.search());
    let off = |value: Value| with_params(json!({ "web_search": value, "google_search": value }));
    let same_name = Arc::from([tool("web_search", json!({ "type": "object", "properties": {} }))]);
    vec![
        ("search", search()),
        ("search-with-tools", ModelRequest { tools: tools(), ..search() }),
        ("search-beside-its-name", ModelRequest { tools: same_name, ..search() }),
        ("search-null", off(Value::Null)),
        ("search-false", off(json!(false))),
    ]
}
