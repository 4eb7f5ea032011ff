//! Generated input for every operation: what a schema promises is accepted, and everything else is rejected with a
//! short reason in plain words.

use meerkat::operations::TABLE;
use meerkat::{Config, Error, ErrorKind, HookEntry};
use meerkat_core::{UUID_PATTERN, input_schema};
use meerkat_testkit::Generator;
use serde_json::{Value, json};

use crate::world::{World, call};

/// Seeds of all tests, so that they always try the same input.
const SEEDS: [u64; 4] = [7, 11, 13, 17];
/// Number of inputs for each operation and seed.
const CASES: usize = 40;

/// Codes of errors for input that matches the schema, in addition to `INVALID_PARAMS` for one of the [`REASONS`].
const ALLOWED: [ErrorKind; 5] = [
    ErrorKind::SessionNotFound,
    ErrorKind::SessionNotRunning,
    ErrorKind::SkillNotFound,
    ErrorKind::CapabilityUnavailable,
    ErrorKind::ProviderError,
];

/// Reasons to reject input that matches the schema: they depend on other fields, or on the state.
const REASONS: [&str; 23] = [
    "`labels` have ",
    "`skill_references` is no longer accepted",
    "the session has no MCP server named",
    "cannot use an environment variable here",
    "cannot be combined with `command`",
    "is not a transport; with `url`",
    "`prompt` is empty",
    "no skill source has the id",
    "is not open: it was closed",
    "no blob `sha256:",
    "is not base64",
    "needs a `comms_name`",
    "duplicate tool",
    "`config` is missing",
    "`patch` is missing",
    "invalid config: ",
    "`skill_key` is missing",
    "missing; set `command` or `url`",
    "no pending tool call has the id",
    "no call awaiting approval has the id",
    "belongs to a server with",
    "`hooks_override`: ",
    "`output_schema",
];

/// Words of Rust and serde that a user must not see.
const FORBIDDEN: [&str; 20] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
    "i32",
    "i64",
    "f32",
    "f64",
    "struct",
    "enum",
    "tagged",
    "unit variant",
    "newtype",
    "sequence",
    "a map",
    "with a single key",
    "any variant",
    "identifier",
    "Option",
];

fn samples(rule: &str) -> Vec<&'static str> {
    match rule {
        r"\S" => vec!["x", "say hi", "a\nb", "\u{1b}[2J"],
        "^[0-9]{1,12} ?(ms|s|m|h)$" => vec!["30s", "500 ms", "999999999999h"],
        "^[0-9]{1,12} ?(ms|s|m|h)$|^disabled$" => vec!["30s", "disabled"],
        UUID_PATTERN => {
            vec!["01936f8a-7b2c-7000-8000-000000000001", "00000000000040118111000000000001"]
        }
        "date-time" => vec!["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+01:00"],
        "^[a-zA-Z0-9_-]{1,64}$" => {
            vec!["f", "a_b-C9", "0123456789012345678901234567890123456789012345678901234567890123"]
        }
        "^[a-zA-Z0-9_.-]{1,64}$" => vec!["s", "a.b_c-9"],
        "^[a-z0-9]+(-[a-z0-9]+)*$" => vec!["a", "no-such-skill", "0-1-2"],
        r"^https?://\S|\$\{" => vec!["http://127.0.0.1:1/mcp", "${NOT_SET}"],
        "^(auto|[1-9][0-9]{0,3}x[1-9][0-9]{0,3})$" => vec!["auto", "1x1", "1024x9999"],
        "^sha256:[0-9a-f]{64}$" => {
            vec!["sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]
        }
        _ => Vec::new(),
    }
}

/// Returns the input as text, for the message of a failed test.
fn excerpt(input: &Value) -> String {
    input.to_string().chars().take(600).collect()
}

/// Returns every character of every text in a value.
fn texts(value: &Value) -> Box<dyn Iterator<Item = char> + '_> {
    match value {
        Value::String(text) => Box::new(text.chars()),
        Value::Array(values) => Box::new(values.iter().flat_map(texts)),
        Value::Object(object) => {
            Box::new(object.iter().flat_map(|(key, value)| key.chars().chain(texts(value))))
        }
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns what is wrong with an error as a reply to any input.
fn find_flaw(error: &Error) -> Option<&'static str> {
    let message = error.to_string();
    let body = serde_json::to_value(error.body()).unwrap();
    // A list of known names may be long.
    let is_long = body.to_string().len() > 6000;
    let has_control = texts(&body).any(|letter| letter.is_control() && letter != '\n');
    // A value may contain such a word, too.
    let unquoted = message.replace("a, expected u64", "");
    let is_word = |word: &str| {
        let is_edge = |text: Option<char>| text.is_none_or(|letter| !letter.is_alphanumeric());
        unquoted.match_indices(word).any(|(start, _)| {
            is_edge(unquoted[..start].chars().next_back())
                && is_edge(unquoted[start + word.len()..].chars().next())
        })
    };
    if error.kind() == ErrorKind::Internal {
        Some("internal error")
    } else if is_long {
        Some("long message")
    } else if has_control {
        Some("control character")
    } else {
        FORBIDDEN.into_iter().find(|word| is_word(word))
    }
}

