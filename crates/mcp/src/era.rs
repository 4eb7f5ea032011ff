//! Protocol eras of servers, and a cache of detected eras.
//!
//! Within a process, the era of every server is cached. Across processes, only one fact is worth remembering: that a
//! command never responds to `server/discover`, because detecting that again takes seconds at every start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use meerkat_core::BoxFuture;
use sha2::{Digest as _, Sha256};

use crate::config::{ServerConfig, TransportConfig};
use crate::lock;

/// A protocol era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// The era with a handshake, up to revision 2025-11-25.
    Legacy,
    /// The era without a handshake, from revision 2026-07-28.
    Modern,
}

/// Storage across processes for the commands that never respond to `server/discover`. Keys consist of letters and
/// digits only.
///
/// A failure only costs a few seconds at the next start, so errors are not returned.
pub trait HandshakeMemory: Send + Sync {
    /// Returns `true` if the command with this key is remembered.
    fn is_silent(&self, key: &str) -> BoxFuture<'_, bool>;

    /// Remembers the command with this key.
    fn remember(&self, key: &str) -> BoxFuture<'_, ()>;

    /// Forgets the command with this key.
    fn forget(&self, key: &str) -> BoxFuture<'_, ()>;
}

/// Eras of servers, for the lifetime of the process and, with a memory, beyond it.
#[derive(Default)]
pub(crate) struct EraCache {
    known: Mutex<HashMap<String, Era>>,
    memory: Option<Arc<dyn HandshakeMemory>>,
}

impl EraCache {
    pub(crate) fn new(memory: Option<Arc<dyn HandshakeMemory>>) -> Self {
        Self { memory, ..Self::default() }
    }

    pub(crate) async fn get(&self, server: &ServerConfig) -> Option<Era> {
        let known = lock(&self.known).get(&server.name).copied();
        match (known, self.remembered(server)) {
            (Some(era), _) => Some(era),
            (None, Some((memory, key))) => memory.is_silent(&key).await.then_some(Era::Legacy),
            (None, None) => None,
        }
    }

    pub(crate) fn set(&self, server: &ServerConfig, era: Era) {
        lock(&self.known).insert(server.name.clone(), era);
    }

    /// Records that a command did not respond to `server/discover`.
    pub(crate) async fn note_silence(&self, server: &ServerConfig) {
        if let Some((memory, key)) = self.remembered(server) {
            memory.remember(&key).await;
        }
    }

    pub(crate) async fn forget(&self, server: &ServerConfig) {
        let known = lock(&self.known).remove(&server.name);
        if let Some((memory, key)) = self.remembered(server).filter(|_| known != Some(Era::Modern)) {
            memory.forget(&key).await;
        }
    }

    /// Returns the memory and the key of a server with a command. Remote servers always respond.
    fn remembered(&self, server: &ServerConfig) -> Option<(&dyn HandshakeMemory, String)> {
        let TransportConfig::Stdio { command, args, .. } = &server.transport else { return None };
        let mut digest = Sha256::new();
        for word in std::iter::once(command).chain(args) {
            digest.update(word);
            digest.update([0]);
        }
        let key = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Some((self.memory.as_deref()?, key))
    }
}
