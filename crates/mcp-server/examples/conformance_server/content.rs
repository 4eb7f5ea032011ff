//! Tools that return various kinds of content.

#![expect(deprecated, reason = "the suite requests log messages")]

use std::time::Duration;

use meerkat_mcp_server::protocol::Request;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, LoggingLevel,
    ResourceContents, SamplingCapability,
};
use serde_json::{Value, json};

/// PNG with a single pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// WAV without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

pub(crate) fn text(words: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words.into())])
}

pub(crate) async fn call(
    call: CallToolRequestParams,
    request: &Request,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| call.arguments.as_ref().and_then(|arguments| arguments.get(name));
    let result = match &*call.name {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => CallToolResult::success(vec![ContentBlock::image(PNG, "image/png")]),
        "test_audio_content" => CallToolResult::success(vec![ContentBlock::audio(WAV, "audio/wav")]),
        "test_embedded_resource" => CallToolResult::success(vec![embedded("test://embedded-resource")]),
        "test_multiple_content_types" => CallToolResult::success(vec![
            ContentBlock::text("Several kinds of content:"),
            ContentBlock::image(PNG, "image/png"),
            embedded("test://mixed-content-resource"),
        ]),
        "test_tool_with_logging" | "test_logging_tool" => logged(request).await,
        "test_error_handling" => {
            CallToolResult::error(vec![ContentBlock::text("This tool always fails, for testing.")])
        }
        "test_tool_with_progress" => progressing(request).await,
        "test_missing_capability" => return sampled(request),
        "test_long_wait" | "test_reconnection" => {
            let milliseconds = argument("milliseconds").and_then(Value::as_u64).unwrap_or(200);
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            text("waited")
        }
        "test_custom_header" => text(argument("value").and_then(Value::as_str).unwrap_or_default()),
        "test_echo" => text(argument("text").and_then(Value::as_str).unwrap_or_default()),
        _ => text(json!({ "name": call.name, "arguments": call.arguments }).to_string()),
    };
    Ok(result.into())
}

fn embedded(uri: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text("This is an embedded resource.", uri))
}

async fn logged(request: &Request) -> CallToolResult {
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        request.log(LoggingLevel::Info, json!(line)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    text("logged")
}

async fn progressing(request: &Request) -> CallToolResult {
    let mut progress = request.progress();
    for done in [0.0, 50.0, 100.0] {
        progress.report(done, Some(100.0), None).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    text("done")
}

fn sampled(request: &Request) -> Result<CallToolResponse, ErrorData> {
    if request.client().sampling.is_some() {
        return Ok(text("the client can sample").into());
    }
    let mut needed = ClientCapabilities::default();
    needed.sampling = Some(SamplingCapability::default());
    Err(ErrorData::missing_required_client_capability(needed))
}
