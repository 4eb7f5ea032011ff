//! One way to start a run: the command line, the MCP tools, and the crate reject the same requests with the same words,
//! and take the same options.

use meerkat::{
    BudgetLimits, Content, Error, NewSessionOptions, OutputSchema, RunControl, RunInput, RunRequest, Runtime,
    RuntimeOptions, Target, TurnOptions, Usd,
};
use meerkat_contracts::RUN_OPTIONS;
use meerkat_mcp_server::{handle_tools_call, tools_list};
use serde_json::{Value, json};

use crate::support::Rkat;

/// A request that no surface accepts, in the words of each surface, and the error.
struct Bad {
    /// Arguments of `meerkat_run`.
    tool: Value,
    /// Arguments of `rkat run`, if it has such an option.
    line: Option<Vec<String>>,
    /// Changes to a request of the crate.
    request: fn(&mut NewSessionOptions, &mut TurnOptions),
    error: &'static str,
}

fn line(args: &[&str]) -> Option<Vec<String>> {
    Some(args.iter().map(|arg| (*arg).to_owned()).collect())
}

#[expect(clippy::too_many_lines, reason = "it is one table")]
fn table() -> Vec<Bad> {
    let long = "x".repeat(40_000);
    vec![
        Bad {
            tool: json!({ "prompt": " " }),
            line: line(&[" "]),
            request: |_, turn| turn.input.prompt = Content::text(" "),
            error: "`prompt` is empty and there are no `tool_results` or `approvals`",
        },
        Bad {
            tool: json!({ "prompt": "hi", "labels": { "meerkat.x": "1" } }),
            line: line(&["--label", "meerkat.x=1", "hi"]),
            request: |new, _| drop(new.labels.insert("meerkat.x".to_owned(), "1".to_owned())),
            error: "the label `meerkat.x` is reserved; choose another name",
        },
        Bad {
            tool: json!({ "prompt": "hi", "labels": { "a": long } }),
            line: line(&["--label", &format!("a={long}"), "hi"]),
            request: |new, _| drop(new.labels.insert("a".to_owned(), "x".repeat(40_000))),
            error: "`labels` have 40001 bytes together, which is more than 8192",
        },
        Bad {
            tool: json!({ "prompt": "hi", "keep_alive": true }),
            line: None,
            request: |_, turn| turn.keep_alive = Some(true),
            error: "`keep_alive` needs a `comms_name`",
        },
        Bad {
            tool: json!({ "prompt": "hi", "comms_name": "me" }),
            line: None,
            request: |_, turn| turn.comms_name = Some("me".to_owned()),
            error: "communication between agents is not available in this build (feature `comms`)",
        },
        Bad {
            tool: json!({ "prompt": "hi", "preload_skills": [{ "source_uuid": "x", "skill_name": "y" }] }),
            line: None,
            request: |_, turn| {
                let key = meerkat::SkillKey { source_uuid: "x".to_owned(), skill_name: "y".to_owned() };
                turn.preload_skills = Some(vec![key]);
            },
            error: "`preload_skills[0]`: ",
        },
        Bad {
            tool: json!({ "prompt": "hi", "output_schema": { "type": "nothing" } }),
            line: line(&["--schema", "{\"type\": \"nothing\"}", "hi"]),
            request: |_, turn| {
                turn.output_schema = Some(OutputSchema::parse(json!({ "type": "nothing" })).unwrap());
            },
            error: "`output_schema` is not a valid JSON Schema: ",
        },
        Bad {
            tool: json!({ "prompt": "hi", "builtin_config": { "shell_timeout_secs": 0 } }),
            line: None,
            request: |_, turn| turn.shell_timeout_secs = Some(0),
            error: "`builtin_config.shell_timeout_secs` must be greater than 0",
        },
        Bad {
            tool: json!({ "prompt": "hi", "additional_instructions": ["a", long] }),
            line: line(&["--instructions", "a", "--instructions", &long, "hi"]),
            request: |_, turn| turn.instructions = Some(vec!["a".to_owned(), "x".repeat(40_000)]),
            error: "`additional_instructions[1]` is longer than 32768 bytes",
        },
        Bad {
            tool: json!({ "prompt": "hi", "max_tokens": 0 }),
            line: line(&["--max-tokens", "0", "hi"]),
            request: |_, turn| turn.max_tokens = Some(0),
            error: "`max_tokens` must be greater than 0; omit it to use the config's limit",
        },
        Bad {
            tool: json!({ "prompt": "hi", "budget_limits": { "max_cost_usd": 0 } }),
            line: line(&["--max-cost", "0", "hi"]),
            request: |_, turn| {
                turn.budget = BudgetLimits { max_cost_usd: Some(Usd::default()), ..BudgetLimits::default() };
            },
            error: "`budget_limits.max_cost_usd` must be greater than 0; omit it for no limit",
        },
        Bad {
            tool: json!({ "prompt": "hi", "tools": [{ "name": "a b", "description": "", "input_schema": {} }] }),
            line: None,
            request: |_, turn| {
                let tool = json!({ "name": "a b", "description": "", "input_schema": {} });
                turn.tools = Some(vec![serde_json::from_value(tool).unwrap()]);
            },
            error: "`tools[0].name`: `a b` must have 1 to 64 letters, digits, `_` or `-`",
        },
        Bad {
            tool: json!({ "prompt": "hi", "model": "nobody-serves-it" }),
            line: line(&["--model", "nobody-serves-it", "hi"]),
            request: |_, turn| turn.model = Some("nobody-serves-it".to_owned()),
            error: "cannot use model `nobody-serves-it`: unknown model; see ",
        },
        Bad {
            tool: json!({ "prompt": "hi", "hooks_override": { "disable": ["none"] } }),
            line: None,
            request: |_, turn| turn.hooks.disable.push("none".to_owned()),
            error: "`hooks_override`: unknown hook `none`",
        },
        Bad {
            tool: json!({ "prompt": [
                { "type": "image", "media_type": "image/png", "source": "inline", "data": "%" },
            ] }),
            line: None,
            request: |_, turn| {
                let image = json!([
                    { "type": "image", "media_type": "image/png", "source": "inline", "data": "%" },
                ]);
                turn.input.prompt = serde_json::from_value(image).unwrap();
            },
            error: "`prompt[0].data` is not base64",
        },
    ]
}

