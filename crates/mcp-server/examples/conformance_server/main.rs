//! Server for the MCP conformance suite: the suite's fixtures on the same protocol code as the product.
//!
//! Usage: `conformance_server [ADDRESS]`. Prints the URL on stderr and serves until it is stopped.

mod content;
mod lists;
mod questions;
mod rounds;
mod tasks;

use std::borrow::Cow;
use std::process::ExitCode;

use meerkat_mcp_server::http::{Access, Limits, serve};
use meerkat_mcp_server::protocol::{
    ChangeNotification, Era, Extensions, Notifier, Page, Prompts, Protocol, Request, Resources, ServerInfo,
    Service, Tools,
};
use meerkat_mcp_server::shutdown_signal;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, DetailedTask, ExtensionCapabilities,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Resource, ResourceTemplate, Tool,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Everything the suite requests by name.
struct Fixtures {
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    templates: Vec<ResourceTemplate>,
}

impl Service for Fixtures {
    fn about(&self) -> ServerInfo {
        ServerInfo {
            name: "meerkat-conformance",
            title: "Conformance fixtures",
            version: env!("CARGO_PKG_VERSION"),
            instructions: "Fixtures for the MCP conformance suite.",
        }
    }
}

impl Extensions for Fixtures {
    fn extensions(&self) -> ExtensionCapabilities {
        ExtensionCapabilities::default()
    }

    async fn call_extension(&self, _: &str, _: Option<Value>, _: Era) -> Option<Result<Value, ErrorData>> {
        None
    }
}

impl Tools for Fixtures {
    fn tools(&self) -> Cow<'_, [Tool]> {
        Cow::Borrowed(&self.tools)
    }

    async fn call(
        &self,
        call: CallToolRequestParams,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = call.name.clone();
        match &*name {
            "test_trigger_tool_change" => Ok(changed(&request, &ChangeNotification::Tools)),
            "test_trigger_prompt_change" => Ok(changed(&request, &ChangeNotification::Prompts)),
            "greet"
            | "slow_compute"
            | "failing_job"
            | "protocol_error_job"
            | "confirm_delete"
            | "multi_input"
            | "test_tool_with_task" => tasks::call(call, &request).await,
            "test_sampling" | "test_elicitation" => questions::call(call, &request).await,
            name if name.starts_with("test_elicitation_") => questions::call(call, &request).await,
            name if name.starts_with("test_input_required_result_")
                || name == "test_streaming_elicitation" =>
            {
                rounds::call(&call, &request)
            }
            _ => content::call(call, &request).await,
        }
    }

    async fn cancel_unknown_task(&self, _: &str) -> bool {
        false
    }

    async fn restore_task(&self, _: &str) -> Option<DetailedTask> {
        None
    }
}

fn changed(request: &Request, notice: &ChangeNotification) -> CallToolResponse {
    request.notices().publish(notice);
    content::text("notified").into()
}

impl Resources for Fixtures {
    async fn resources(&self, _: Option<String>) -> Result<Page<Resource>, ErrorData> {
        Ok(Page { items: lists::resources(), next: None })
    }

    fn templates(&self) -> Cow<'_, [ResourceTemplate]> {
        Cow::Borrowed(&self.templates)
    }

    async fn read(
        &self,
        read: ReadResourceRequestParams,
        _: Request,
    ) -> Result<ReadResourceResponse, ErrorData> {
        lists::read(&read.uri)
    }
}

impl Prompts for Fixtures {
    fn prompts(&self) -> Cow<'_, [Prompt]> {
        Cow::Borrowed(&self.prompts)
    }

    async fn prompt(
        &self,
        get: GetPromptRequestParams,
        request: Request,
    ) -> Result<GetPromptResponse, ErrorData> {
        lists::prompt(&get, &request)
    }

    async fn complete(&self, complete: CompleteRequestParams) -> Result<Vec<String>, ErrorData> {
        let words = ["paris", "park", "party"];
        let fitting = words.iter().filter(|word| word.starts_with(&complete.argument.value));
        Ok(fitting.map(|word| (*word).to_owned()).collect())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    match run(&address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let fixtures =
        Fixtures { tools: lists::tools(), prompts: lists::prompts(), templates: lists::templates() };
    let layer = Protocol::new(fixtures, Notifier::default());
    let access = Access::new(address, None)?;
    print_line(&format!("listening on http://{address}/mcp"));
    let closing = CancellationToken::new();
    let serving = serve(layer, listener, access, Limits::default(), closing.clone(), async {});
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return Ok(()),
        () = shutdown_signal() => closing.cancel(),
    }
    serving.await;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the caller reads the port from stderr")]
fn print_line(line: &str) {
    eprintln!("{line}");
}
