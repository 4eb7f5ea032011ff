//! Logging in to servers with OAuth 2.1: discovery, registration, PKCE, token refresh.
//!
//! This module opens no browser and listens on no port: the host shows the URL to the user, if present, and returns the
//! URL that the user was redirected to. Tokens are stored through a port, one text per server; a transient failure
//! never deletes them.

mod client;
mod endpoints;
mod tokens;

use std::sync::Arc;

use meerkat_core::Redactor;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    CredentialStore as _, OAuthClientConfig, WWWAuthenticateParams,
};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

use crate::config::Endpoint;

use client::LoginClient;
pub use tokens::{LoginState, TokenLock, TokenStore, token_key};
use tokens::{OnRefresh, Store};

/// Client name shown to users when they authorize it.
const CLIENT_NAME: &str = "Meerkat";

/// Error of a login.
#[derive(Debug, thiserror::Error)]
#[error("cannot log in to `{server}`")]
pub struct LoginError {
    /// The server.
    pub server: String,
    /// The cause.
    #[source]
    source: AuthError,
}

/// Options of a login.
#[derive(Debug, Clone, Default)]
pub struct LoginOptions {
    /// URL that the user is redirected to after the login.
    pub redirect_uri: String,
    /// Scopes to request; empty for those that the server requires.
    pub scopes: Vec<String>,
    /// Client that the user registered.
    pub client: Option<RegisteredClient>,
    /// URL of a document that describes this client.
    pub client_metadata_url: Option<String>,
    /// Challenge that the server sent with its rejection.
    pub challenge: Option<String>,
}

/// A manually registered client.
#[derive(Clone)]
pub struct RegisteredClient {
    /// Client id.
    pub id: String,
    /// Client secret, if any.
    pub secret: Option<String>,
}

impl std::fmt::Debug for RegisteredClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RegisteredClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A login that is waiting for the user.
pub struct Login {
    server: String,
    session: AuthorizationSession,
}

impl Login {
    /// Starts a login: finds the server's authorization server and registers this client there if necessary.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached, or offers no login or an insecure one.
    pub async fn begin(
        server: &str,
        endpoint: &Endpoint,
        options: LoginOptions,
        tokens: Arc<dyn TokenStore>,
    ) -> Result<Self, LoginError> {
        let failed = |source| LoginError { server: server.to_owned(), source };
        let session = begin(server, endpoint, options, tokens).await.map_err(failed)?;
        Ok(Self { server: server.to_owned(), session })
    }

    /// Returns the URL where the user logs in.
    #[must_use]
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Returns the `state` that the redirect after this login must carry.
    #[must_use]
    pub fn state(&self) -> Option<String> {
        let url = url::Url::parse(self.address()).ok()?;
        url.query_pairs().find_map(|(name, value)| (name == "state").then(|| value.into_owned()))
    }

    /// Completes the login with the URL that the user was redirected to, and stores the tokens.
    ///
    /// # Errors
    ///
    /// Returns an error if the redirect does not belong to this login, or the server issues no tokens for it.
    pub async fn finish(self, sent_to: &str) -> Result<(), LoginError> {
        let finished = self.session.handle_callback_url(sent_to).await;
        finished.map(drop).map_err(|source| LoginError { server: self.server, source })
    }
}

async fn begin(
    server: &str,
    endpoint: &Endpoint,
    options: LoginOptions,
    tokens: Arc<dyn TokenStore>,
) -> Result<AuthorizationSession, AuthError> {
    let key = token_key(server, &endpoint.url);
    let mut store = Store { key, tokens, secret: None, redactor: Redactor::default(), on_refresh: None };
    let scopes = wider_scopes(&store, endpoint, &options).await?;
    let mut manager = manager(&endpoint.url).await?;
    let metadata = manager.resolve_metadata_from_challenge(options.challenge.as_deref()).await?.metadata;
    endpoints::check_metadata(&metadata)?;
    manager.set_metadata(metadata.clone());
    let mut request = AuthorizationRequest::new(options.redirect_uri.clone())
        .with_client_name(CLIENT_NAME)
        .with_scopes(scopes.clone())
        .with_initial_scope_selection();
    let client = match (options.client, options.client_metadata_url) {
        (Some(client), _) => Some(client),
        (None, Some(url)) if reads_client_documents(&metadata) => {
            request = request.with_client_metadata_url(url);
            None
        }
        (None, _) => Some(register(&mut manager, &metadata, &options.redirect_uri, scopes).await?),
    };
    if let Some(client) = client {
        request = request.with_preregistered_client(client.id);
        if let Some(secret) = client.secret {
            request = request.with_client_secret(secret.clone());
            store.secret = Some(secret);
        }
    }
    manager.set_credential_store(store);
    AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)
}

