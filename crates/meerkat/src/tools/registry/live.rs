//! The realm's registry under the newest config that this process has read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meerkat_registry::{Options, Registry, Scopes};

use crate::config::{ConfigError, ConfigService, RegistryConfig};

/// A registry and the config that it follows.
///
/// Callers apply configs that they read at different times, so an older config never replaces a newer one.
pub(super) struct LiveRegistry {
    registry: Registry,
    config: ConfigService,
    /// The newest config, with its generation. Before the first read it is the config of a new realm.
    newest: Mutex<(u64, RegistryConfig)>,
}

impl LiveRegistry {
    pub(super) fn new(registry: Registry, config: ConfigService) -> Self {
        Self { registry, config, newest: Mutex::default() }
    }

    /// Returns the registry, whatever the config says.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Reads the config if it has changed, and applies it.
    pub(super) async fn refresh(&self) -> Result<(), ConfigError> {
        let current = self.config.get().await?;
        if current.generation != self.newest().0 {
            self.apply(current.generation, &current.config.registry);
        }
        Ok(())
    }

    /// Applies a config unless a newer one has already been applied.
    pub(super) fn apply(&self, generation: u64, config: &RegistryConfig) {
        let mut newest = self.newest();
        if generation >= newest.0 {
            *newest = (generation, config.clone());
            // The lock is still held, so the options change in the order of the generations.
            self.registry.set_options(options(config));
        }
    }

    /// Returns the registry with the options of the newest config; `None` if that config disables it.
    pub(super) fn current(&self) -> Option<Registry> {
        let newest = self.newest();
        newest.1.enabled.then(|| self.registry.with_options(options(&newest.1)))
    }

    /// Locks the newest config. It is valid even if a thread panicked while holding the lock.
    fn newest(&self) -> MutexGuard<'_, (u64, RegistryConfig)> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the registry options for a config.
pub(super) fn options(config: &RegistryConfig) -> Options {
    Options {
        scopes: Scopes { skills: config.scopes.skills.clone(), prompts: config.scopes.prompts.clone() },
        timeout: Duration::from_millis(config.state_timeout_ms),
    }
}
