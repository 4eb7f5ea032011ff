//! Client features that servers may request.

use std::sync::Arc;

use meerkat_core::BoxFuture;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestMethod, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorData, Implementation, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A client feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFeature {
    /// User input through a form or a URL.
    Elicitation,
    /// Response of a model.
    Sampling,
    /// Working directories of the client.
    Roots,
}

/// Handler for requests of servers. Without one, no client features are advertised.
pub trait ClientFeatures: Send + Sync {
    /// Returns the supported features.
    fn supported(&self) -> Vec<ClientFeature>;

    /// Handles a request of a server; `None` declines it. Parameters and result have the format of the protocol.
    fn handle(&self, server: &str, question: ClientFeature, params: Value) -> BoxFuture<'_, Option<Value>>;
}

/// Client side of one connection.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) server: Arc<str>,
    pub(crate) host: Option<Arc<dyn ClientFeatures>>,
    /// Notified when the server's tools have changed.
    pub(crate) tools_changed: Arc<Notify>,
}

impl Handler {
    fn answers(&self, question: ClientFeature) -> bool {
        self.host.as_ref().is_some_and(|host| host.supported().contains(&question))
    }

    /// Forwards a request to the host; `None` if it declines or no host is set.
    pub(crate) async fn ask(&self, question: ClientFeature, params: Value) -> Option<Value> {
        let host = self.host.as_ref().filter(|_| self.answers(question))?;
        host.handle(&self.server, question, params).await
    }

    async fn ask_typed<T: DeserializeOwned>(
        &self,
        question: ClientFeature,
        params: impl Serialize,
    ) -> Option<T> {
        let params = serde_json::to_value(params).ok()?;
        serde_json::from_value(self.ask(question, params).await?).ok()
    }

    fn capabilities(&self) -> ClientCapabilities {
        let mut declared = serde_json::Map::new();
        for (question, name) in [
            (ClientFeature::Elicitation, "elicitation"),
            (ClientFeature::Sampling, "sampling"),
            (ClientFeature::Roots, "roots"),
        ] {
            if self.answers(question) {
                declared.insert(name.to_owned(), json!({}));
            }
        }
        serde_json::from_value(Value::Object(declared)).unwrap_or_default()
    }
}

#[expect(deprecated, reason = "servers of the legacy era may still request sampling and roots")]
impl ClientHandler for Handler {
    async fn create_message(
        &self,
        params: rmcp::model::CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::CreateMessageResult, ErrorData> {
        let unsupported = ErrorData::method_not_found::<CreateMessageRequestMethod>;
        self.ask_typed(ClientFeature::Sampling, params).await.ok_or_else(unsupported)
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Ok(self.ask_typed(ClientFeature::Roots, json!({})).await.unwrap_or_default())
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        Ok(self.ask_typed(ClientFeature::Elicitation, params).await.unwrap_or_else(declined))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        // A handshake always offers the newest revision with a handshake; the modern era has none.
        let identity = Implementation::new("meerkat", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.capabilities(), identity)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