async fn through_the_crate(runtime: &Runtime, bad: &Bad) -> Error {
    let mut new = NewSessionOptions::default();
    let mut turn = TurnOptions {
        input: RunInput { prompt: Content::text("hi"), ..RunInput::default() },
        ..TurnOptions::default()
    };
    (bad.request)(&mut new, &mut turn);
    let request = RunRequest { target: Target::New(new), turn, control: RunControl::default() };
    runtime.sessions().run(request).await.unwrap_err()
}

#[tokio::test]
async fn bad_requests_are_rejected_alike_everywhere() {
    let runtime = Runtime::ephemeral(RuntimeOptions::default()).unwrap();
    let rkat = Rkat::new();
    for bad in table() {
        let body = through_the_crate(&runtime, &bad).await.body();
        assert!(body.message.starts_with(bad.error), "{}", body.message);

        let result = handle_tools_call(&runtime, "meerkat_run", bad.tool.clone()).await.unwrap();
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&text["code"], &text["message"]), (&json!(body.code), &json!(body.message)), "{text}");

        let Some(line) = &bad.line else { continue };
        let output = rkat.args(["run"].into_iter().chain(line.iter().map(String::as_str))).run();
        // The command line names its own commands.
        let message = body.message.replace("meerkat_models_catalog", "`rkat models`");
        let expected = format!("error: {message} [{}]", body.code);
        assert!(output.stderr.contains(&expected), "{expected}\n{}", output.stderr);
    }
}

#[test]
fn options_are_on_every_surface() {
    let help = Rkat::new().args(["run", "--help"]).run().stdout;
    let tools = tools_list();
    for (option, flag) in RUN_OPTIONS {
        assert!(flag.is_empty() || help.contains(flag), "{flag}");
        for name in ["meerkat_run", "meerkat_resume"] {
            let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
            assert!(tool["inputSchema"]["properties"][option].is_object(), "{name}: {option}");
        }
    }
}
