//! Operations of one realm as an MCP service: tools for actions, resources for data.

mod access;
mod approvals;
mod call;
mod errors;
mod host;
mod registry;
mod reporter;
mod resources;
mod stream;
mod tasks;
mod tools;
mod uri;

use std::borrow::Cow;
use std::sync::Arc;

use meerkat::excerpt;
use meerkat::operations::find;
use meerkat::skills::view::SKILL_TOOL;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, DetailedTask, ExtensionCapabilities,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Reference, Resource, ResourceTemplate, Tool,
};
use serde_json::Value;

use crate::log::Log;
use crate::protocol::{
    Era, Extensions, Notifier, Page, Prompts, Request, Resources, ServerInfo, Service, Tools,
};
use crate::skills::SkillViews;
use access::RuntimeAccess;
use call::OperationCalls;
pub use host::LazyRuntime;
use registry::Registered;
use resources::SessionResources;
pub use tools::{UnknownTool, handle_tools_call, handle_tools_call_with, tools_list};

/// Instructions sent to clients.
const INSTRUCTIONS: &str = "Durable agent sessions. meerkat_run starts one and returns a session_id; meerkat_resume \
continues it, even after a restart; meerkat_sessions lists them. Each session is a resource, meerkat://session/{id}.";

/// Prefix of skill numbers in cursors; a bare number refers to a session.
const SKILL: &str = "skill:";

/// MCP service for the operations of one realm.
pub struct RealmService {
    access: Arc<RuntimeAccess>,
    calls: OperationCalls,
    sessions: SessionResources,
    registered: Registered,
    skills: Option<SkillViews>,
    log: Log,
}

impl RealmService {
    /// Creates the service; `log` receives the events of `verbose` runs and problems, `notices` the changes.
    pub(crate) fn new(host: LazyRuntime, log: Log, notices: Notifier, skills: Option<SkillViews>) -> Self {
        let access = Arc::new(RuntimeAccess::new(host, notices));
        Self {
            calls: OperationCalls::new(Arc::clone(&access), Arc::clone(&log)),
            sessions: SessionResources::new(Arc::clone(&access)),
            registered: Registered::new(Arc::clone(&access), skills.clone(), Arc::clone(&log)),
            skills,
            access,
            log,
        }
    }

    pub(crate) fn host(&self) -> &LazyRuntime {
        self.access.host()
    }

    /// Opens the realm once it exists, so that clients are notified of its registry.
    pub(crate) async fn open_when_created(&self) {
        self.registered.open_when_created().await;
    }
}

impl Service for RealmService {
    fn about(&self) -> ServerInfo {
        ServerInfo {
            name: "rkat-mcp",
            title: "Meerkat",
            version: env!("CARGO_PKG_VERSION"),
            instructions: INSTRUCTIONS,
        }
    }

    fn log(&self, line: &str) {
        (self.log)(line);
    }

    async fn check_ready(&self) -> Result<(), String> {
        self.access.check_ready().await.map_err(|error| error.to_string())
    }

    async fn refresh(&self) {
        self.registered.refresh().await;
        if let Some(skills) = &self.skills {
            skills.snapshot().await;
        }
    }
}

impl Tools for RealmService {
    fn tools(&self) -> Cow<'_, [Tool]> {
        match self.skills.as_ref().and_then(SkillViews::tool) {
            None => Cow::Borrowed(tools::tools()),
            Some(tool) => Cow::Owned(tools::tools().iter().cloned().chain([tool]).collect()),
        }
    }

    async fn call(
        &self,
        call: CallToolRequestParams,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(skills) = self.skills.as_ref().filter(|_| call.name == SKILL_TOOL) {
            return Ok(skills.call(call.arguments).await.into());
        }
        let Some(operation) = find(&call.name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool `{}`", excerpt(&call.name)), None));
        };
        Box::pin(self.calls.call(operation, call, request)).await
    }

    async fn restore_task(&self, id: &str) -> Option<DetailedTask> {
        self.calls.tasks().restore(id).await
    }

    async fn cancel_unknown_task(&self, id: &str) -> bool {
        self.calls.tasks().stop(id).await
    }
}

