//! Request bodies.

use std::sync::Arc;

use meerkat_core::{
    AssistantBlock, AssistantImage, BlobId, BlobRef, Content, ContentBlock, MediaSource, Message, ModelInfo,
    ModelProfile, NoticeKind, OutputSchema, Provider, ToolDef, ToolFailure, ToolOutput,
};
use serde_json::{Value, json};

use super::{able, body, call, contents, model, request, result, results, text, user, weather, wire};
use crate::wire::Wire;

fn image_block(media_type: &str) -> ContentBlock {
    let source = MediaSource::Inline { data: "aGk=".to_owned() };
    ContentBlock::Image { media_type: media_type.to_owned(), source }
}

fn words(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.to_owned() }
}

fn signed(signature: &str) -> Option<Value> {
    Some(json!({ "provider": "gemini", "thoughtSignature": signature }))
}

#[test]
fn plain_request_is_one_turn() {
    let expected = json!({
        "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }],
        "generationConfig": { "maxOutputTokens": 100 },
    });
    assert_eq!(body(&able(), &request(vec![user("hi")])), expected);
}

#[test]
fn path_names_the_model() {
    let path = "/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse";
    assert_eq!(wire().path(&able()), path);
    let tuned = ModelInfo::new("tunedModels/own", Provider::Gemini);
    assert_eq!(wire().path(&tuned), "/v1beta/tunedModels/own:streamGenerateContent?alt=sse");
    assert_eq!(wire().headers("k"), [("x-goog-api-key", "k".to_owned())]);
    assert_eq!(wire().headers(""), []);
}

#[test]
fn base_url_may_end_with_the_version() {
    let cases = [
        ("https://host", "https://host", "v1beta"),
        ("https://host/", "https://host", "v1beta"),
        ("https://host/v1", "https://host", "v1"),
        ("https://host/gemini/v1alpha/", "https://host/gemini", "v1alpha"),
        ("https://host/gemini", "https://host/gemini", "v1beta"),
        ("https://v1", "https://v1", "v1beta"),
        ("https://host/vertex", "https://host/vertex", "v1beta"),
    ];
    for (url, base, version) in cases {
        assert_eq!(super::super::split_version(url), (base.to_owned(), version.to_owned()), "{url}");
    }
}

#[test]
fn system_and_tools_have_separate_fields() {
    let ping = ToolDef {
        name: "ping".to_owned(),
        description: "Ping".to_owned(),
        input_schema: json!({ "type": "object", "properties": {} }),
    };
    let mut request = request(vec![user("hi")]);
    request.system = "be brief".to_owned();
    request.tools = Arc::from([weather(), ping]);
    let body = body(&able(), &request);
    assert_eq!(body["systemInstruction"], json!({ "parts": [{ "text": "be brief" }] }));
    let [functions] = body["tools"].as_array().unwrap().as_slice() else { panic!("{body}") };
    let declared = functions["functionDeclarations"].as_array().unwrap();
    assert_eq!(declared[0]["name"], "get_weather");
    assert_eq!(declared[0]["parametersJsonSchema"]["properties"]["city"]["type"], "string");
    assert_eq!(declared[1], json!({ "name": "ping", "description": "Ping" }));
    assert_eq!(body.get("toolConfig"), None);
}

#[test]
fn parallel_results_share_a_turn() {
    let paris = json!({ "city": "Paris" });
    let own = json!({ "provider": "gemini", "thoughtSignature": "c2ln", "id": "srv" });
    let failed = ToolOutput::failure(ToolFailure::Timeout, "too slow").into_result("b");
    let actual = contents(vec![
        user("weather?"),
        model(vec![call("a", "get_weather", paris, Some(own)), call("b", "get_time", json!("{bad"), None)]),
        results(vec![result("a", Content::text("18C")), failed]),
    ]);
    let expected = json!([
        { "role": "user", "parts": [{ "text": "weather?" }] },
        { "role": "model", "parts": [
            {
                "functionCall": { "name": "get_weather", "args": { "city": "Paris" }, "id": "srv" },
                "thoughtSignature": "c2ln",
            },
            { "functionCall": { "name": "get_time", "args": { "arguments": "{bad" } } },
        ] },
        { "role": "user", "parts": [
            { "functionResponse": { "name": "get_weather", "response": { "result": "18C" }, "id": "srv" } },
            { "functionResponse": {
                "name": "get_time",
                "response": { "error": "{\"error\":\"timeout\",\"message\":\"too slow\"}" },
            } },
        ] },
    ]);
    assert_eq!(actual, expected);
}

