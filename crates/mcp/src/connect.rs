//! Opening a connection: choice of transport and protocol era.
//!
//! A cached era is dropped as soon as it no longer holds. Over HTTP only a response counts: an outage, a rejection, or
//! silence never classifies a server as legacy.

use std::sync::{Arc, Mutex};

use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{AuthClient, AuthError};
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError};

use tokio::time::timeout;

use crate::client_features::Handler;
use crate::config::{Endpoint, EraChoice, ServerConfig, TransportConfig};
use crate::era::{Era, EraCache};
use crate::lock;
use crate::process::{Launcher, ProcessLog, SpawnError, StdioChild};
use crate::remote::{self, HttpClient, LegacySse, RemoteError, SseError};

/// An open connection.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Handler>,
    pub(crate) era: Era,
}

/// Error of a connection attempt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Sse(#[from] SseError),
    #[error("{}", handshake_text(.0))]
    Handshake(Box<ClientInitializeError>),
    #[error(transparent)]
    Auth(#[from] AuthError),
}

impl From<ClientInitializeError> for ConnectError {
    fn from(error: ClientInitializeError) -> Self {
        Self::Handshake(Box::new(error))
    }
}

impl ConnectError {
    /// Returns the login challenge of the server.
    pub(crate) fn challenge(&self) -> Option<&str> {
        match self {
            Self::Handshake(error) => error.auth_challenge(),
            _ => None,
        }
    }

    /// Returns `true` if the user has to log in, possibly again.
    pub(crate) fn needs_login(&self) -> bool {
        match self {
            Self::Handshake(error) => {
                error.auth_challenge().is_some()
                    || error.is_authorization_required()
                    // Some servers send no challenge.
                    || has_status(error, &["HTTP 401"])
            }
            Self::Auth(error) => !matches!(error, AuthError::HttpError(_) | AuthError::InternalError(_)),
            Self::Sse(SseError::Status(401)) => true,
            _ => false,
        }
    }
}

/// Inputs for opening a connection.
pub(crate) struct Connector<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) launcher: &'a Launcher,
    pub(crate) eras: &'a EraCache,
    pub(crate) handler: &'a Handler,
    /// Client that sends the user's tokens, if any are stored for this server.
    pub(crate) authorized: Option<AuthClient<HttpClient>>,
    /// Receives the log of a process, so that it can be read even if the handshake is abandoned.
    pub(crate) log: &'a Mutex<Option<Arc<ProcessLog>>>,
}

