//! Decoding of server messages piece by piece: an invalid tool or block does not affect the others.

use meerkat_core::{Content, ContentBlock, MediaSource, ToolImpact, ToolOutput};
use serde_json::{Map, Value, json};

/// A tool as a server describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    /// Impact according to the server; without annotations, the tool may do anything.
    pub(crate) impact: ToolImpact,
}

/// One page of a list of tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolPage {
    pub(crate) tools: Vec<ListedTool>,
    /// Problems with skipped entries.
    pub(crate) problems: Vec<String>,
}

/// Decodes one page of `tools/list`.
pub(crate) fn tool_page(result: &Value) -> ToolPage {
    let mut page = ToolPage::default();
    match result.get("tools").and_then(Value::as_array) {
        None => page.problems.push("the tool list is not a list".to_owned()),
        Some(tools) => {
            for (index, tool) in tools.iter().enumerate() {
                match listed_tool(tool) {
                    Ok(tool) => page.tools.push(tool),
                    Err(problem) => page.problems.push(format!("tool {index}: {problem}")),
                }
            }
        }
    }
    page
}

/// Returns the cursor of the next page.
pub(crate) fn cursor(result: &Value) -> Option<String> {
    result.get("nextCursor").and_then(Value::as_str).map(str::to_owned)
}

fn listed_tool(tool: &Value) -> Result<ListedTool, String> {
    let name = match tool.get("name").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => return Err("it has no name".to_owned()),
    };
    let text = |key: &str| tool.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let description = text("description").or_else(|| text("title")).unwrap_or_default().to_owned();
    let input_schema = match tool.get("inputSchema") {
        Some(Value::Object(schema)) => object_schema(schema)
            .ok_or_else(|| format!("`{name}`: `inputSchema.type` is not `object`, so it cannot be called"))?,
        // Without a schema, or with `true`, the tool accepts any object.
        None | Some(Value::Null | Value::Bool(true)) => json!({ "type": "object", "properties": {} }),
        Some(_) => return Err(format!("`{name}`: `inputSchema` is not a schema")),
    };
    Ok(ListedTool { name, description, input_schema, impact: impact(tool.get("annotations")) })
}

/// Decodes the impact of a tool. A missing hint has the protocol's default.
fn impact(annotations: Option<&Value>) -> ToolImpact {
    let hint = |key: &str| annotations.and_then(|hints| hints.get(key)).and_then(Value::as_bool);
    match (hint("readOnlyHint"), hint("destructiveHint")) {
        (Some(true), _) => ToolImpact::ReadOnly,
        (_, Some(false)) => ToolImpact::Additive,
        _ => ToolImpact::Destructive,
    }
}

fn object_schema(schema: &Map<String, Value>) -> Option<Value> {
    let mut schema = schema.clone();
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        None => drop(schema.insert("type".to_owned(), "object".into())),
        Some(_) => return None,
    }
    Some(Value::Object(schema))
}

/// Decodes the result of a call.
pub(crate) fn tool_output(result: &Value) -> ToolOutput {
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let mut blocks: Vec<_> = content.flat_map(block).collect();
    if let Some(structured) = result.get("structuredContent").filter(|value| !value.is_null()) {
        let is_same = |block: &ContentBlock| match block {
            ContentBlock::Text { text } => {
                serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured)
            }
            _ => false,
        };
        if !blocks.iter().any(is_same) {
            blocks.push(ContentBlock::Text { text: structured.to_string() });
        }
    }
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    ToolOutput { content: Content::from(blocks), is_error, images: Vec::new() }
}

/// Decodes a content block, which may become two blocks: a note about its origin, and its content.
pub(crate) fn block(block: &Value) -> Vec<ContentBlock> {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type") {
        Some("text") => vec![ContentBlock::Text { text: text("text").unwrap_or_default().to_owned() }],
        Some(kind @ ("image" | "audio")) => vec![media(text("mimeType"), text("data"), kind)],
        Some("resource") => resource(block.get("resource").unwrap_or(&Value::Null)),
        Some("resource_link") => vec![ContentBlock::Text { text: link(block) }],
        other => {
            vec![note(&format!("unknown content type: `{}`", other.unwrap_or("none")))]
        }
    }
}

/// Decodes the contents of a resource.
pub(crate) fn resource(resource: &Value) -> Vec<ContentBlock> {
    let text = |key: &str| resource.get(key).and_then(Value::as_str);
    let uri = text("uri").unwrap_or("without URI");
    match (text("text"), text("blob")) {
        (Some(body), _) => vec![ContentBlock::Text { text: format!("[resource {uri}]\n{body}") }],
        (None, Some(blob)) => {
            vec![note(&format!("resource {uri}")), media(text("mimeType"), Some(blob), "resource")]
        }
        (None, None) => vec![note(&format!("resource {uri} is empty"))],
    }
}

/// Creates an image block, or a file block for any other media type.
fn media(mime: Option<&str>, data: Option<&str>, what: &str) -> ContentBlock {
    let Some(data) = data.filter(|data| !data.is_empty()) else {
        return note(&format!("{what} without data"));
    };
    let media_type = mime.unwrap_or("application/octet-stream").to_owned();
    let source = MediaSource::Inline { data: data.to_owned() };
    if media_type.starts_with("image/") {
        ContentBlock::Image { media_type, source }
    } else {
        ContentBlock::File { media_type, source }
    }
}

