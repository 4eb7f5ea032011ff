//! The request body.

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, MediaSource, Message, ModelInfo, ModelRequest, Provider, ToolDef,
    ToolResult,
};
use serde_json::{Map, Value, json};

use super::params::Params;
use super::{SERVER_PARTS, SIGNATURE};
use crate::history;
use crate::image_types::inline_image;
use crate::schema::{self, Dialect};
use crate::wire::{Body, object, plain_name, system};

/// Placeholder for the signature of a call that this model did not make; Gemini 3 rejects calls without one.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// Supported image types.
const IMAGE_TYPES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
/// Maximum length of a function name.
const MAX_NAME: usize = 64;

/// Builds the request body.
pub(super) fn body(info: &ModelInfo, request: &ModelRequest) -> Body {
    let params = Params::new(request.provider_params.as_deref());
    let (tools, left_out) = schema::sanitize(&request.tools, Dialect::Gemini);
    let server_tools = params.server_tools();
    let is_mixed = !tools.is_empty() && !server_tools.is_empty();
    let functions = (!tools.is_empty())
        .then(|| json!({ "functionDeclarations": tools.iter().map(declaration).collect::<Vec<_>>() }));
    let tools: Vec<_> = functions.into_iter().chain(server_tools).collect();
    let mut json = object([
        ("systemInstruction", system(request).map(|text| json!({ "parts": [{ "text": text }] }))),
        ("contents", Some(contents(info, request))),
        ("toolConfig", is_mixed.then(|| json!({ "includeServerSideToolInvocations": true }))),
        ("tools", (!tools.is_empty()).then(|| tools.into())),
        ("generationConfig", Some(generation(info, request, &params).into())),
    ]);
    params.fill_body(&mut json);
    Body { json: Value::Object(json), left_out }
}

fn generation(info: &ModelInfo, request: &ModelRequest, params: &Params) -> Map<String, Value> {
    let limit = params.max_tokens().unwrap_or(request.max_tokens);
    let limit = info.max_output_tokens.map_or(limit, |maximum| limit.min(maximum));
    // Converted through its decimal text, so that 0.2 does not become 0.20000000298.
    let requested = request.temperature.and_then(|t| t.to_string().parse::<f64>().ok()).map(Value::from);
    let temperature = requested.or_else(|| params.temperature().cloned());
    let temperature = temperature.filter(|_| info.profile.supports_temperature);
    let mut config = object([("maxOutputTokens", Some(json!(limit))), ("temperature", temperature)]);
    params.fill_generation(&mut config);
    if let Some(output) = &request.output_schema {
        config.insert("responseMimeType".to_owned(), json!("application/json"));
        let schema = schema::output(&output.schema, Dialect::Gemini, output.strict);
        config.insert("responseJsonSchema".to_owned(), schema);
    }
    config
}

fn declaration(tool: &ToolDef) -> Value {
    let mut declaration = json!({ "name": tool.name, "description": tool.description });
    let keys = ["properties", "anyOf", "oneOf", "additionalProperties", "$ref"];
    let takes_any = keys.iter().any(|key| match tool.input_schema.get(key) {
        Some(Value::Object(object)) => !object.is_empty(),
        Some(Value::Bool(open)) => *open,
        Some(Value::Array(_) | Value::String(_)) => true,
        _ => false,
    });
    // A function without arguments is declared without parameters: an empty object is rejected.
    if takes_any {
        declaration["parametersJsonSchema"] = tool.input_schema.clone();
    }
    declaration
}

fn contents(info: &ModelInfo, request: &ModelRequest) -> Value {
    let mut contents = Contents { info, turns: Vec::new(), calls: Vec::new() };
    for message in history::normalize(&request.messages, history::tag(Provider::Gemini)) {
        contents.push(&message);
    }
    let mut turns = contents.turns;
    // The user must speak first and last.
    if turns.first().is_none_or(|turn| turn.role == "model") {
        let parts = vec![notice("the conversation continues from here")];
        turns.insert(0, Turn { role: "user", parts });
    }
    if turns.last().is_some_and(|turn| turn.role == "model") {
        turns.push(Turn { role: "user", parts: vec![json!({ "text": "Continue." })] });
    }
    turns.into_iter().map(|turn| json!({ "role": turn.role, "parts": turn.parts })).collect()
}

/// Consecutive parts of one role.
struct Turn {
    role: &'static str,
    parts: Vec<Value>,
}

/// A call whose result comes next.
struct Call {
    id: String,
    name: String,
    /// The id assigned by the server, which must be sent back.
    own_id: Option<Value>,
}

struct Contents<'a> {
    info: &'a ModelInfo,
    turns: Vec<Turn>,
    calls: Vec<Call>,
}

