//! Handler of one client: connects the protocol to the service.

#![expect(deprecated, reason = "clients of older revisions subscribe, and set a level for log messages")]

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use meerkat::excerpt;
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CompletionInfo, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InitializeRequestParams, InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::lists::{cursor, page, start};
use super::notifier::{Interest, Subscription};
use super::request::{AsSeal, Era, Level, RequestServices, era};
use super::state::Seal;
use super::{Request, Service, Shared, subscriptions};

/// Milliseconds for which a list may be cached if changes to it are notified.
const LIST_TTL_MS: u64 = 60_000;
/// Milliseconds for which the server's description may be cached.
const SERVER_INFO_TTL_MS: u64 = 3_600_000;

/// Methods that exist only in older revisions.
const LEGACY_METHODS: [&str; 5] =
    ["initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"];
/// Other methods whose parameters are checked before the handler sees them.
const METHODS: [&str; 13] = [
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// Handler of one client. Dropping it ends the client's notifications.
pub struct Connection<S> {
    protocol: Arc<Shared<S>>,
    level: Arc<Level>,
    /// Change subscription of a client that completed the handshake.
    subscription: Mutex<Option<(Arc<Subscription>, DropGuard)>>,
}

impl<S: Service> AsSeal for Shared<S> {
    fn seal(&self) -> &Seal {
        &self.seal
    }
}

impl<S: Service> Connection<S> {
    pub(super) fn new(protocol: Arc<Shared<S>>) -> Self {
        Self { protocol, level: Arc::new(Level::new()), subscription: Mutex::new(None) }
    }

    fn request(&self, context: RequestContext<RoleServer>, binding: Vec<u8>) -> Request {
        let services = RequestServices {
            notices: self.protocol.notices.clone(),
            tasks: self.protocol.tasks.clone(),
            seal: Arc::clone(&self.protocol) as Arc<dyn AsSeal>,
            level: Arc::clone(&self.level),
        };
        Request::new(context, services, binding)
    }

    /// Returns the client's change subscription.
    fn membership(&self, peer: &Peer<RoleServer>) -> Arc<Subscription> {
        let mut subscription = self.subscription.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((membership, _)) = subscription.as_ref() {
            return Arc::clone(membership);
        }
        let membership = Arc::new(self.protocol.notices.join(Interest::lists()));
        let disconnected = CancellationToken::new();
        tokio::spawn(disconnected.clone().run_until_cancelled_owned(subscriptions::forward_changes(
            Arc::clone(&membership),
            peer.clone(),
        )));
        *subscription = Some((Arc::clone(&membership), disconnected.drop_guard()));
        membership
    }
}

/// Returns the data that a sealed state is bound to.
fn binding(method: &str, name: &str, arguments: Option<&JsonObject>) -> Vec<u8> {
    serde_json::to_vec(&(method, name, arguments)).unwrap_or_default()
}

/// Builds a list result with cache hints, which older revisions do not have.
macro_rules! list_result {
    ($result:ident, $items:expr, $next:expr, $context:expr, $ttl_ms:expr) => {{
        let mut result = $result::with_all_items($items);
        result.next_cursor = $next.as_deref().map(cursor);
        if era($context.protocol_version().as_ref()) == Era::Modern {
            result = result.with_ttl_ms($ttl_ms).with_cache_scope(CacheScope::Private);
        }
        Ok(result)
    }};
}

impl<S: Service> ServerHandler for Connection<S> {
    fn get_info(&self) -> ServerConfig {
        let about = self.protocol.service.about();
        let mut capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        let own = self.protocol.service.extensions();
        capabilities.extensions.get_or_insert_default().extend(own);
        let mut info = ServerConfig::new(capabilities).with_instructions(about.instructions);
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info.server_info = Implementation::new(about.name, about.version).with_title(about.title);
        info
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        // From here on, the negotiated version applies, not the requested one.
        request.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.membership(&context.peer);
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(SERVER_INFO_TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.protocol.service.refresh().await;
        let found = page(&self.protocol.service.tools(), start(request)?.as_deref(), |tool| &tool.name)?;
        list_result!(ListToolsResult, found.items, found.next, context, LIST_TTL_MS)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.protocol.service.refresh().await;
        if !self.protocol.service.tools().iter().any(|tool| tool.name == request.name) {
            let message = format!("unknown tool `{}`; tools/list has the names", excerpt(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        }
        let bound = binding("tools/call", &request.name, request.arguments.as_ref());
        let service_request = self.request(context, bound);
        Box::pin(self.protocol.service.call(request, service_request)).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.protocol.service.tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.protocol.service.refresh().await;
        let found = self.protocol.service.resources(start(request)?).await?;
        list_result!(ListResourcesResult, found.items, found.next, context, 0)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.protocol.service.templates();
        let found = page(&templates, start(request)?.as_deref(), |template| &template.uri_template)?;
        list_result!(ListResourceTemplatesResult, found.items, found.next, context, LIST_TTL_MS)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let service_request = self.request(context, binding("resources/read", &request.uri, None));
        Box::pin(self.protocol.service.read(request, service_request)).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.protocol.service.refresh().await;
        let found =
            page(&self.protocol.service.prompts(), start(request)?.as_deref(), |prompt| &prompt.name)?;
        list_result!(ListPromptsResult, found.items, found.next, context, LIST_TTL_MS)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.protocol.service.refresh().await;
        if !self.protocol.service.prompts().iter().any(|prompt| prompt.name == request.name) {
            let message = format!("unknown prompt `{}`; see prompts/list", excerpt(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        }
        let bound = binding("prompts/get", &request.name, request.arguments.as_ref());
        let service_request = self.request(context, bound);
        Box::pin(self.protocol.service.prompt(request, service_request)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let mut values = self.protocol.service.complete(request).await?;
        let total = u32::try_from(values.len()).ok();
        let has_more = values.len() > CompletionInfo::MAX_VALUES;
        values.truncate(CompletionInfo::MAX_VALUES);
        let completion = CompletionInfo::with_pagination(values, total, has_more)
            .map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if era(context.protocol_version().as_ref()) == Era::Modern {
            return Err(unknown_method("logging/setLevel"));
        }
        self.level.set(request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.membership(&context.peer).watch(request.uri) {
            return Ok(());
        }
        Err(subscriptions::limit_error())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.membership(&context.peer).unwatch(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(subscriptions::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        subscriptions::listen(&self.protocol.notices, &context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let found = match self.protocol.tasks.get(&request.task_id) {
            Some(known) => Some(known),
            None => self.protocol.service.restore_task(&request.task_id).await,
        };
        found.map(GetTaskResult::new).ok_or_else(|| unknown_task(&request.task_id))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let known = self.protocol.tasks.update(&request.task_id, request.input_responses);
        if known { Ok(()) } else { Err(unknown_task(&request.task_id)) }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let id = &request.task_id;
        let known = self.protocol.tasks.cancel(id) || self.protocol.service.cancel_unknown_task(id).await;
        if known { Ok(()) } else { Err(unknown_task(id)) }
    }

    /// Also receives requests of known methods with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let era = era(context.protocol_version().as_ref());
        let extended = self.protocol.service.call_extension(&request.method, request.params, era);
        if let Some(answer) = Box::pin(extended).await {
            return answer.map(CustomResult::new);
        }
        let legacy = era == Era::Legacy;
        Err(match request.method.as_str() {
            "tools/call" => ErrorData::invalid_params(
                "tools/call needs params with a `name` and, optionally, an `arguments` object",
                None,
            ),
            known if METHODS.contains(&known) || (legacy && LEGACY_METHODS.contains(&known)) => {
                ErrorData::invalid_params(format!("invalid params for {known}"), None)
            }
            unknown => unknown_method(unknown),
        })
    }
}

fn unknown_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method `{}`", excerpt(method)), None)
}

fn unknown_task(id: &str) -> ErrorData {
    let message: Cow<'static, str> = format!("unknown task `{}`; it may have expired", excerpt(id)).into();
    ErrorData::invalid_params(message, None)
}
