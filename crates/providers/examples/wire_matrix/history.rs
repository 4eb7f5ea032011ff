//! Histories with unusual content.

use meerkat_core::{
    AssistantBlock, AssistantImage, BlobId, BlobRef, ContentBlock, MediaSource, Message, NoticeKind,
    ToolResult,
};
use serde_json::{Value, json};

use crate::words::{
    AT, assistant, calls, clip, failed, image_block, media_result, results, says, shows, text_result, thinks,
    user, words,
};

pub(crate) fn parallel_calls() -> Vec<Message> {
    let both = vec![
        says("two files"),
        calls("a", "read_file", json!({ "path": "a" })),
        calls("b", "read_file", json!({ "path": "b" })),
    ];
    vec![
        user("read a and b"),
        assistant(both),
        results(vec![text_result("b", "bee"), text_result("a", "ay")]),
    ]
}

pub(crate) fn failures() -> Vec<Message> {
    let blocks = ["a", "b", "c"].map(|id| calls(id, "read_file", json!({ "path": id }))).to_vec();
    let answers = vec![
        failed(text_result("a", "no such file")),
        failed(media_result("b", Vec::new())),
        failed(media_result("c", vec![image_block("image/png"), words("broken")])),
    ];
    vec![user("read"), assistant(blocks), results(answers)]
}

pub(crate) fn images() -> Vec<Message> {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"].map(image_block);
    let elsewhere = MediaSource::Blob { blob_id: BlobId::from_digest(&[7; 32]) };
    let stored = ContentBlock::Image { media_type: "image/png".to_owned(), source: elsewhere };
    let unusual =
        [words("what is this?"), image_block("image/bmp"), image_block("image/svg+xml"), stored, words(" ")];
    vec![shows(unusual.into_iter().chain(known).collect()), assistant(vec![says("a dot")]), user("sure?")]
}

pub(crate) fn only_images() -> Vec<Message> {
    vec![shows(vec![image_block("image/png"), clip()])]
}

pub(crate) fn images_in_results() -> Vec<Message> {
    let blocks = ["a", "b"].map(|id| calls(id, "read_file", json!({ "path": id }))).to_vec();
    let answers = vec![
        media_result("a", vec![words("here"), image_block("image/png")]),
        media_result("b", vec![image_block("image/jpeg"), image_block("image/bmp")]),
    ];
    vec![user("look"), assistant(blocks), results(answers), assistant(vec![says("nice")]), user("more")]
}

/// Sixty messages: every turn has calls, and every other turn has two at once.
pub(crate) fn long() -> Vec<Message> {
    let mut messages = Vec::new();
    for turn in 0..12 {
        messages.push(user(&format!("task {turn}")));
        for step in 0..2 {
            let ids: Vec<_> = (0..=turn % 2).map(|at| format!("call_{turn}_{step}_{at}")).collect();
            let mut blocks = vec![says(&format!("step {step}"))];
            blocks.extend(ids.iter().map(|id| calls(id, "read_file", json!({ "path": id }))));
            messages.push(assistant(blocks));
            messages.push(results(ids.iter().map(|id| text_result(id, "content")).collect()));
        }
    }
    messages
}

pub(crate) fn interrupted() -> Vec<Message> {
    let open = || vec![calls("a", "read_file", json!({})), calls("b", "read_file", json!({}))];
    vec![
        user("read"),
        assistant(open()),
        results(vec![text_result("a", "ay")]),
        user("forget it"),
        assistant(vec![calls("c", "read_file", json!({}))]),
        assistant(vec![calls("d", "list_files", json!({}))]),
        user("and now?"),
    ]
}

pub(crate) fn orphans() -> Vec<Message> {
    vec![
        results(vec![text_result("z", "from nowhere")]),
        user("hi"),
        assistant(vec![calls("a", "read_file", json!({}))]),
        user("wait"),
        results(vec![text_result("a", "too late")]),
        assistant(vec![says("well")]),
        results(vec![text_result("a", "again")]),
        user("go"),
    ]
}

pub(crate) fn blanks() -> Vec<Message> {
    vec![
        user("  "),
        user("hi"),
        assistant(vec![says(""), says(" \n"), thinks("", None)]),
        assistant(vec![says("yes"), says("")]),
        shows(vec![words(""), words("then go")]),
        assistant(vec![calls("a", "list_files", json!({}))]),
        results(vec![text_result("a", "  ")]),
    ]
}