async fn each_case(
    change: impl Fn(&mut Generator, &mut Value),
    judge: impl Fn(Result<Value, Error>, Matching) -> Option<&'static str>,
) {
    let world = World::in_memory([], [], None);
    let mut generators = SEEDS.map(|seed| Generator::new(seed, samples));
    let mut failures = Vec::new();
    let first = json!({ "prompt": "say hi", "model": "offline" });
    for operation in &TABLE {
        let schema = operation.input_schema();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let session = call(&world, "meerkat_run", first.clone()).await.unwrap()["session_id"].clone();
        for case in 0..CASES * SEEDS.len() {
            let generator = &mut generators[case % SEEDS.len()];
            let mut input = generator.valid(&schema);
            // Most runs must get past the checks of the session and the model.
            for (field, value) in [("session_id", &session), ("model", &json!("offline"))] {
                if let Some(text) = input.get_mut(field)
                    && generator.below(4) > 0
                {
                    text.clone_from(value);
                }
            }
            change(generator, &mut input);
            let matching = if validator.is_valid(&input) { Matching::Schema } else { Matching::Nothing };
            let outcome = call(&world, operation.name, input.clone()).await;
            let message = outcome.as_ref().err().map(|error| format!("{}: {error}", error.kind()));
            let message = message.unwrap_or_default();
            if let Some(flaw) = judge(outcome, matching) {
                let message: String = message.chars().take(500).collect();
                failures.push(format!("{} {}\n  {flaw}: {message}", operation.name, excerpt(&input)));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    // The runtime still works.
    call(&world, "meerkat_run", first).await.unwrap();
}

/// Whether an input matches its schema.
#[derive(Debug, PartialEq, Eq)]
enum Matching {
    Schema,
    Nothing,
}

#[tokio::test]
async fn input_that_matches_the_schema_is_accepted() {
    let judge = |outcome: Result<Value, Error>, matching| {
        assert_eq!(matching, Matching::Schema, "the generator follows the schema");
        let error = outcome.err()?;
        let message = error.to_string();
        let is_allowed = match error.kind() {
            ErrorKind::InvalidParams => REASONS.iter().any(|reason| message.contains(reason)),
            kind => ALLOWED.contains(&kind),
        };
        if is_allowed { find_flaw(&error) } else { Some("rejected") }
    };
    each_case(|_, _| {}, judge).await;
}

#[tokio::test]
async fn broken_input_is_rejected_in_plain_words() {
    let change = |generator: &mut Generator, input: &mut Value| generator.break_one(input);
    let judge = |outcome: Result<Value, Error>, matching| match outcome {
        Ok(_) if matching == Matching::Nothing => Some("accepted"),
        Ok(_) => None,
        Err(error) => find_flaw(&error),
    };
    each_case(change, judge).await;
}

#[tokio::test]
async fn broken_config_is_rejected_in_plain_words() {
    let world = World::in_memory([], [], None);
    let mut generators = SEEDS.map(|seed| Generator::new(seed, samples));
    let (config, hook) = (input_schema::<Config>(), input_schema::<HookEntry>());
    for case in 0..20 * CASES {
        let generator = &mut generators[case % SEEDS.len()];
        let mut document = generator.valid(&config);
        generator.break_one(&mut document);
        let set = json!({ "action": "set", "config": document });
        let mut entry = generator.valid(&hook);
        generator.break_one(&mut entry);
        let hooks =
            json!({ "prompt": "say hi", "model": "offline", "hooks_override": { "entries": [entry] } });
        for (name, input) in [("meerkat_config", set), ("meerkat_run", hooks)] {
            if let Err(error) = call(&world, name, input.clone()).await {
                assert_eq!(find_flaw(&error), None, "{name} {}:\n{error}", excerpt(&input));
            }
        }
    }
}
