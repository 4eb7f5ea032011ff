//! What is kept of a login: where, under which key, and how it reaches the library that uses it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use meerkat_core::BoxFuture;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::server::{LoginState, Shared};

/// Keeps the user's tokens, under the keys that [`token_key`] makes. The texts are secrets.
pub trait Tokens: Send + Sync {
    /// Returns what was saved under a key.
    fn load(&self, key: &str) -> BoxFuture<'_, io::Result<Option<String>>>;

    /// Saves a text under a key in place of the one before.
    fn save(&self, key: &str, text: String) -> BoxFuture<'_, io::Result<()>>;

    /// Forgets what was saved under a key.
    fn clear(&self, key: &str) -> BoxFuture<'_, io::Result<()>>;

    /// Waits until nobody else renews the tokens of a key, and keeps others waiting until the lock is dropped.
    /// Tokens that only one process uses need none.
    fn lock(&self, key: &str) -> BoxFuture<'_, io::Result<Option<TokenLock>>> {
        let _ = key;
        Box::pin(async { Ok(None) })
    }
}

/// Keeps others from renewing the same tokens while it is there.
pub struct TokenLock(CredentialRefreshGuard);

impl TokenLock {
    /// Makes a lock of whatever is released by being dropped.
    #[must_use]
    pub fn new(held: impl Send + 'static) -> Self {
        Self(CredentialRefreshGuard::new(held))
    }
}

/// Returns the key of a server's tokens: they are for one name at one address, so that an entry of the same name
/// in another project never gets them. It has letters, digits, `_`, `-` and `.` only.
#[must_use]
pub fn token_key(server: &str, url: &str) -> String {
    let digest = Sha256::digest(url);
    let hash: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{server}-{hash}")
}

/// What is kept for a server.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    state: LoginState,
    pub(super) credentials: StoredCredentials,
    /// The secret of a client that has one; without it, nothing is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
}

impl LoginState {
    /// Says how a server knows the user, from what is kept for it.
    #[must_use]
    pub fn of_tokens(text: &str) -> Self {
        serde_json::from_str::<Kept>(text).map_or(Self::NeedsReauth, |kept| kept.state)
    }
}

/// The tokens of one server.
pub(super) struct Store {
    pub(super) key: String,
    pub(super) tokens: Arc<dyn Tokens>,
    /// The secret of the client, to be kept with the tokens.
    pub(super) secret: Option<String>,
    /// Who is told when tokens were renewed.
    pub(super) renewed: Option<Arc<Shared>>,
}

type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl Store {
    /// Reads what is kept. What cannot be read is as good as nothing: the user logs in again.
    pub(super) async fn kept(&self) -> Result<Option<Kept>, AuthError> {
        let text = self.tokens.load(&self.key).await.map_err(|error| store_error(&error))?;
        if let (Some(text), Some(shared)) = (&text, &self.renewed)
            && let Ok(kept) = serde_json::from_str(text)
        {
            shared.redactor.learn_value(&kept);
        }
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    async fn keep(&self, state: LoginState, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = Kept { state, credentials, client_secret: self.secret.clone() };
        let text = serde_json::to_string(&kept)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        self.tokens.save(&self.key, text).await.map_err(|error| store_error(&error))
    }
}

fn store_error(error: &io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

impl CredentialStore for Store {
    fn load<'a, 'b>(&'a self) -> Stored<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { Ok(self.kept().await?.map(|kept| kept.credentials)) })
    }

    fn save<'a, 'b>(&'a self, credentials: StoredCredentials) -> Stored<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let state = if self.renewed.is_some() { LoginState::Refreshed } else { LoginState::Ok };
            self.keep(state, credentials).await?;
            if let Some(shared) = &self.renewed {
                shared.set_login(state);
            }
            Ok(())
        })
    }

    fn clear<'a, 'b>(&'a self) -> Stored<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.tokens.clear(&self.key).await.map_err(|error| store_error(&error)) })
    }

    fn on_refresh_token_rejected<'a, 'b, 'c>(&'a self, credentials: &'b StoredCredentials) -> Stored<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move { self.keep(LoginState::NeedsReauth, credentials.clone()).await })
    }

    fn acquire_refresh_guard<'a, 'b>(&'a self) -> Stored<'b, Option<CredentialRefreshGuard>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let lock = self.tokens.lock(&self.key).await.map_err(|error| store_error(&error))?;
            Ok(lock.map(|lock| lock.0))
        })
    }
}
