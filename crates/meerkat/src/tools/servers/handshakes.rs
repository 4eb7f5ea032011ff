//! Record of MCP servers that never respond to `server/discover`: one empty file per server, whose age is the age of
//! the record.

use std::path::{Path, PathBuf};
use std::time::Duration;

use meerkat_core::BoxFuture;
use meerkat_mcp::HandshakeMemory;

use super::disk;

/// Time after which a server is probed again: it may have been upgraded in place.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A directory of records.
#[derive(Debug, Clone)]
pub(super) struct HandshakeDir {
    dir: PathBuf,
}

impl HandshakeDir {
    /// Stores records in `.rkat/mcp-handshakes` of the user's home directory.
    pub(super) fn new(home: &Path) -> Self {
        Self { dir: home.join(".rkat/mcp-handshakes") }
    }

    /// Runs a file operation on a record on a blocking thread.
    fn with_file<T: Default + Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> BoxFuture<'_, T> {
        let path = self.dir.join(key);
        Box::pin(async move { tokio::task::spawn_blocking(move || work(&path)).await.unwrap_or_default() })
    }
}

impl HandshakeMemory for HandshakeDir {
    fn is_silent(&self, key: &str) -> BoxFuture<'_, bool> {
        self.with_file(key, |path| {
            let age = path.metadata().and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
            matches!(age, Ok(Ok(age)) if age < MAX_AGE)
        })
    }

    fn remember(&self, key: &str) -> BoxFuture<'_, ()> {
        self.with_file(key, |path| {
            // Without the file, the next start takes a few seconds longer.
            let _ = disk::write(path, "");
        })
    }

    fn forget(&self, key: &str) -> BoxFuture<'_, ()> {
        self.with_file(key, |path| {
            let _ = std::fs::remove_file(path);
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use meerkat_mcp::HandshakeMemory as _;
    use meerkat_testkit::Scratch;

    use super::{HandshakeDir, MAX_AGE};

    #[tokio::test]
    async fn record_expires_after_a_week() {
        let home = Scratch::new();
        let memory = HandshakeDir::new(home.path());
        assert!(!memory.is_silent("aa").await);
        memory.remember("aa").await;
        assert!(memory.is_silent("aa").await && !memory.is_silent("bb").await);
        let file = File::options().write(true).open(home.join(".rkat/mcp-handshakes/aa")).unwrap();
        file.set_modified(SystemTime::now() - MAX_AGE).unwrap();
        assert!(!memory.is_silent("aa").await);
        memory.remember("aa").await;
        assert!(memory.is_silent("aa").await);
        memory.forget("aa").await;
        assert!(!memory.is_silent("aa").await);
    }
}