fn link(block: &Value) -> String {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let mut line = format!("[resource link: {}", text("uri").unwrap_or("without URI"));
    for key in ["name", "mimeType", "description"] {
        if let Some(value) = text(key) {
            line.push_str(&format!("; {value}"));
        }
    }
    line.push(']');
    line
}

fn note(text: &str) -> ContentBlock {
    ContentBlock::Text { text: format!("[{text}]") }
}

#[cfg(test)]
mod tests {
    use meerkat_core::{Content, ContentBlock, MediaSource, ToolOutput};
    use serde_json::json;

    use super::{ListedTool, ToolImpact, ToolPage, tool_output, tool_page};

    #[test]
    fn invalid_tool_does_not_affect_others() {
        let page = tool_page(&json!({
            "tools": [
                { "name": "good", "description": "d", "inputSchema": { "type": "object", "$defs": {} } },
                { "name": "" },
                { "name": "any", "title": "t", "inputSchema": true },
                { "name": "text", "inputSchema": { "type": "string" } },
                { "name": "list", "inputSchema": [] },
                { "name": "untyped", "inputSchema": { "properties": {} }, "annotations": { "audience": ["x"] } },
                7,
            ]
        }));
        let tool = |name: &str, description: &str, input_schema| ListedTool {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema,
            impact: ToolImpact::Destructive,
        };
        assert_eq!(
            page,
            ToolPage {
                tools: vec![
                    tool("good", "d", json!({ "type": "object", "$defs": {} })),
                    tool("any", "t", json!({ "type": "object", "properties": {} })),
                    tool("untyped", "", json!({ "properties": {}, "type": "object" })),
                ],
                problems: vec![
                    "tool 1: it has no name".to_owned(),
                    "tool 3: `text`: `inputSchema.type` is not `object`, so it cannot be called".to_owned(),
                    "tool 4: `list`: `inputSchema` is not a schema".to_owned(),
                    "tool 6: it has no name".to_owned(),
                ],
            }
        );
    }

    #[test]
    fn impact_follows_annotations_with_defaults() {
        use ToolImpact::{Additive, Destructive, ReadOnly};
        let cases = [
            (json!(null), Destructive),
            (json!({}), Destructive),
            (json!({ "readOnlyHint": true, "destructiveHint": true }), ReadOnly),
            (json!({ "readOnlyHint": false, "destructiveHint": false }), Additive),
            (json!({ "destructiveHint": false }), Additive),
            (json!({ "readOnlyHint": "yes" }), Destructive),
        ];
        for (annotations, impact) in cases {
            let page = tool_page(&json!({ "tools": [{ "name": "a", "annotations": annotations }] }));
            assert_eq!(page.tools[0].impact, impact, "{annotations}");
        }
    }

    #[test]
    fn all_content_types_are_decoded() {
        let output = tool_output(&json!({
            "isError": true,
            "structuredContent": { "a": 1 },
            "content": [
                { "type": "text", "text": "hello" },
                { "type": "image", "mimeType": "image/png", "data": "AAAA" },
                { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
                { "type": "resource", "resource": { "uri": "a://b", "text": "body" } },
                { "type": "resource", "resource": { "uri": "a://c", "mimeType": "image/gif", "blob": "BBBB" } },
                { "type": "resource_link", "uri": "a://d", "name": "n", "mimeType": "text/plain" },
                { "type": "resource", "resource": { "uri": "a://e", "mimeType": "application/pdf", "blob": "CCCC" } },
                { "type": "audio", "mimeType": "audio/wav" },
                { "type": "hologram" },
            ]
        }));
        let text = |text: &str| ContentBlock::Text { text: text.to_owned() };
        let image = |kind: &str, data: &str| ContentBlock::Image {
            media_type: kind.to_owned(),
            source: MediaSource::Inline { data: data.to_owned() },
        };
        let file = |kind: &str, data: &str| ContentBlock::File {
            media_type: kind.to_owned(),
            source: MediaSource::Inline { data: data.to_owned() },
        };
        let blocks = vec![
            text("hello"),
            image("image/png", "AAAA"),
            file("audio/wav", "AAAA"),
            text("[resource a://b]\nbody"),
            text("[resource a://c]"),
            image("image/gif", "BBBB"),
            text("[resource link: a://d; n; text/plain]"),
            text("[resource a://e]"),
            file("application/pdf", "CCCC"),
            text("[audio without data]"),
            text("[unknown content type: `hologram`]"),
            text("{\"a\":1}"),
        ];
        assert_eq!(output, ToolOutput { content: Content::from(blocks), is_error: true, images: Vec::new() });
    }

    #[test]
    fn structured_content_is_not_repeated() {
        let content = json!([{ "type": "text", "text": "{ \"a\": 1 }" }]);
        let output = tool_output(&json!({ "structuredContent": { "a": 1 }, "content": content }));
        assert_eq!(output, ToolOutput::text("{ \"a\": 1 }"));
    }
}
