//! Storage of login tokens.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use meerkat_core::{BoxFuture, Redactor};
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Storage for the user's tokens, under keys from [`token_key`]. The texts are secrets.
pub trait TokenStore: Send + Sync {
    /// Returns the text stored under a key.
    fn load(&self, key: &str) -> BoxFuture<'_, io::Result<Option<String>>>;

    /// Stores a text under a key, replacing the previous one.
    fn save(&self, key: &str, text: String) -> BoxFuture<'_, io::Result<()>>;

    /// Deletes the text stored under a key.
    fn clear(&self, key: &str) -> BoxFuture<'_, io::Result<()>>;

    /// Waits until no other process is refreshing the tokens of a key, and blocks others until the lock is dropped.
    /// Tokens used by a single process need no lock.
    fn lock(&self, key: &str) -> BoxFuture<'_, io::Result<Option<TokenLock>>> {
        let _ = key;
        Box::pin(async { Ok(None) })
    }
}

/// Guard that prevents others from refreshing the same tokens until it is dropped.
pub struct TokenLock(CredentialRefreshGuard);

impl TokenLock {
    /// Creates a lock from a value that releases the lock when dropped.
    #[must_use]
    pub fn new(held: impl Send + 'static) -> Self {
        Self(CredentialRefreshGuard::new(held))
    }
}

/// Returns the key of a server's tokens. It depends on the name and the URL, so that an entry of the same name in
/// another project never gets them. It consists of letters, digits, `_`, `-`, and `.` only.
#[must_use]
pub fn token_key(server: &str, url: &str) -> String {
    let digest = Sha256::digest(url);
    let hash: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{server}-{hash}")
}

/// Login state of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginState {
    /// No login required, or authenticated by a header.
    #[default]
    None,
    /// Logged in with a token.
    Ok,
    /// Logged in with a refreshed token.
    Refreshed,
    /// Not logged in: the user has to log in.
    NeedsReauth,
}

/// Stored login of a server.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredLogin {
    state: LoginState,
    pub(super) credentials: StoredCredentials,
    /// Secret of the client, if it has one; required to refresh the tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
}

impl LoginState {
    /// Returns the login state from the stored text of a server.
    #[must_use]
    pub fn from_tokens(text: &str) -> Self {
        serde_json::from_str::<StoredLogin>(text).map_or(Self::NeedsReauth, |stored| stored.state)
    }
}

/// Tokens of one server.
pub(super) struct Store {
    pub(super) key: String,
    pub(super) tokens: Arc<dyn TokenStore>,
    /// Secret of the client, to store with the tokens.
    pub(super) secret: Option<String>,
    /// Redactor that learns the tokens.
    pub(super) redactor: Redactor,
    /// Called when the tokens are refreshed.
    pub(super) on_refresh: Option<OnRefresh>,
}

/// Receives the new login state of a server.
pub(super) type OnRefresh = Box<dyn Fn(LoginState) + Send + Sync>;

type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl Store {
    /// Reads the stored login. Unreadable data counts as missing, so that the user logs in again.
    pub(super) async fn load_login(&self) -> Result<Option<StoredLogin>, AuthError> {
        let text = self.tokens.load(&self.key).await.map_err(|error| store_error(&error))?;
        if let Some(stored) = text.as_ref().and_then(|text| serde_json::from_str(text).ok()) {
            self.redactor.add_value(&stored);
        }
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    async fn store(&self, state: LoginState, credentials: StoredCredentials) -> Result<(), AuthError> {
        let stored = StoredLogin { state, credentials, client_secret: self.secret.clone() };
        let text = serde_json::to_string(&stored)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        self.tokens.save(&self.key, text).await.map_err(|error| store_error(&error))
    }
}

fn store_error(error: &io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

impl CredentialStore for Store {
    fn load<'a: 'b, 'b>(&'a self) -> Stored<'b, Option<StoredCredentials>> {
        Box::pin(async move { Ok(self.load_login().await?.map(|stored| stored.credentials)) })
    }

    fn save<'a: 'b, 'b>(&'a self, credentials: StoredCredentials) -> Stored<'b, ()> {
        Box::pin(async move {
            let state = if self.on_refresh.is_some() { LoginState::Refreshed } else { LoginState::Ok };
            self.store(state, credentials).await?;
            if let Some(on_refresh) = &self.on_refresh {
                on_refresh(state);
            }
            Ok(())
        })
    }

    fn clear<'a: 'b, 'b>(&'a self) -> Stored<'b, ()> {
        Box::pin(async move { self.tokens.clear(&self.key).await.map_err(|error| store_error(&error)) })
    }

    fn on_refresh_token_rejected<'a: 'c, 'b: 'c, 'c>(
        &'a self,
        credentials: &'b StoredCredentials,
    ) -> Stored<'c, ()> {
        Box::pin(async move { self.store(LoginState::NeedsReauth, credentials.clone()).await })
    }

    fn acquire_refresh_guard<'a: 'b, 'b>(&'a self) -> Stored<'b, Option<CredentialRefreshGuard>> {
        Box::pin(async move {
            let lock = self.tokens.lock(&self.key).await.map_err(|error| store_error(&error))?;
            Ok(lock.map(|lock| lock.0))
        })
    }
}