pub(crate) fn unreadable() -> Vec<Message> {
    let blocks = vec![
        calls("a", "read_file", json!("{\"path\": ")),
        calls("b", "read_file", Value::Null),
        calls("c", "read_file", json!([1])),
    ];
    let answers = ["a", "b", "c"].map(|id| failed(text_result(id, "bad arguments"))).to_vec();
    vec![user("go"), assistant(blocks), results(answers)]
}

/// Ids and names that only some providers would assign.
pub(crate) fn odd_ids() -> Vec<Message> {
    let long = "x".repeat(100);
    let other = format!("{}y", &long[1..]);
    let step = |ids: &[&str], name: &str| {
        let blocks = ids.iter().map(|id| calls(id, name, json!({}))).collect();
        let answers: Vec<ToolResult> = ids.iter().map(|id| text_result(id, "ok")).collect();
        [assistant(blocks), results(answers)]
    };
    let mut messages = vec![user("go")];
    messages.extend(step(&["same"], "read_file"));
    messages.extend(step(&["same", "same"], "read_file"));
    messages.extend(step(&[&long, &other], "server.tool/with:marks"));
    messages.extend(step(&["call|fc:1", ""], &"n".repeat(100)));
    messages.extend(step(&["é ü", "ø ü"], "9lives"));
    messages.extend(step(&["last"], ""));
    messages
}

pub(crate) fn notices() -> Vec<Message> {
    let notice = Message::SystemNotice {
        kind: NoticeKind::ToolScope,
        body: "a tool has gone".to_owned(),
        created_at: AT,
    };
    let system = Message::System { content: "be kind".to_owned(), created_at: AT };
    let call = assistant(vec![calls("a", "list_files", json!({}))]);
    vec![system, user("hi"), call, results(vec![text_result("a", "ok")]), notice.clone(), user("go"), notice]
}

/// Turns that do not alternate.
pub(crate) fn out_of_turn() -> Vec<Message> {
    vec![
        assistant(vec![says("I begin")]),
        assistant(vec![says("and go on")]),
        user("one"),
        user("two"),
        assistant(vec![thinks("alone", None)]),
        user("three"),
        assistant(vec![says("I end")]),
    ]
}

pub(crate) fn made_images() -> Vec<Message> {
    let media_type = "image/png".to_owned();
    let blob_ref = BlobRef { blob_id: BlobId::from_digest(&[7; 32]), media_type: media_type.clone() };
    let image = AssistantImage {
        image_id: "one".to_owned(),
        blob_ref,
        media_type,
        width: 1,
        height: 1,
        revised_prompt: None,
        meta: None,
    };
    vec![user("draw"), assistant(vec![AssistantBlock::Image(image)]), user("again")]
}

/// Metadata of every provider, in one conversation.
pub(crate) fn signatures() -> Vec<Message> {
    let thoughts = [
        json!({ "provider": "anthropic", "signature": "c2ln" }),
        json!({ "provider": "anthropic_redacted", "data": "c2ln" }),
        json!({ "provider": "open_ai", "id": "rs_1", "encrypted_content": "c2ln", "summary": [] }),
        json!({ "provider": "open_ai", "id": "rs_2" }),
        json!({ "provider": "gemini", "thoughtSignature": "c2ln" }),
        json!({ "provider": "self_hosted", "field": "reasoning_content" }),
        json!({ "signature": "of nobody" }),
    ];
    let mut messages = vec![user("go")];
    for (at, thought) in thoughts.into_iter().enumerate() {
        let id = format!("call_{at}");
        let rest = [
            json!({ "provider": "anthropic", "citations": [], "caller": { "type": "direct" } }),
            json!({ "provider": "open_ai", "id": format!("msg_{at}"), "phase": "commentary" }),
            json!({ "provider": "gemini", "thoughtSignature": "c2ln", "id": format!("fc{at}") }),
        ];
        let rest = &rest[at % rest.len()];
        let call = AssistantBlock::ToolUse {
            id: id.clone(),
            name: "read_file".to_owned(),
            args: json!({}),
            meta: Some(rest.clone()),
        };
        let text = AssistantBlock::Text { text: "so".to_owned(), meta: Some(rest.clone()) };
        messages.push(assistant(vec![thinks("hm", Some(thought)), text, call]));
        messages.push(results(vec![text_result(&id, "ok")]));
    }
    messages
}