fn reads_client_documents(metadata: &AuthorizationMetadata) -> bool {
    let supported = metadata.additional_fields.get("client_id_metadata_document_supported");
    supported.and_then(serde_json::Value::as_bool).unwrap_or_default()
}

/// Registers this client. Its secret, if any, is stored with the tokens, because refreshing them requires it.
async fn register(
    manager: &mut AuthorizationManager,
    metadata: &AuthorizationMetadata,
    redirect_uri: &str,
    mut scopes: Vec<String>,
) -> Result<RegisteredClient, AuthError> {
    const OFFLINE: &str = "offline_access";
    if scopes.is_empty() {
        scopes = manager.select_initial_scopes(&[]).await;
    } else if metadata.scopes_supported.iter().flatten().any(|scope| scope == OFFLINE) {
        scopes.push(OFFLINE.to_owned());
    }
    let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
    let client = manager.register_client(CLIENT_NAME, redirect_uri, &scopes).await?;
    Ok(RegisteredClient { id: client.client_id, secret: client.client_secret })
}

/// Returns the scopes to request. Scopes that the server additionally requires are added to those already granted.
async fn wider_scopes(
    store: &Store,
    endpoint: &Endpoint,
    options: &LoginOptions,
) -> Result<Vec<String>, AuthError> {
    let Some(challenge) = options.challenge.as_deref().filter(|_| options.scopes.is_empty()) else {
        return Ok(options.scopes.clone());
    };
    let required = WWWAuthenticateParams::parse(challenge, &endpoint.url.parse()?);
    let Some(wanted) = required.scope.as_deref().filter(|_| required.is_insufficient_scope()) else {
        return Ok(Vec::new());
    };
    let mut scopes = store.load().await?.map(|stored| stored.granted_scopes).unwrap_or_default();
    for scope in wanted.split_whitespace() {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    Ok(scopes)
}

async fn manager(url: &str) -> Result<AuthorizationManager, AuthError> {
    endpoints::check("server's URL", url)?;
    // The HTTP client of the authorization library needs a TLS provider too.
    crate::remote::choose_tls();
    let client = LoginClient::new(&url.parse()?);
    AuthorizationManager::new_with_oauth_http_client(url, Arc::new(client)).await
}

/// Restores the tokens of a server; `None`, without sending a request, if none are stored.
pub(crate) async fn restore(
    server: &str,
    endpoint: &Endpoint,
    tokens: &Arc<dyn TokenStore>,
    redactor: &Redactor,
    on_refresh: OnRefresh,
) -> Result<Option<AuthorizationManager>, AuthError> {
    let has_header = endpoint.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    let mut store = Store {
        key: token_key(server, &endpoint.url),
        tokens: Arc::clone(tokens),
        secret: None,
        redactor: redactor.clone(),
        on_refresh: Some(on_refresh),
    };
    let Some(stored) = store.load_login().await?.filter(|_| !has_header) else { return Ok(None) };
    store.secret.clone_from(&stored.client_secret);
    let mut manager = manager(&endpoint.url).await?;
    manager.set_credential_store(store);
    let metadata = manager.resolve_metadata().await?.metadata;
    endpoints::check_metadata(&metadata)?;
    manager.set_metadata(metadata);
    let usable = manager.initialize_from_store().await?;
    if let Some(secret) = stored.client_secret.filter(|_| usable) {
        let client = OAuthClientConfig::new(stored.credentials.client_id, &endpoint.url);
        manager.configure_client(client.with_client_secret(secret))?;
    }
    Ok(usable.then_some(manager))
}

/// Returns the challenge of a server that rejected a request because it requires a login.
pub(crate) fn challenge(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(required) = error.downcast_ref::<AuthRequiredError>() {
            return Some(required.www_authenticate_header.clone());
        }
        if let Some(scope) = error.downcast_ref::<InsufficientScopeError>() {
            return Some(scope.www_authenticate_header.clone());
        }
        cause = error.source();
    }
    None
}
