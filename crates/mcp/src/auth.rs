//! Logging in to servers with OAuth 2.1: discovery, registration, PKCE, renewal.
//!
//! Nothing here opens a browser or listens on a port: the host shows the address to the user, or does not when
//! nobody is there, and brings back the address the user was sent to. Tokens are kept behind a port, one text
//! for each server; a failure that may pass never costs them.

mod endpoints;
mod tokens;

use std::sync::Arc;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    CredentialStore as _, OAuthClientConfig, WWWAuthenticateParams,
};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

use crate::config::Endpoint;
use crate::server::Shared;

use tokens::Store;
pub use tokens::{TokenLock, Tokens, token_key};

/// What users see that they let in.
const CLIENT_NAME: &str = "Meerkat";

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
#[error("the login at `{server}` failed")]
pub struct LoginError {
    /// The server.
    pub server: String,
    /// What went wrong.
    #[source]
    source: AuthError,
}

/// How to log in.
#[derive(Debug, Clone, Default)]
pub struct LoginOptions {
    /// Where the user is sent back to.
    pub redirect_uri: String,
    /// The scopes to ask for; empty to let the server say.
    pub scopes: Vec<String>,
    /// A client that the user registered.
    pub client: Option<RegisteredClient>,
    /// The address of a document that describes this client.
    pub client_metadata_url: Option<String>,
    /// What the server said when it refused us.
    pub challenge: Option<String>,
}

/// A client that was registered by hand.
#[derive(Clone)]
pub struct RegisteredClient {
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
}

impl std::fmt::Debug for RegisteredClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RegisteredClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A login that waits for the user.
pub struct Login {
    server: String,
    session: AuthorizationSession,
}

impl Login {
    /// Prepares a login: finds the server's authorization server and registers this client there if need be.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached, offers no login, or one that is not safe.
    pub async fn begin(
        server: &str,
        endpoint: &Endpoint,
        options: LoginOptions,
        tokens: Arc<dyn Tokens>,
    ) -> Result<Self, LoginError> {
        let failed = |source| LoginError { server: server.to_owned(), source };
        let session = begin(server, endpoint, options, tokens).await.map_err(failed)?;
        Ok(Self { server: server.to_owned(), session })
    }

    /// Where the user logs in.
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

    /// Takes the address the user was sent back to, and saves the tokens.
    ///
    /// # Errors
    ///
    /// Fails when the answer is not to this login, or the server gives no tokens for it.
    pub async fn finish(self, sent_to: &str) -> Result<(), LoginError> {
        let finished = self.session.handle_callback_url(sent_to).await;
        finished.map(drop).map_err(|source| LoginError { server: self.server, source })
    }
}

async fn begin(
    server: &str,
    endpoint: &Endpoint,
    options: LoginOptions,
    tokens: Arc<dyn Tokens>,
) -> Result<AuthorizationSession, AuthError> {
    let mut store = Store { key: token_key(server, &endpoint.url), tokens, secret: None, renewed: None };
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
    let says = metadata.additional_fields.get("client_id_metadata_document_supported");
    says.and_then(serde_json::Value::as_bool).unwrap_or_default()
}

/// Registers this client. A secret that it gets is needed to renew tokens, so that it is kept with them.
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

/// A server that wants more than it was given gets it in addition, so that nothing granted is lost.
async fn wider_scopes(
    store: &Store,
    endpoint: &Endpoint,
    options: &LoginOptions,
) -> Result<Vec<String>, AuthError> {
    let Some(challenge) = options.challenge.as_deref().filter(|_| options.scopes.is_empty()) else {
        return Ok(options.scopes.clone());
    };
    let asked = WWWAuthenticateParams::parse(challenge, &endpoint.url.parse()?);
    let Some(wanted) = asked.scope.as_deref().filter(|_| asked.is_insufficient_scope()) else {
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
    // The client of the authorization library needs a provider for TLS too, which this chooses.
    crate::remote::choose_tls();
    AuthorizationManager::new(url).await
}

/// Brings back the tokens of a server; `None` when there are none, which takes no request.
pub(crate) async fn restore(
    shared: &Arc<Shared>,
    endpoint: &Endpoint,
    tokens: &Arc<dyn Tokens>,
) -> Result<Option<AuthorizationManager>, AuthError> {
    let key = token_key(&shared.config.name, &endpoint.url);
    let has_header = endpoint.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    let renewed = Some(Arc::clone(shared));
    let mut store = Store { key, tokens: Arc::clone(tokens), secret: None, renewed };
    let Some(kept) = store.kept().await?.filter(|_| !has_header) else { return Ok(None) };
    store.secret.clone_from(&kept.client_secret);
    let mut manager = manager(&endpoint.url).await?;
    manager.set_credential_store(store);
    let metadata = manager.resolve_metadata().await?.metadata;
    endpoints::check_metadata(&metadata)?;
    manager.set_metadata(metadata);
    let usable = manager.initialize_from_store().await?;
    if let Some(secret) = kept.client_secret.filter(|_| usable) {
        let client = OAuthClientConfig::new(kept.credentials.client_id, &endpoint.url);
        manager.configure_client(client.with_client_secret(secret))?;
    }
    Ok(usable.then_some(manager))
}

/// Finds what a server said when it refused a request for want of a login.
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
