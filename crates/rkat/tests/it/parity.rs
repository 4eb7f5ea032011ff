//! One way to start a run: the command line, the MCP tools, and the crate reject the same requests with the same words,
//! and take the same options.

use std::collections::BTreeSet;

use meerkat::{
    Approval, ApprovalPolicy, BudgetLimits, Content, Decision, NewSessionOptions, OutputSchema, RunControl,
    RunInput, RunRequest, Runtime, RuntimeOptions, SessionId, Target, ToolResult, TurnOptions, Usd,
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

/// A tool of the caller.
fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "", "input_schema": {} })
}

/// A tool with a handler that does not exist.
fn unhandled() -> Value {
    json!({ "name": "a", "description": "", "input_schema": {}, "handler": "mail" })
}

fn handler(tool: Value) -> meerkat_contracts::ToolHandler {
    serde_json::from_value(tool).unwrap()
}

/// A hook that only the owner of the realm can add to a run.
fn command_hook() -> Value {
    json!({ "id": "mine", "runtime": { "type": "command", "command": "true" } })
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
            tool: json!({ "prompt": "hi", "skill_refs": [
                { "kind": "structured", "source_uuid": "x", "skill_name": "y" },
            ] }),
            line: None,
            request: |_, turn| {
                let key = meerkat::SkillKey { source_uuid: "x".to_owned(), skill_name: "y".to_owned() };
                turn.skills = vec![key];
            },
            error: "`skill_refs[0]`: ",
        },
        Bad {
            tool: json!({ "prompt": "hi", "structured_output_retries": 101 }),
            line: None,
            request: |_, turn| turn.structured_output_retries = Some(101),
            error: "`structured_output_retries` must be at most 100",
        },
        Bad {
            tool: json!({ "prompt": "hi", "tools": [tool("a"), tool("a")] }),
            line: None,
            request: |_, turn| turn.tools = Some(vec![handler(tool("a")), handler(tool("a"))]),
            error: "`tools[1].name`: duplicate tool `a`",
        },
        Bad {
            tool: json!({ "prompt": "hi", "tools": [unhandled()] }),
            line: None,
            request: |_, turn| turn.tools = Some(vec![handler(unhandled())]),
            error: "`tools[0].handler`: unknown handler `mail`; use `callback`, or omit the field",
        },
        Bad {
            tool: json!({ "prompt": "hi", "hooks_override": { "entries": [command_hook()] } }),
            line: None,
            request: |_, turn| turn.hooks.entries.push(serde_json::from_value(command_hook()).unwrap()),
            error: "`hooks_override`: the hook `mine`, which is a command or a URL, is restricted to the owner of the \
                    realm; ",
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
            tool: json!({ "prompt": "hi", "tools": [tool("a b")] }),
            line: None,
            request: |_, turn| turn.tools = Some(vec![handler(tool("a b"))]),
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

fn prompt(text: &str) -> TurnOptions {
    let input = RunInput { prompt: Content::text(text), ..RunInput::default() };
    TurnOptions { input, ..TurnOptions::default() }
}

/// Rejects one request on every surface, and compares the errors.
async fn check(
    (runtime, rkat): (&Runtime, &Rkat),
    (target, turn): (Target, TurnOptions),
    (name, arguments): (&str, Value),
    line: Option<&[String]>,
    expected: &str,
) {
    let request = RunRequest { target, turn, control: RunControl::default() };
    let body = runtime.sessions().run(request).await.unwrap_err().body();
    assert!(body.message.starts_with(expected), "{}", body.message);

    let result = handle_tools_call(runtime, name, arguments).await.unwrap();
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&text["code"], &text["message"]), (&json!(body.code), &json!(body.message)), "{text}");

    let Some(line) = line else { return };
    let output = rkat.args(["run"].into_iter().chain(line.iter().map(String::as_str))).run();
    // The command line names its own commands.
    let message = body.message.replace("meerkat_models_catalog", "`rkat models`");
    let expected = format!("error: {message} [{}]", body.code);
    assert!(output.stderr.contains(&expected), "{expected}\n{}", output.stderr);
}