impl Resources for RealmService {
    async fn resources(&self, after: Option<String>) -> Result<Page<Resource>, ErrorData> {
        // Skills come first, then registered skills; the last page of those continues with sessions.
        let (mut items, mut after) = (Vec::new(), after.as_deref());
        let own = match &self.skills {
            Some(skills) => Page::numbered(SKILL, after, |first| skills.page(first)).await.transpose()?,
            None => None,
        };
        if let Some(page) = own {
            if page.next.is_some() {
                return Ok(page);
            }
            (items, after) = (page.items, None);
        }
        if let Some(page) = self.registered.page(after).await.transpose()? {
            items.extend(page.items);
            if page.next.is_some() {
                return Ok(Page { items, next: page.next });
            }
            after = None;
        }
        let page = self.sessions.page(after).await?;
        items.extend(page.items);
        Ok(Page { items, next: page.next })
    }

    fn templates(&self) -> Cow<'_, [ResourceTemplate]> {
        let skills = self.skills.iter().flat_map(|_| crate::skills::templates());
        Cow::Owned(
            resources::templates().iter().chain(skills).chain(registry::templates()).cloned().collect(),
        )
    }

    async fn read(
        &self,
        read: ReadResourceRequestParams,
        _: Request,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = read.uri;
        if let Some(skills) = self.skills.as_ref().filter(|_| SkillViews::owns(&uri)) {
            self.registered.refresh().await;
            return Ok(skills.read(uri).await?.into());
        }
        if registry::owns(&uri) {
            return Ok(self.registered.read(uri).await?.into());
        }
        Ok(self.sessions.read(uri).await?.into())
    }
}

impl Prompts for RealmService {
    fn prompts(&self) -> Cow<'_, [Prompt]> {
        let skills = self.skills.as_ref().map(SkillViews::prompts).unwrap_or_default();
        Cow::Owned(skills.into_iter().chain(self.registered.prompts()).collect())
    }

    async fn prompt(&self, get: GetPromptRequestParams, _: Request) -> Result<GetPromptResponse, ErrorData> {
        if let Some(rendered) = self.registered.prompt(&get).await {
            return Ok(rendered?.into());
        }
        if let Some(skills) = &self.skills {
            return Ok(skills.prompt(get).await?.into());
        }
        Err(ErrorData::invalid_params(format!("unknown prompt `{}`", excerpt(&get.name)), None))
    }

    async fn complete(&self, complete: CompleteRequestParams) -> Result<Vec<String>, ErrorData> {
        self.registered.refresh().await;
        if let Some(skills) = &self.skills
            && let Some(known) = skills.complete(&complete).await
        {
            return Ok(known);
        }
        match complete.r#ref {
            Reference::Prompt(prompt) if self.registered.has_prompt(&prompt.name) => Ok(Vec::new()),
            Reference::Prompt(prompt) => {
                Err(ErrorData::invalid_params(format!("unknown prompt `{}`", excerpt(&prompt.name)), None))
            }
            Reference::Resource(template) => {
                let (name, prefix) = (&complete.argument.name, &complete.argument.value);
                if let Some(known) = self.registered.complete(&template.uri, name, prefix).await {
                    return Ok(known);
                }
                self.sessions.session_ids(&template.uri, name, prefix).await
            }
            _ => Ok(Vec::new()),
        }
    }
}

impl Extensions for RealmService {
    fn extensions(&self) -> ExtensionCapabilities {
        self.skills.as_ref().map(|_| SkillViews::extensions()).unwrap_or_default()
    }

    async fn call_extension(
        &self,
        method: &str,
        params: Option<Value>,
        era: Era,
    ) -> Option<Result<Value, ErrorData>> {
        let skills = self.skills.as_ref()?;
        self.registered.refresh().await;
        skills.handle_method(method, params, era).await
    }
}