impl Contents<'_> {
    fn push(&mut self, message: &Message) {
        let (role, parts) = match message {
            Message::System { content: text, .. } | Message::SystemNotice { body: text, .. } => {
                ("user", vec![notice(text)])
            }
            Message::User { content, .. } => ("user", self.user_parts(content)),
            Message::Assistant { blocks, .. } => ("model", self.model_parts(blocks)),
            Message::ToolResults { results, .. } => ("user", self.result_parts(results)),
        };
        match self.turns.last_mut() {
            _ if parts.is_empty() => {}
            Some(turn) if turn.role == role => turn.parts.extend(parts),
            _ => self.turns.push(Turn { role, parts }),
        }
    }

    fn user_parts(&self, content: &Content) -> Vec<Value> {
        let profile = self.info.profile;
        let part = |block: &ContentBlock| {
            let is_supported = match block {
                ContentBlock::Text { .. } => false,
                ContentBlock::Image { .. } => profile.vision,
                ContentBlock::Video { .. } => profile.inline_video,
                ContentBlock::File { .. } => false,
            };
            let media = is_supported.then(|| inline(block)).flatten();
            media.or_else(|| text(&block.to_text()))
        };
        content.blocks().iter().filter_map(part).collect()
    }

    fn model_parts(&mut self, blocks: &[AssistantBlock]) -> Vec<Value> {
        self.calls.clear();
        blocks.iter().filter_map(|block| self.model_part(block)).collect()
    }

    fn model_part(&mut self, block: &AssistantBlock) -> Option<Value> {
        match block {
            AssistantBlock::Text { text, meta } => Some(signed(json!({ "text": text }), meta.as_ref())),
            AssistantBlock::Reasoning { text, meta } => {
                (!text.is_empty()).then(|| signed(json!({ "text": text, "thought": true }), meta.as_ref()))
            }
            AssistantBlock::ToolUse { id, name, args, meta } => {
                Some(self.call_part(id, name, args, meta.as_ref()))
            }
            AssistantBlock::ServerToolContent { content, meta, .. } => {
                let is_part = SERVER_PARTS.iter().any(|key| content.get(key).is_some());
                is_part.then(|| signed(content.clone(), meta.as_ref()))
            }
            AssistantBlock::Image(image) => text(&format!("[image: {}]", image.media_type)),
        }
    }

    fn call_part(&mut self, id: &str, name: &str, args: &Value, meta: Option<&Value>) -> Value {
        let args = if args.is_object() { args.clone() } else { json!({ "arguments": args }) };
        let name = function_name(name);
        let mut call = json!({ "name": name, "args": args });
        let own_id = meta.and_then(|meta| meta.get("id")).cloned();
        if let Some(own_id) = &own_id {
            call["id"] = own_id.clone();
        }
        let mut part = signed(json!({ "functionCall": call }), meta);
        if self.calls.is_empty() && requires_signatures(&self.info.id) && part.get(SIGNATURE).is_none() {
            part[SIGNATURE] = json!(FOREIGN_SIGNATURE);
        }
        self.calls.push(Call { id: id.to_owned(), name, own_id });
        part
    }

    /// Puts all responses first, then their images: Gemini counts the responses of a turn.
    fn result_parts(&self, results: &[ToolResult]) -> Vec<Value> {
        let mut images = Vec::new();
        let mut parts: Vec<_> = results.iter().map(|result| self.result_part(result, &mut images)).collect();
        parts.extend(images);
        parts
    }

    fn result_part(&self, result: &ToolResult, images: &mut Vec<Value>) -> Value {
        let mut lines = Vec::new();
        let before = images.len();
        for block in result.content.blocks() {
            let is_supported =
                matches!(block, ContentBlock::Image { .. }) && self.info.profile.image_tool_results;
            match is_supported.then(|| inline(block)).flatten() {
                Some(image) => images.push(image),
                None => lines.push(block.to_text()),
            }
        }
        if lines.is_empty() && images.len() > before {
            lines.push(result.content.to_text());
        }
        let key = if result.is_error { "error" } else { "result" };
        let call = self.calls.iter().find(|call| call.id == result.tool_use_id);
        let name = call.map_or("unknown", |call| call.name.as_str());
        let mut response = json!({ "name": name, "response": { key: lines.join("\n") } });
        if let Some(own_id) = call.and_then(|call| call.own_id.as_ref()) {
            response["id"] = own_id.clone();
        }
        json!({ "functionResponse": response })
    }
}

/// Converts a name, which the model may have invented, into one that Gemini accepts.
fn function_name(name: &str) -> String {
    let is_valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let prefix = if is_valid_start { "" } else { "_" };
    plain_name(&format!("{prefix}{name}"), MAX_NAME, "_")
}

/// Returns `true` if a model rejects calls without a signature, as Gemini 3 and later do.
fn requires_signatures(model: &str) -> bool {
    let generation = model.split_once("gemini-").map_or("", |(_, rest)| rest);
    let digits: String = generation.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u32>().is_ok_and(|generation| generation >= 3)
}

fn signed(mut part: Value, meta: Option<&Value>) -> Value {
    if let Some(signature) =
        meta.and_then(|meta| meta.get(SIGNATURE)).filter(|signature| signature.is_string())
    {
        part[SIGNATURE] = signature.clone();
    }
    part
}

fn notice(body: &str) -> Value {
    json!({ "text": format!("[SYSTEM NOTICE] {body}") })
}

fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "text": text }))
}

fn inline(block: &ContentBlock) -> Option<Value> {
    let (media_type, data) = match block {
        ContentBlock::Video { media_type, source: MediaSource::Inline { data }, .. } => {
            (media_type.as_str(), data.as_str())
        }
        _ => inline_image(block, &IMAGE_TYPES)?,
    };
    Some(json!({ "inlineData": { "mimeType": media_type, "data": data } }))
}
