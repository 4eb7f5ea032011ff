use std::time::Duration;

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, Delta, Message, ModelErrorKind, StopReason, Timestamp,
};
use serde_json::{Value, json};

use super::super::OfflineModel;
use super::super::command::{Command, Script, kind_name};
use super::{answer, ask, request, run, say, user};

const ALL_KINDS: [ModelErrorKind; 13] = [
    ModelErrorKind::RateLimited,
    ModelErrorKind::Overloaded,
    ModelErrorKind::NetworkTimeout,
    ModelErrorKind::CallTimeout,
    ModelErrorKind::Connection,
    ModelErrorKind::Server,
    ModelErrorKind::StreamCut,
    ModelErrorKind::Incomplete,
    ModelErrorKind::Malformed,
    ModelErrorKind::ContextOverflow,
    ModelErrorKind::Auth,
    ModelErrorKind::BadRequest,
    ModelErrorKind::ContentFilter,
];

#[tokio::test]
async fn commands_run_and_other_lines_are_ignored() {
    let cases: [(&str, &[&str]); 12] = [
        ("say hello there", &["text hello there"]),
        ("  > SAY hello", &["text hello"]),
        ("Please do this:\n\tsay one\nand this\nsay two", &["text one\ntwo"]),
        ("say one\nsay\nsay two", &["text one\n\ntwo"]),
        ("say", &[]),
        ("think hm\nthink well", &["reasoning hm\nwell"]),
        ("call a", &["call_1 a {}"]),
        ("Call a {\"x\": [1, 2]}", &["call_1 a {\"x\":[1,2]}"]),
        ("call a{\"x\":1}", &["call_1 a {\"x\":1}"]),
        ("call a {broken", &["call_1 a \"{broken\""]),
        ("call a {}\r\ncall b {\"x\":1}\r\n", &["call_1 a {}", "call_2 b {\"x\":1}"]),
        ("json {\"wrong\":1}", &["text ok"]),
    ];
    for (prompt, blocks) in cases {
        assert_eq!(say(prompt).await, blocks, "{prompt}");
    }
}

