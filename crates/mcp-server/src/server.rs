//! The MCP server itself: protocol on one side, operations on the other.

#![expect(deprecated, reason = "clients of older revisions receive events as log messages")]

use std::sync::Arc;
use std::time::Duration;

use meerkat::ops::{Call, Operation, find};
use meerkat::{EventEnvelope, EventSink, RunControl};
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, SetLevelRequestParams, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError, ServiceExt};
use serde_json::Value;

use crate::host::Host;
use crate::stdio::{FAREWELL, LAST_COMMITS, Stdio};
use crate::stream::EventStream;
use crate::tools::{result, tools};

/// What the client is told about this server.
const INSTRUCTIONS: &str = "Durable agent sessions. meerkat_run starts one and returns a session_id; meerkat_resume \
continues it, also after a restart; meerkat_sessions lists them.";

/// How long the last lines may take to be written.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Takes lines for the server's log.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Serves the operations of one realm.
#[derive(Clone)]
pub struct Server {
    host: Host,
    log: Log,
}

/// Why a server could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client and the server did not understand each other.
    #[error("the session with the client could not begin: {0}")]
    Handshake(#[source] Box<ServerInitializeError>),
}

impl Server {
    /// Makes a server; `log` takes what `verbose` runs tell.
    pub fn new(host: Host, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { host, log: Arc::new(log) }
    }

    /// Interrupts every run and waits until all have committed their end, for a moment.
    pub async fn shutdown(&self) {
        self.host.shutdown(LAST_COMMITS).await;
    }

    async fn call(
        &self,
        operation: &Operation,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let runtime = match self.host.runtime().await {
            Ok(runtime) => runtime.clone(),
            Err(error) => return result(Err(error)).into(),
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let asked = |key: &str| arguments.get(key) == Some(&Value::Bool(true));
        let stream = asked("stream").then(|| EventStream::start(context.peer.clone()));
        let events = self.sinks(stream.as_ref(), asked("verbose"));
        let control = RunControl { cancel: context.ct.clone(), events };
        let outcome = operation.call(Call { runtime, control }, arguments).await;
        if let Some(stream) = stream {
            stream.finish().await;
        }
        result(outcome).into()
    }

    fn sinks(&self, stream: Option<&EventStream>, verbose: bool) -> Option<EventSink> {
        let stream = stream.map(EventStream::sink);
        if !verbose {
            return stream;
        }
        let log = Arc::clone(&self.log);
        Some(Arc::new(move |event: EventEnvelope| {
            log(&log_line(&event));
            if let Some(stream) = &stream {
                stream(event);
            }
        }))
    }
}

fn log_line(event: &EventEnvelope) -> String {
    let payload = serde_json::to_string(&event.payload).unwrap_or_default();
    format!("{} #{} {payload}", event.source_id, event.seq)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_logging().build();
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("rkat-mcp", env!("CARGO_PKG_VERSION")).with_title("Meerkat");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools().to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(operation) = find(&request.name) else {
            let message = format!("unknown tool `{}`; tools/list has the names", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        Ok(Box::pin(self.call(operation, request, context)).await)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    /// A request of a known method comes here when its parameters do not fit.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        Err(match method.as_str() {
            "tools/call" => ErrorData::invalid_params(
                "tools/call needs params with a `name` and, if any, an object of `arguments`",
                None,
            ),
            "initialize" | "tools/list" | "ping" | "logging/setLevel" => {
                ErrorData::invalid_params(format!("the params of {method} do not fit"), None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method `{method}`"), None),
        })
    }
}

/// Serves one client over stdio until it closes its side, then ends every run cleanly.
///
/// # Errors
/// Fails when the client does not speak the protocol.
pub async fn serve(server: Server, mut stdio: Stdio) -> Result<(), ServeError> {
    let host = server.host.clone();
    let (closed, in_flight, written) = (stdio.closed(), stdio.in_flight(), stdio.written());
    let farewell = async {
        closed.cancelled().await;
        if tokio::time::timeout(FAREWELL, in_flight.wait()).await.is_err() {
            host.shutdown(LAST_COMMITS).await;
        }
        std::future::pending::<()>().await;
    };
    let served = async {
        match server.serve(stdio).await {
            Ok(running) => {
                // It fails only if the service itself panicked, and then there is nobody left to tell.
                let _ = running.waiting().await;
                Ok(())
            }
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(ServeError::Handshake(Box::new(error))),
        }
    };
    let served = tokio::select! {
        served = served => served,
        () = farewell => Ok(()),
    };
    host.shutdown(LAST_COMMITS).await;
    let _ = tokio::time::timeout(LAST_WORDS, written).await;
    served
}
