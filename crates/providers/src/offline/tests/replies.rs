use std::sync::Arc;
use std::time::{Duration, Instant};

use meerkat_core::{
    AssistantBlock, Delta, Message, Model as _, ModelInfo, ModelRequest, NoticeKind, Provider, Timestamp,
    ToolOutput, Usage,
};
use serde_json::json;

use super::super::{OFFLINE_MODEL_ID, OfflineModel};
use super::{answer, ask, assistant, extraction, format_blocks, request, results, say, user};

const ASK_FOR_JSON: &str = "Give the result of the conversation above as one JSON value.";
const ASK_AGAIN: &str = "That does not match the schema: odd\nReply again.";
const ASK_FOR_SUMMARY: &str = "Summarize the conversation so far for someone who continues it.";

fn text(text: &str) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned(), meta: None }
}

#[test]
fn model_describes_itself() {
    let info =
        ModelInfo { context_window: Some(128_000), ..ModelInfo::new(OFFLINE_MODEL_ID, Provider::Other) };
    assert_eq!(OfflineModel::default().info(), &info);
}

#[tokio::test]
async fn prompt_without_commands_gets_a_description() {
    assert_eq!(
        say("  hello\nworld ").await,
        [
            "text I am Meerkat's offline model: no API key is configured, and I make no network calls. You said: \
          “hello\nworld”. To try things, write a line such as `say TEXT` or `call NAME {json}`, or ask “which \
          tools”. For a real model, set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass --model."
        ]
    );
    let nothing = format_blocks(&answer(&request(vec![])).await);
    assert!(nothing[0].contains("no network calls. To try things"), "{nothing:?}");
}

#[tokio::test]
async fn tools_are_listed_on_request() {
    let list = ["text I can see these tools:\na: First.\nb: Other."];
    for prompt in ["Which tools do you have?", "WHAT TOOLS?", "list tools", "Please list your tools."] {
        assert_eq!(say(prompt).await, list, "{prompt}");
    }
    let without = ModelRequest { tools: Arc::new([]), ..request(vec![user("which tools")]) };
    assert_eq!(format_blocks(&answer(&without).await), ["text There are no tools in this request."]);
}

#[tokio::test]
async fn long_results_are_truncated() {
    let call =
        AssistantBlock::ToolUse { id: "x".to_owned(), name: "a".to_owned(), args: json!({}), meta: None };
    let long = format!("é\n{}", "é".repeat(300));
    let messages =
        vec![user("anything"), assistant(vec![call]), results(vec![ToolOutput::text(long).into_result("x")])];
    assert_eq!(
        format_blocks(&answer(&request(messages)).await),
        [format!("text a → é {}…", "é".repeat(198))]
    );
}

#[tokio::test]
async fn deltas_concatenate_to_the_text() {
    for text in ["one", "  two  words ", "tab\tand é ünïcode\u{a0}!", "a"] {
        let prompt = format!("say {text}\nsay more  of it\nthink {text}\nthink again");
        let (answer, deltas) = ask(&OfflineModel::new(), &request(vec![user(&prompt)])).await.unwrap();
        let (mut spoken, mut thought) = (String::new(), String::new());
        for delta in &deltas {
            match delta {
                Delta::Text(piece) => spoken.push_str(piece),
                Delta::Reasoning(piece) => thought.push_str(piece),
                Delta::ToolOmitted { tool, .. } => panic!("{tool} is omitted"),
                Delta::Received => {}
            }
        }
        assert_eq!(format_blocks(&answer), [format!("reasoning {thought}"), format!("text {spoken}")]);
        assert!(deltas.len() > 6, "{deltas:?}");
    }
}

#[tokio::test]
async fn usage_is_counted_from_bytes() {
    let request = ModelRequest { system: "s".repeat(40), ..request(vec![user("say 12345678")]) };
    let usage = Usage { input_tokens: 3 + 10 + 1, output_tokens: 2 + 1, ..Usage::default() };
    assert_eq!(answer(&request).await.usage, usage);
}

