//! Traits for the content of a server.

use std::borrow::Cow;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, DetailedTask, ExtensionCapabilities,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Resource, ResourceTemplate, Tool,
};

use serde_json::Value;

use super::{Era, Page, Request};

/// Name, version, and instructions of a server.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// Machine-readable name.
    pub name: &'static str,
    /// Human-readable name.
    pub title: &'static str,
    /// Version.
    pub version: &'static str,
    /// Instructions for models, in a few sentences.
    pub instructions: &'static str,
}

/// Everything that a server provides.
pub trait Service: Tools + Resources + Prompts + Extensions {
    /// Returns the name, version, and instructions of the server.
    fn about(&self) -> ServerInfo;

    /// Writes a line about the server's operation to its log.
    fn log(&self, _line: &str) {}

    /// Checks that requests can be served now.
    ///
    /// # Errors
    /// Returns the reason, for the log, if they cannot.
    fn check_ready(&self) -> impl Future<Output = Result<(), String>> + Send {
        async { Ok(()) }
    }

    /// Refreshes the lists; requests for a list wait for it.
    fn refresh(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Tools of a server.
pub trait Tools: Send + Sync + 'static {
    /// Returns the tools, always in the same order.
    fn tools(&self) -> Cow<'_, [Tool]>;

    /// Calls a listed tool. A failing tool, including one with invalid arguments, is a result with `isError`.
    ///
    /// # Errors
    /// Returns an error only if the request itself is invalid, not if the tool fails.
    fn call(
        &self,
        call: CallToolRequestParams,
        request: Request,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + Send;

    /// Returns the state of a task unknown to this process, if the service can restore it.
    fn restore_task(&self, id: &str) -> impl Future<Output = Option<DetailedTask>> + Send;

    /// Cancels a task unknown to this process. Returns `true` if the task exists.
    fn cancel_unknown_task(&self, id: &str) -> impl Future<Output = bool> + Send;
}

/// Protocol extensions of a server.
pub trait Extensions: Send + Sync + 'static {
    /// Returns the extensions and their settings.
    fn extensions(&self) -> ExtensionCapabilities;

    /// Handles a method of an extension. Returns `None` if no extension has it.
    fn call_extension(
        &self,
        method: &str,
        params: Option<Value>,
        era: Era,
    ) -> impl Future<Output = Option<Result<Value, ErrorData>>> + Send;
}

/// Resources of a server.
pub trait Resources: Send + Sync + 'static {
    /// Returns one page of resources: the first one, or the one after the previous page's `next`.
    ///
    /// # Errors
    /// Returns an error if `after` is unknown or the list cannot be read.
    fn resources(
        &self,
        after: Option<String>,
    ) -> impl Future<Output = Result<Page<Resource>, ErrorData>> + Send;

    /// Returns the templates, always in the same order.
    fn templates(&self) -> Cow<'_, [ResourceTemplate]>;

    /// Reads a resource.
    ///
    /// # Errors
    /// Returns `RESOURCE_NOT_FOUND` with the `uri` as data if the resource does not exist.
    fn read(
        &self,
        read: ReadResourceRequestParams,
        request: Request,
    ) -> impl Future<Output = Result<ReadResourceResponse, ErrorData>> + Send;
}

/// Prompts of a server, and completion of arguments.
pub trait Prompts: Send + Sync + 'static {
    /// Returns the prompts, always in the same order.
    fn prompts(&self) -> Cow<'_, [Prompt]>;

    /// Renders the messages of a listed prompt.
    ///
    /// # Errors
    /// Returns an error if an argument is missing or invalid.
    fn prompt(
        &self,
        get: GetPromptRequestParams,
        request: Request,
    ) -> impl Future<Output = Result<GetPromptResponse, ErrorData>> + Send;

    /// Returns possible values of an argument, best match first.
    ///
    /// # Errors
    /// Returns an error if the reference is unknown.
    fn complete(
        &self,
        complete: CompleteRequestParams,
    ) -> impl Future<Output = Result<Vec<String>, ErrorData>> + Send;
}