#[tokio::test(start_paused = true)]
async fn commands_combine_in_one_response() {
    let started = tokio::time::Instant::now();
    let prompt = "call a {}\nthink hm\nwait 50\nsay one\ncall b {\"x\":1}\nwait 0";
    let request = request(vec![user(prompt)]);
    let (answer, deltas) = ask(&OfflineModel::new(), &request).await.unwrap();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        answer.blocks,
        [
            AssistantBlock::Reasoning { text: text("hm"), meta: None },
            AssistantBlock::Text { text: text("one"), meta: None },
            AssistantBlock::ToolUse { id: text("call_1"), name: text("a"), args: json!({}), meta: None },
            AssistantBlock::ToolUse {
                id: text("call_2"),
                name: text("b"),
                args: json!({"x": 1}),
                meta: None
            },
        ]
    );
    assert_eq!(answer.stop_reason, StopReason::ToolUse);
    assert_eq!(deltas, [Delta::Reasoning(text("hm")), Delta::Text(text("one"))]);
    assert_eq!(started.elapsed(), Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn wait_is_bounded_and_can_be_cancelled() {
    let started = tokio::time::Instant::now();
    assert_eq!(say("wait 99999999999\nsay late").await, ["text late"]);
    assert_eq!(started.elapsed(), Duration::from_secs(600));

    let model = OfflineModel::new();
    let request = request(vec![user("say early\nwait 1000\nsay late")]);
    let cancelled = tokio::time::timeout(Duration::from_millis(10), ask(&model, &request)).await;
    assert!(cancelled.is_err());
    assert_eq!(
        ask(&model, &request).await.unwrap().0,
        answer(&request).await,
        "a cancelled call leaves no state"
    );
}

#[tokio::test]
async fn wait_without_number_is_not_a_command() {
    assert!(say("wait a minute").await[0].starts_with("text I am Meerkat's offline model"));
}

#[tokio::test]
async fn chain_runs_one_part_per_step() {
    assert_eq!(
        run("call a {}\nthen\ncall b {}\ncall bad {}\nTHEN\nsay done").await,
        [vec!["call_1 a {}"], vec!["call_2 b {}", "call_3 bad {}"], vec!["text done"]]
    );
}

#[tokio::test]
async fn results_are_quoted_after_the_last_command() {
    assert_eq!(
        run("then\ncall a {}\nthen\nthen\nsay so\ncall bad {}\nthen").await,
        [vec!["call_1 a {}"], vec!["text so", "call_2 bad {}"], vec!["text a → a ran\nbad failed → bad ran"]]
    );
}

#[tokio::test]
async fn new_prompt_starts_a_new_chain() {
    let mut messages = vec![user("call a {}")];
    let first = answer(&request(messages.clone())).await;
    messages.push(super::assistant(first.blocks));
    messages.push(super::results(vec![]));
    messages.push(user("call b {}\nthen\nsay done"));
    let second = answer(&request(messages)).await;
    assert_eq!(super::format_blocks(&second), ["call_2 b {}"]);
}

#[tokio::test]
async fn new_ids_do_not_occur_in_the_request() {
    let existing = AssistantBlock::ToolUse {
        id: "call_9".to_owned(),
        name: "a".to_owned(),
        args: json!({}),
        meta: None,
    };
    let messages = vec![super::assistant(vec![existing]), super::results(vec![]), user("call b")];
    assert_eq!(super::format_blocks(&answer(&request(messages)).await), ["call_10 b {}"]);
}

#[tokio::test]
async fn fail_supports_every_kind_and_repeats() {
    for kind in ALL_KINDS {
        let name = kind_name(kind);
        assert_eq!(serde_json::to_value(kind).unwrap(), Value::from(name));
        let model = OfflineModel::new();
        let request = request(vec![user(&format!("say begun\nfail {}", name.to_uppercase()))]);
        for _ in 0..5 {
            let error = ask(&model, &request).await.unwrap_err();
            assert_eq!(error.kind, kind);
            assert_eq!(error.to_string(), format!("the offline model was told to fail with `{name}`"));
        }
    }
}

#[tokio::test]
async fn fail_with_a_count_succeeds_afterwards() {
    let model = OfflineModel::new();
    let prompt = request(vec![user("fail overloaded 2\nfail server 1\nsay done")]);
    let other = Message::User {
        content: Content::text("fail overloaded 2\nfail server 1\nsay done"),
        created_at: Timestamp::from_second(1).unwrap(),
    };
    let other = request(vec![other]);
    for round in 0..2 {
        for kind in [ModelErrorKind::Overloaded, ModelErrorKind::Overloaded, ModelErrorKind::Server] {
            assert_eq!(ask(&model, &prompt).await.unwrap_err().kind, kind, "{round}");
            assert_eq!(ask(&model, &other).await.unwrap_err().kind, kind, "{round}");
        }
        let (answer, _) = ask(&model, &prompt).await.unwrap();
        assert_eq!(super::format_blocks(&answer), ["text done"]);
        assert!(ask(&model, &other).await.is_ok());
    }
}

#[tokio::test]
async fn unknown_kind_lists_the_kinds() {
    for prompt in ["fail oddly", "fail server often"] {
        let answer = say(prompt).await;
        assert!(answer[0].starts_with(&format!("text I cannot `{prompt}`")), "{answer:?}");
        for kind in ALL_KINDS {
            assert!(answer[0].contains(kind_name(kind)), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn commands_are_read_from_all_text_blocks() {
    let block = |text: &str| ContentBlock::Text { text: text.to_owned() };
    let prompt = Message::User {
        content: vec![block("say one"), block("say two")].into(),
        created_at: Timestamp::UNIX_EPOCH,
    };
    assert_eq!(super::format_blocks(&answer(&request(vec![prompt])).await), ["text one\ntwo"]);
}

#[test]
fn number_of_commands_is_limited() {
    let text = "say x\n".repeat(5000);
    let script = Script::read(&text);
    assert_eq!(script.parts, [vec![Command::Say("x"); 1000]]);
}
