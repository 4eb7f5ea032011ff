//! What a server serves.

use std::borrow::Cow;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, DetailedTask, ExtensionCapabilities,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Resource, ResourceTemplate, Tool,
};

use serde_json::Value;

use super::{Era, Page, Request};

/// Who the server is.
#[derive(Debug, Clone)]
pub struct About {
    /// Its name for programs.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its version.
    pub version: &'static str,
    /// How a model should use it, in a few sentences.
    pub instructions: &'static str,
}

/// Everything a server serves.
pub trait Service: Tools + Resources + Prompts + Extensions {
    /// Says who the server is.
    fn about(&self) -> About;

    /// Brings the lists up to date; a request that reads one waits for it.
    fn refresh(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The tools of a server.
pub trait Tools: Send + Sync + 'static {
    /// Lists the tools, always in the same order.
    fn tools(&self) -> Cow<'_, [Tool]>;

    /// Calls a tool that is in the list. A tool that fails, also for its arguments, is a result with `isError`.
    ///
    /// # Errors
    /// Only what is wrong with the request itself, not with the tool.
    fn call(
        &self,
        call: CallToolRequestParams,
        request: Request,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + Send;

    /// Says what became of a task that this process does not know, if the service can tell.
    fn forgotten_task(&self, id: &str) -> impl Future<Output = Option<DetailedTask>> + Send;

    /// Stops the work of a task that this process does not know; says whether there is such a task.
    fn stop_forgotten_task(&self, id: &str) -> impl Future<Output = bool> + Send;
}

/// What a server does beyond the methods of the protocol.
pub trait Extensions: Send + Sync + 'static {
    /// Names the extensions, with their settings.
    fn extensions(&self) -> ExtensionCapabilities;

    /// Answers a method of an extension; `None` if it is of none.
    fn extended(
        &self,
        method: &str,
        params: Option<Value>,
        era: Era,
    ) -> impl Future<Output = Option<Result<Value, ErrorData>>> + Send;
}

/// The resources of a server.
pub trait Resources: Send + Sync + 'static {
    /// Lists one page of resources, from the start or after what the page before gave as `next`.
    ///
    /// # Errors
    /// Fails when `after` is none of ours, or when the list cannot be read.
    fn resources(
        &self,
        after: Option<String>,
    ) -> impl Future<Output = Result<Page<Resource>, ErrorData>> + Send;

    /// Lists the templates, always in the same order.
    fn templates(&self) -> Cow<'_, [ResourceTemplate]>;

    /// Reads a resource.
    ///
    /// # Errors
    /// `RESOURCE_NOT_FOUND` with the `uri` as data when there is none of that name.
    fn read(
        &self,
        read: ReadResourceRequestParams,
        request: Request,
    ) -> impl Future<Output = Result<ReadResourceResponse, ErrorData>> + Send;
}

/// The prompts of a server, and the completion of arguments.
pub trait Prompts: Send + Sync + 'static {
    /// Lists the prompts, always in the same order.
    fn prompts(&self) -> Cow<'_, [Prompt]>;

    /// Makes the messages of a prompt that is in the list.
    ///
    /// # Errors
    /// Says which argument is missing or wrong.
    fn prompt(
        &self,
        get: GetPromptRequestParams,
        request: Request,
    ) -> impl Future<Output = Result<GetPromptResponse, ErrorData>> + Send;

    /// Lists what an argument may be, the best first.
    ///
    /// # Errors
    /// Says what is unknown.
    fn complete(
        &self,
        complete: CompleteRequestParams,
    ) -> impl Future<Output = Result<Vec<String>, ErrorData>> + Send;
}
