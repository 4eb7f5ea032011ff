//! Login tokens: one file per server, outside of every project and readable only by the user.

use std::io;
use std::path::{Path, PathBuf};

use meerkat_core::BoxFuture;
use meerkat_mcp::{TokenLock, TokenStore};
use meerkat_store::create_private_dirs;

use super::disk;

/// A directory of tokens.
#[derive(Debug, Clone)]
pub struct TokenDir {
    dir: PathBuf,
}

impl TokenDir {
    /// Stores tokens in `.rkat/mcp-tokens` of the user's home directory.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { dir: home.join(".rkat/mcp-tokens") }
    }

    /// Returns the path of a key's file. Keys contain only characters that every file system supports.
    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }
}

impl TokenStore for TokenDir {
    fn load(&self, key: &str) -> BoxFuture<'_, io::Result<Option<String>>> {
        let path = self.path(key);
        Box::pin(async move { disk::read(&path) })
    }

    fn save(&self, key: &str, text: String) -> BoxFuture<'_, io::Result<()>> {
        let path = self.path(key);
        Box::pin(async move {
            create_private_dirs(&self.dir)?;
            disk::write(&path, &text)
        })
    }

    fn clear(&self, key: &str) -> BoxFuture<'_, io::Result<()>> {
        let path = self.path(key);
        Box::pin(async move {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        })
    }

    fn lock(&self, key: &str) -> BoxFuture<'_, io::Result<Option<TokenLock>>> {
        let path = self.dir.join(format!("{key}.lock"));
        Box::pin(async move {
            create_private_dirs(&self.dir)?;
            let locked = tokio::task::spawn_blocking(move || {
                let file = disk::create_private(&path)?;
                file.lock()?;
                Ok::<_, io::Error>(file)
            });
            let file = locked.await.map_err(io::Error::other)??;
            Ok(Some(TokenLock::new(file)))
        })
    }
}
