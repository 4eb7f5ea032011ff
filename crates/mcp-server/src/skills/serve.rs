//! Skills-only MCP server: small, and without a realm.

use std::borrow::Cow;
use std::sync::Arc;

use meerkat::skills::Catalog;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, DetailedTask, ExtensionCapabilities,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Resource, ResourceTemplate, Tool,
};
use serde_json::Value;

use super::SkillViews;
use crate::protocol::{
    Era, Extensions, Notifier, Page, Prompts, Protocol, Request, Resources, ServerInfo, Service, Tools,
    unknown_cursor,
};
use crate::stdio::{self, Stdio};

/// Instructions sent to clients.
const INSTRUCTIONS: &str = "Skills: instructions for particular tasks. The tool `skill` lists them and loads one by name; \
each is also a resource, skill://NAME/SKILL.md, and a prompt.";

/// MCP service for the skills of a catalog.
struct SkillServer {
    views: SkillViews,
}

/// Serves the skills of a catalog to one client until it closes its side, and publishes their changes. `log` receives
/// problems with skills from this call on; the client is served while the returned future is polled.
pub fn serve_skills(
    catalog: Catalog,
    stdio: Stdio,
    log: impl Fn(&str) + Send + Sync + 'static,
) -> impl Future<Output = ()> {
    let notices = Notifier::default();
    let views = SkillViews::new(catalog, notices.clone(), Arc::new(log));
    let layer = Protocol::new(SkillServer { views }, notices);
    async move { stdio::serve(&layer, stdio, async || {}).await }
}

impl Service for SkillServer {
    fn about(&self) -> ServerInfo {
        ServerInfo {
            name: "rkat-skills",
            title: "Skills",
            version: env!("CARGO_PKG_VERSION"),
            instructions: INSTRUCTIONS,
        }
    }

    async fn refresh(&self) {
        self.views.snapshot().await;
    }
}

impl Extensions for SkillServer {
    fn extensions(&self) -> ExtensionCapabilities {
        SkillViews::extensions()
    }

    async fn call_extension(
        &self,
        method: &str,
        params: Option<Value>,
        era: Era,
    ) -> Option<Result<Value, ErrorData>> {
        self.views.handle_method(method, params, era).await
    }
}

impl Tools for SkillServer {
    fn tools(&self) -> Cow<'_, [Tool]> {
        Cow::Owned(self.views.tool().into_iter().collect())
    }

    async fn call(&self, call: CallToolRequestParams, _: Request) -> Result<CallToolResponse, ErrorData> {
        Ok(self.views.call(call.arguments).await.into())
    }

    async fn restore_task(&self, _: &str) -> Option<DetailedTask> {
        None
    }

    async fn cancel_unknown_task(&self, _: &str) -> bool {
        false
    }
}

impl Resources for SkillServer {
    async fn resources(&self, after: Option<String>) -> Result<Page<Resource>, ErrorData> {
        let page = Page::numbered("", after.as_deref(), |first| self.views.page(first)).await;
        page.unwrap_or_else(|| Err(unknown_cursor()))
    }

    fn templates(&self) -> Cow<'_, [ResourceTemplate]> {
        Cow::Borrowed(super::templates())
    }

    async fn read(
        &self,
        read: ReadResourceRequestParams,
        _: Request,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(self.views.read(read.uri).await?.into())
    }
}

impl Prompts for SkillServer {
    fn prompts(&self) -> Cow<'_, [Prompt]> {
        Cow::Owned(self.views.prompts())
    }

    async fn prompt(&self, get: GetPromptRequestParams, _: Request) -> Result<GetPromptResponse, ErrorData> {
        Ok(self.views.prompt(get).await?.into())
    }

    async fn complete(&self, complete: CompleteRequestParams) -> Result<Vec<String>, ErrorData> {
        Ok(self.views.complete(&complete).await.unwrap_or_default())
    }
}