#[test]
fn media_is_sent_only_if_model_supports_it() {
    let clip = ContentBlock::Video {
        media_type: "video/mp4".to_owned(),
        duration_ms: 10,
        source: MediaSource::Inline { data: "bW92".to_owned() },
    };
    let content = Content::from(vec![image_block("image/png"), clip, words(" "), words("what?")]);
    let message = Message::User { content, created_at: super::AT };
    let parts = json!([
        { "inlineData": { "mimeType": "image/png", "data": "aGk=" } },
        { "inlineData": { "mimeType": "video/mp4", "data": "bW92" } },
        { "text": "what?" },
    ]);
    assert_eq!(contents(vec![message.clone()])[0]["parts"], parts);
    let blind = ModelInfo { profile: ModelProfile::default(), ..able() };
    let parts =
        json!([{ "text": "[image: image/png]" }, { "text": "[video: video/mp4]" }, { "text": "what?" }]);
    assert_eq!(body(&blind, &request(vec![message]))["contents"][0]["parts"], parts);
}

#[test]
fn stored_media_is_described() {
    let blob_id: BlobId = serde_json::from_value(json!(format!("sha256:{}", "0".repeat(64)))).unwrap();
    let source = MediaSource::Blob { blob_id };
    let content = Content::from(vec![ContentBlock::Image { media_type: "image/png".to_owned(), source }]);
    let message = Message::User { content, created_at: super::AT };
    assert_eq!(contents(vec![message])[0]["parts"], json!([{ "text": "[image: image/png]" }]));
}

#[test]
fn images_of_results_follow_all_results() {
    let messages = || {
        vec![
            user("look"),
            model(vec![call("a", "shot", json!({}), signed("s")), call("b", "read", json!({}), None)]),
            results(vec![
                result("a", Content::from(vec![image_block("image/png")])),
                result("b", Content::from(vec![words("page"), image_block("image/jpeg")])),
            ]),
        ]
    };
    let supported = json!([
        { "functionResponse": { "name": "shot", "response": { "result": "[image: image/png]" } } },
        { "functionResponse": { "name": "read", "response": { "result": "page" } } },
        { "inlineData": { "mimeType": "image/png", "data": "aGk=" } },
        { "inlineData": { "mimeType": "image/jpeg", "data": "aGk=" } },
    ]);
    assert_eq!(contents(messages())[2]["parts"], supported);
    let blind = ModelInfo { profile: ModelProfile::default(), ..able() };
    let degraded = json!([
        { "functionResponse": { "name": "shot", "response": { "result": "[image: image/png]" } } },
        { "functionResponse": { "name": "read", "response": { "result": "page\n[image: image/jpeg]" } } },
    ]);
    assert_eq!(body(&blind, &request(messages()))["contents"][2]["parts"], degraded);
}

#[test]
fn signatures_are_sent_back() {
    let thought = |meta| AssistantBlock::Reasoning { text: "hm".to_owned(), meta };
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" } });
    let ran = |name: &str, content: Value, meta| AssistantBlock::ServerToolContent {
        id: None,
        name: name.to_owned(),
        content,
        meta,
    };
    let parts = &contents(vec![
        user("hi"),
        model(vec![
            thought(None),
            thought(signed("c2lnMQ==")),
            text("well", signed("c2lnMg==")),
            ran("code_execution", code, signed("c2lnMw==")),
            ran("google_search", json!({ "webSearchQueries": ["x"] }), None),
            text("", signed("c2lnNA==")),
        ]),
    ])[1]["parts"];
    let expected = json!([
        { "text": "hm", "thought": true, "thoughtSignature": "c2lnMQ==" },
        { "text": "well", "thoughtSignature": "c2lnMg==" },
        { "executableCode": { "language": "PYTHON", "code": "1" }, "thoughtSignature": "c2lnMw==" },
    ]);
    assert_eq!(*parts, expected);
}

#[test]
fn data_of_other_providers_is_not_sent() {
    let foreign = |key: &str| Some(json!({ "provider": "anthropic", key: "x" }));
    let history = || {
        vec![
            user("hi"),
            model(vec![
                AssistantBlock::Reasoning { text: "secret".to_owned(), meta: foreign("signature") },
                text("so", foreign("thoughtSignature")),
                call("toolu_1", "get_weather", json!({ "city": "Rome" }), foreign("id")),
                call("toolu_2", "get_weather", json!({ "city": "Oslo" }), None),
            ]),
        ]
    };
    let skip = "skip_thought_signature_validator";
    let expected = json!([
        { "text": "so" },
        { "functionCall": { "name": "get_weather", "args": { "city": "Rome" } }, "thoughtSignature": skip },
        { "functionCall": { "name": "get_weather", "args": { "city": "Oslo" } } },
    ]);
    let actual = contents(history());
    assert_eq!(actual[1]["parts"], expected);
    assert_eq!(actual[2]["parts"].as_array().map(Vec::len), Some(2), "calls without results get one each");
    let older = ModelInfo { id: "gemini-2.5-pro".to_owned(), ..able() };
    let part = &body(&older, &request(history()))["contents"][1]["parts"][1];
    assert_eq!(part.get("thoughtSignature"), None);
}