#[tokio::test]
async fn output_schema_gets_only_json() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]});
    let messages = vec![user("call a {}"), user(ASK_FOR_JSON)];
    assert_eq!(format_blocks(&answer(&extraction(messages, schema)).await), ["text {\"n\":3}"]);
}

#[tokio::test]
async fn json_lines_replace_output_one_per_try() {
    let mut messages = vec![
        user("json {\"old\":1}"),
        user("say hi\njson {\"wrong\": 1}\njson not json"),
        assistant(vec![text("hi")]),
        user(ASK_FOR_JSON),
    ];
    for expected in ["{\"wrong\": 1}", "not json", "not json"] {
        let response = answer(&extraction(messages.clone(), json!({}))).await;
        assert_eq!(format_blocks(&response), [format!("text {expected}")]);
        messages.extend([assistant(response.blocks), user(ASK_AGAIN)]);
    }
}

#[tokio::test]
async fn summary_has_first_line_of_each_message() {
    let call = |name: &str| AssistantBlock::ToolUse {
        id: name.to_owned(),
        name: name.to_owned(),
        args: json!({}),
        meta: None,
    };
    let notice = Message::SystemNotice {
        kind: NoticeKind::Generic,
        body: "old\nnews".to_owned(),
        created_at: Timestamp::UNIX_EPOCH,
    };
    let messages = vec![
        notice,
        user(&format!("\n{}\nsecond", "w".repeat(130))),
        assistant(vec![call("a"), call("b")]),
        results(vec![ToolOutput::text("done\nwell").into_result("a")]),
        assistant(vec![text("All\ngood")]),
        user(ASK_FOR_SUMMARY),
    ];
    let request_summary = ModelRequest { tools: Arc::new([]), ..request(messages.clone()) };
    let lines = [
        "text notice: old".to_owned(),
        format!("user: {}…", "w".repeat(120)),
        "assistant: called a, b".to_owned(),
        "tool: done".to_owned(),
        "assistant: All".to_owned(),
    ];
    assert_eq!(format_blocks(&answer(&request_summary).await), [lines.join("\n")]);
    let with_tools = format_blocks(&answer(&request(messages)).await);
    assert!(with_tools[0].starts_with("text I am Meerkat's"), "{with_tools:?}");
}

#[tokio::test]
async fn summary_keeps_the_latest_and_stays_short() {
    let mut messages: Vec<_> = (0..500).map(|n| user(&format!("{n} {}", "w".repeat(100)))).collect();
    messages.push(user(ASK_FOR_SUMMARY));
    let request_summary = ModelRequest { tools: Arc::new([]), ..request(messages) };
    let summary = format_blocks(&answer(&request_summary).await).remove(0);
    assert!(summary.len() < 2100, "{}", summary.len());
    assert!(summary.starts_with("text (482 earlier messages)\nuser: 482 w"), "{summary}");
    assert!(summary.lines().last().unwrap().starts_with("user: 499 w"), "{summary}");
}

#[tokio::test]
async fn large_prompts_are_processed_quickly() {
    const SIZE: usize = 10_000_000;
    let shapes = [
        ("word ", SIZE / 5),
        ("say word\n", SIZE / 9),
        ("call a {\"x\":1}\n", SIZE / 15),
        // The others are ten times smaller only because tests are built without optimization.
        ("then\n", SIZE / 50),
        ("\n", SIZE / 10),
        ("é", SIZE / 20),
    ];
    for (shape, times) in shapes {
        let text = shape.repeat(times);
        for start in ["", "say ", "call a {"] {
            let started = Instant::now();
            let prompt = vec![user(&format!("{start}{text}"))];
            let response = answer(&request(prompt.clone())).await;
            assert!(response.blocks.len() <= 1000, "{start}{shape}");
            answer(&extraction(prompt, json!({}))).await;
            // A generous limit: anything quadratic would take hours.
            assert!(started.elapsed() < Duration::from_secs(20), "{start}{shape}");
        }
    }
}
