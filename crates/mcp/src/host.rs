//! What a server may ask of us, and who answers.

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

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What the user says to a form or an address.
    Elicitation,
    /// What a model says.
    Sampling,
    /// Which directories we work in.
    Roots,
}

/// Answers the questions of servers. Without one, no server is told that it may ask.
pub trait Host: Send + Sync {
    /// Lists the questions it answers.
    fn answers(&self) -> Vec<Question>;

    /// Answers a question of a server; `None` to decline. Parameters and answer are those of the protocol.
    fn answer(&self, server: &str, question: Question, params: Value) -> BoxFuture<'_, Option<Value>>;
}

/// Our side of one connection.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) server: Arc<str>,
    pub(crate) host: Option<Arc<dyn Host>>,
    /// Rings when the server's tools have changed.
    pub(crate) tools_changed: Arc<Notify>,
}

impl Handler {
    fn answers(&self, question: Question) -> bool {
        self.host.as_ref().is_some_and(|host| host.answers().contains(&question))
    }

    /// Answers a question as the host does; `None` when it declines or there is none.
    pub(crate) async fn ask(&self, question: Question, params: Value) -> Option<Value> {
        let host = self.host.as_ref().filter(|_| self.answers(question))?;
        host.answer(&self.server, question, params).await
    }

    async fn ask_typed<T: DeserializeOwned>(&self, question: Question, params: impl Serialize) -> Option<T> {
        let params = serde_json::to_value(params).ok()?;
        serde_json::from_value(self.ask(question, params).await?).ok()
    }

    fn capabilities(&self) -> ClientCapabilities {
        let mut declared = serde_json::Map::new();
        for (question, name) in [
            (Question::Elicitation, "elicitation"),
            (Question::Sampling, "sampling"),
            (Question::Roots, "roots"),
        ] {
            if self.answers(question) {
                declared.insert(name.to_owned(), json!({}));
            }
        }
        serde_json::from_value(Value::Object(declared)).unwrap_or_default()
    }
}

#[expect(deprecated, reason = "servers of the older generation may still ask for samples and roots")]
impl ClientHandler for Handler {
    async fn create_message(
        &self,
        params: rmcp::model::CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::CreateMessageResult, ErrorData> {
        let refused = ErrorData::method_not_found::<CreateMessageRequestMethod>;
        self.ask_typed(Question::Sampling, params).await.ok_or_else(refused)
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Ok(self.ask_typed(Question::Roots, json!({})).await.unwrap_or_default())
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        Ok(self.ask_typed(Question::Elicitation, params).await.unwrap_or_else(declined))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        // A handshake always offers the newest revision that has one; the newer generation has none.
        let identity = Implementation::new("meerkat", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.capabilities(), identity)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