#[tokio::test]
async fn bad_requests_are_rejected_alike_everywhere() {
    let runtime = Runtime::ephemeral(RuntimeOptions::default()).unwrap();
    let rkat = Rkat::new();
    for bad in table() {
        let (mut new, mut turn) = (NewSessionOptions::default(), prompt("hi"));
        (bad.request)(&mut new, &mut turn);
        let request = (Target::New(new), turn);
        check((&runtime, &rkat), request, ("meerkat_run", bad.tool), bad.line.as_deref(), bad.error).await;
    }
}

#[tokio::test]
async fn bad_resumes_are_rejected_alike_everywhere() {
    let runtime = Runtime::ephemeral(RuntimeOptions::default()).unwrap();
    let rkat = Rkat::new();
    let surfaces = (&runtime, &rkat);
    let resume = "meerkat_resume";

    let unknown: SessionId = "01a1ee8a-7b2c-7000-8000-000000000001".parse().unwrap();
    let request = (Target::Existing(unknown), prompt("hi"));
    let arguments = json!({ "session_id": unknown, "prompt": "hi" });
    let resumed = line(&[&format!("--resume={unknown}"), "hi"]);
    check(surfaces, request, (resume, arguments), resumed.as_deref(), "session").await;

    let tools = Some(vec![handler(tool("weather"))]);
    let turn = TurnOptions { tools, ..prompt("call weather {}") };
    let new = NewSessionOptions::default;
    let pending = runtime.sessions().create(new(), turn, RunControl::default()).await.unwrap().session_id;
    let result =
        ToolResult { tool_use_id: "call_9".to_owned(), content: Content::text("sun"), is_error: false };
    let input = RunInput { results: vec![result], ..RunInput::default() };
    let request = (Target::Existing(pending), TurnOptions { input, ..TurnOptions::default() });
    let results = json!([{ "tool_use_id": "call_9", "content": "sun" }]);
    let arguments = json!({ "session_id": pending, "tool_results": results });
    let expected = "no pending tool call has the id `call_9`; pending: `call_1`";
    check(surfaces, request, (resume, arguments), None, expected).await;

    let (builtins, approvals) = (Some(true), Some(ApprovalPolicy::Always));
    let turn = TurnOptions { builtins, approvals, ..prompt("call datetime {}") };
    let pending = runtime.sessions().create(new(), turn, RunControl::default()).await.unwrap().session_id;
    let asking = ["run", "--tools=safe", "--approvals=always", "--json", "call datetime {}"];
    let reply: Value = serde_json::from_str(&rkat.args(asking).run().stdout).unwrap();
    let approval = Approval { call: "call_9".to_owned(), expires_at: None, decision: Decision::Approve };
    let input = RunInput { approvals: vec![approval], ..RunInput::default() };
    let request = (Target::Existing(pending), TurnOptions { input, ..TurnOptions::default() });
    let approvals = json!([{ "tool_use_id": "call_9", "approve": true }]);
    let arguments = json!({ "session_id": pending, "approvals": approvals });
    let session = format!("--resume={}", reply["session_id"].as_str().unwrap());
    let decided = line(&[&session, "--approve", "call_9"]);
    let expected = "no call awaiting approval has the id `call_9`; pending: `call_1`";
    check(surfaces, request, (resume, arguments), decided.as_deref(), expected).await;
}

/// Flags of `rkat run` that are no options of a run: they name the session, its input, and decisions, limit the tools
/// of a resumed run, or concern only the command line.
const OTHER_FLAGS: [&str; 15] = [
    "--allow-tool",
    "--approve",
    "--block-tool",
    "--deny",
    "--json",
    "--label",
    "--no-stdin",
    "--no-stream",
    "--output",
    "--quiet",
    "--resume",
    "--stdin",
    "--stream",
    "--verbose",
    "--wait-for-mcp",
];

#[test]
fn options_are_on_every_surface() {
    let tools = tools_list();
    for (option, _) in RUN_OPTIONS {
        for name in ["meerkat_run", "meerkat_resume"] {
            let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
            assert!(tool["inputSchema"]["properties"][option].is_object(), "{name}: {option}");
        }
    }
    let command = rkat::command();
    let run = command.find_subcommand("run").unwrap();
    let flags = run.get_arguments().filter_map(|argument| argument.get_long());
    let flags: BTreeSet<_> = flags.map(|flag| format!("--{flag}")).collect();
    let listed = RUN_OPTIONS.iter().flat_map(|(_, flags)| flags.split_whitespace()).chain(OTHER_FLAGS);
    assert_eq!(flags, listed.map(str::to_owned).collect());
}