#[test]
fn long_history_alternates() {
    let notice = |body: &str| Message::SystemNotice {
        kind: NoticeKind::Generic,
        body: body.to_owned(),
        created_at: super::AT,
    };
    let image = AssistantImage {
        image_id: "i".to_owned(),
        blob_ref: BlobRef {
            blob_id: serde_json::from_value(json!(format!("sha256:{}", "0".repeat(64)))).unwrap(),
            media_type: "image/png".to_owned(),
        },
        media_type: "image/png".to_owned(),
        width: 1,
        height: 1,
        revised_prompt: None,
        meta: None,
    };
    let step = |id: &str| {
        let answer = results(vec![result("call_0", Content::text(id))]);
        [model(vec![call("call_0", id, json!({}), signed("c2ln"))]), answer]
    };
    let mut messages = vec![model(vec![text("before", None)]), user("one"), user("two")];
    messages.extend(step("first"));
    messages.push(notice("mind the gap"));
    messages.extend(step("second"));
    messages.push(Message::System { content: "rules".to_owned(), created_at: super::AT });
    messages.push(model(vec![text("done", None), AssistantBlock::Image(image)]));
    messages.push(user("thanks"));
    let shape: Vec<String> = contents(messages)
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| {
            let parts = turn["parts"].as_array().unwrap().iter().map(|part| {
                let response = &part["functionResponse"];
                let name = part["functionCall"]["name"].as_str().or(response["name"].as_str());
                part["text"].as_str().or(name).unwrap().to_owned()
            });
            format!("{}: {}", turn["role"].as_str().unwrap(), parts.collect::<Vec<_>>().join(" | "))
        })
        .collect();
    let expected = [
        "user: [SYSTEM NOTICE] the conversation continues from here",
        "model: before",
        "user: one | two",
        "model: first",
        "user: first | [SYSTEM NOTICE] mind the gap",
        "model: second",
        "user: second | [SYSTEM NOTICE] rules",
        "model: done | [image: image/png]",
        "user: thanks",
    ];
    assert_eq!(shape, expected);
}

#[test]
fn output_schema_requests_json() {
    let schema = json!({ "type": "object", "properties": { "age": { "type": "integer" } } });
    let mut request = request(vec![user("a person")]);
    request.output_schema = Some(Arc::new(OutputSchema::parse(schema).unwrap()));
    let config = &body(&able(), &request)["generationConfig"];
    assert_eq!(config["responseMimeType"], "application/json");
    assert_eq!(config["responseJsonSchema"]["properties"]["age"]["type"], "integer");
}

#[test]
fn user_turn_is_first_and_last() {
    let user = |text: &str| json!({ "role": "user", "parts": [{ "text": text }] });
    let begin = user("[SYSTEM NOTICE] the conversation continues from here");
    let answer = json!({ "role": "model", "parts": [{ "text": "well" }] });
    assert_eq!(contents(vec![model(vec![text("well", None)])]), json!([begin, answer, user("Continue.")]));
    assert_eq!(contents(Vec::new()), json!([begin]));
}

#[test]
fn invented_function_names_are_made_valid() {
    let names = ["9lives", "a.b/c", "", "né"];
    let calls = names.iter().enumerate().map(|(at, name)| call(&at.to_string(), name, json!({}), None));
    let long = call("long", &"n".repeat(100), json!({}), None);
    let ids = ["0", "1", "2", "3", "long"];
    let answers = ids.map(|id| result(id, Content::text("ok"))).to_vec();
    let sent = contents(vec![user("go"), model(calls.chain([long]).collect()), results(answers)]);
    let names_in = |turn: usize, kind: &str| -> Vec<Value> {
        sent[turn]["parts"].as_array().unwrap().iter().map(|part| part[kind]["name"].clone()).collect()
    };
    let expected = ["_9lives", "a_b_c", "_", "n_", &"n".repeat(64)].map(Value::from);
    assert_eq!(
        (names_in(1, "functionCall"), names_in(2, "functionResponse")),
        (expected.to_vec(), expected.to_vec())
    );
}

#[test]
fn unsupported_image_type_is_described() {
    let images = vec![image_block("image/gif"), image_block("image/jpg")];
    let message = Message::User { content: images.into(), created_at: meerkat_core::Timestamp::UNIX_EPOCH };
    let expected = json!([{ "role": "user", "parts": [
        { "text": "[image: image/gif]" },
        { "inlineData": { "mimeType": "image/jpeg", "data": "aGk=" } },
    ] }]);
    assert_eq!(contents(vec![message]), expected);
}