impl Connector<'_> {
    /// Opens the connection.
    pub(crate) async fn connect(self) -> Result<Connection, ConnectError> {
        let chosen = match self.config.era {
            EraChoice::Auto => None,
            EraChoice::Legacy => Some(Era::Legacy),
            EraChoice::Modern => Some(Era::Modern),
        };
        let known = if chosen.is_none() { self.eras.get(self.config).await } else { None };
        let learned = match known {
            Some(era) => self.connect_with_cached_era(era).await,
            None => None,
        };
        let connected = match learned {
            Some(connected) => connected,
            None => {
                if known.is_some() {
                    self.eras.forget(self.config).await;
                }
                self.open(chosen).await
            }
        };
        if let Ok(connected) = &connected {
            self.eras.set(self.config, connected.era);
            if known.is_none() && self.ignored_discovery() {
                self.eras.note_silence(self.config).await;
            }
        }
        connected
    }

    /// Opens the connection in the era that the server used before; `None` if the server no longer supports it. A
    /// command may have been replaced, so any failure, even silence, may mean this.
    async fn connect_with_cached_era(&self, era: Era) -> Option<Result<Connection, ConnectError>> {
        let opening = self.open(Some(era));
        if let TransportConfig::Stdio { .. } = &self.config.transport {
            return match timeout(self.config.connect_timeout / 2, opening).await {
                Err(_) | Ok(Err(ConnectError::Handshake(_))) => None,
                Ok(opened) => Some(opened),
            };
        }
        match opening.await {
            Err(ConnectError::Handshake(error)) if is_answer(&error) => None,
            opened => Some(opened),
        }
    }

    async fn open(&self, known: Option<Era>) -> Result<Connection, ConnectError> {
        match &self.config.transport {
            TransportConfig::Stdio { .. } => self.over_stdio(known).await,
            TransportConfig::Http(endpoint) => self.over_http(endpoint, known).await,
            TransportConfig::Url(endpoint) => match self.over_http(endpoint, known).await {
                // If the server supports neither, the error of streamable HTTP is more helpful.
                Err(error) if rejects_posts(&error) => self.over_sse(endpoint).await.map_err(|_| error),
                other => other,
            },
            TransportConfig::Sse(endpoint) => self.over_sse(endpoint).await,
        }
    }

    async fn over_stdio(&self, known: Option<Era>) -> Result<Connection, ConnectError> {
        let first = match known {
            Some(era) => return self.handshake(self.start()?, mode(era)).await,
            None => self.handshake(self.start()?, auto()).await,
        };
        match first {
            // The process exited because of an unknown request.
            Err(ConnectError::Handshake(error))
                if matches!(*error, ClientInitializeError::ConnectionClosed(_)) =>
            {
                self.handshake(self.start()?, mode(Era::Legacy)).await
            }
            // The response to discovery came too late, and the server rejects a handshake.
            Err(ConnectError::Handshake(error)) if refuses_handshake(&error) => {
                self.handshake(self.start()?.without_deadline(), mode(Era::Modern)).await
            }
            other => other,
        }
    }

    /// Returns `true` if the process never responded to `server/discover`.
    fn ignored_discovery(&self) -> bool {
        lock(self.log).as_ref().is_some_and(|log| log.ignored_discovery())
    }

    fn start(&self) -> Result<StdioChild, ConnectError> {
        let TransportConfig::Stdio { command, args, env } = &self.config.transport else {
            return Err(ConnectError::Auth(AuthError::InternalError("not a command".to_owned())));
        };
        let child = StdioChild::start(self.launcher, command, args, env)?;
        *lock(self.log) = Some(child.log());
        let probing = self.config.era != EraChoice::Modern;
        Ok(if probing { child } else { child.without_deadline() })
    }

    async fn over_http(&self, endpoint: &Endpoint, known: Option<Era>) -> Result<Connection, ConnectError> {
        match &self.authorized {
            None => self.over_client(remote::http_client()?, endpoint, known).await,
            Some(client) => self.over_client(client.clone(), endpoint, known).await,
        }
    }

    async fn over_sse(&self, endpoint: &Endpoint) -> Result<Connection, ConnectError> {
        let transport = LegacySse::connect(endpoint).await?;
        self.handshake(transport, ClientLifecycleMode::Initialize).await
    }

    async fn over_client<C>(
        &self,
        client: C,
        endpoint: &Endpoint,
        known: Option<Era>,
    ) -> Result<Connection, ConnectError>
    where
        C: StreamableHttpClient + Clone + Send + Sync + 'static,
    {
        let config = remote::streamable(endpoint)?;
        let open = || StreamableHttpClientTransport::with_client(client.clone(), config.clone());
        match self.handshake(open(), mode(known.unwrap_or(Era::Modern))).await {
            Err(error) if known.is_none() && is_older(&error) => {
                self.handshake(open(), mode(Era::Legacy)).await
            }
            other => other,
        }
    }

    async fn handshake<T, E, A>(
        &self,
        transport: T,
        mode: ClientLifecycleMode,
    ) -> Result<Connection, ConnectError>
    where
        T: rmcp::transport::IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let service = Box::pin(serve_client_with_lifecycle(self.handler.clone(), transport, mode)).await?;
        let version = service.peer().peer_info().map(|info| info.protocol_version.clone());
        let modern = version.is_some_and(|version| !version.has_initialize());
        Ok(Connection { service, era: if modern { Era::Modern } else { Era::Legacy } })
    }
}

/// Returns `true` if a URL does not accept POST requests, like one of the legacy SSE transport.
fn rejects_posts(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Handshake(error) if has_status(error, &["HTTP 400", "HTTP 404", "HTTP 405"]))
}

fn has_status(error: &ClientInitializeError, statuses: &[&str]) -> bool {
    let ClientInitializeError::TransportError { error, .. } = last(error) else { return false };
    let http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    let Some(StreamableHttpError::UnexpectedServerResponse(text)) = http else { return false };
    statuses.iter().any(|status| text.starts_with(status))
}

/// Returns the error of the last handshake: that of the fallback, if there was one.
fn last(error: &ClientInitializeError) -> &ClientInitializeError {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => last(fallback),
        error => error,
    }
}

fn handshake_text(error: &ClientInitializeError) -> String {
    match last(error) {
        ClientInitializeError::TransportError { error, .. } => crate::causes(error.error.as_ref()),
        ClientInitializeError::ConnectionClosed(_) => "it disconnected before it was ready".to_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it rejected the connection: {} ({})", error.message, error.code.0)
        }
        other => other.to_string(),
    }
}

fn mode(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        }
    }
}

fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

fn refuses_handshake(error: &ClientInitializeError) -> bool {
    matches!(last(error), ClientInitializeError::JsonRpcError(error) if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
}

/// Returns `true` if a server responded, with any content.
fn is_answer(error: &ClientInitializeError) -> bool {
    matches!(
        last(error),
        ClientInitializeError::JsonRpcError(_) | ClientInitializeError::ExpectedInitResult(_)
    )
}

/// Returns `true` if the response of a server shows that it does not support the modern era.
fn is_older(error: &ConnectError) -> bool {
    let ConnectError::Handshake(error) = error else { return false };
    match &**error {
        ClientInitializeError::JsonRpcError(error) => !matches!(
            error.code,
            ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                | ErrorCode::HEADER_MISMATCH
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        ),
        ClientInitializeError::ExpectedInitResult(_) => true,
        _ => false,
    }
}
