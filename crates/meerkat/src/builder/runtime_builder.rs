//! Construction of a runtime step by step.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use meerkat_core::{Provider, Tool as ToolPort};
use meerkat_store::Realm;
use serde_json::{Map, Value, json};

use super::RuntimeOptions;
use crate::Error;
use crate::config::{BaseConfig, merge};
use crate::runtime::Runtime;
use crate::scope::{DefaultRealm, RealmScope, SystemDirs};
use crate::secrets::key_variables;
use crate::tools::{FixedTools, check_tool_names};

/// Builds a [`Runtime`]. Without a key, its agents use the offline model, which needs no network.
#[derive(Default)]
pub struct RuntimeBuilder {
    options: RuntimeOptions,
    tools: Vec<Arc<dyn ToolPort>>,
    keys: BTreeMap<&'static str, String>,
    config: Map<String, Value>,
    scope: RealmScope,
}

impl RuntimeBuilder {
    /// Adds a tool for agents: a [`Tool`](crate::Tool), or your own implementation of
    /// [`ports::Tool`](crate::ports::Tool).
    #[must_use]
    pub fn tool(mut self, tool: impl ToolPort + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Sets a provider's key. Providers without keys of their own are configured with [`Self::config`].
    #[must_use]
    pub fn api_key(mut self, provider: Provider, key: impl Into<String>) -> Self {
        if let Some(variable) = key_variables(provider).first() {
            self.keys.insert(variable, key.into());
        }
        self
    }

    /// Sets a function that looks up keys and tokens by the names of their environment variables, such as
    /// `|name| std::env::var(name).ok()`.
    #[must_use]
    pub fn secrets(mut self, source: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.options.secrets = Some(Arc::new(source));
        self
    }

    /// Sets the URL of a provider's API.
    #[must_use]
    pub fn base_url(self, provider: Provider, url: impl Into<String>) -> Self {
        self.config(json!({ "providers": { provider.as_str(): { "base_url": url.into() } } }))
    }

    /// Sets the model of new sessions.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        self.config(json!({ "agent": { "model": model.into() } }))
    }

    /// Sets keys of the config, given as an object. Keys that are set in a stored realm override them.
    #[must_use]
    pub fn config(mut self, config: Value) -> Self {
        match config {
            Value::Object(config) => merge(&mut self.config, config),
            // An unknown key is an error of `build`.
            other => drop(self.config.insert("config".to_owned(), other)),
        }
        self
    }

    /// Stores sessions in a directory, which any number of processes may use. Without one, they are in memory. Needs the
    /// feature `session-store`.
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.scope.state_root = Some(dir.into());
        self
    }

    /// Sets the name of the realm in the directory; `default` if it is not set.
    #[must_use]
    pub fn realm(mut self, name: impl Into<String>) -> Self {
        self.scope.realm = Some(name.into());
        self
    }

    /// Changes other options.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut RuntimeOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Opens the realm and creates the runtime. With a directory, this blocks on the file system.
    ///
    /// # Errors
    /// Returns an error if the name of a tool or the config is invalid, or if the realm cannot be opened.
    pub fn build(self) -> Result<Runtime, Error> {
        let Self { mut options, tools, keys, config, mut scope } = self;
        check_tool_names("tools", tools.iter().map(|tool| &*tool.def().name))?;
        if !tools.is_empty() {
            options.tool_sources.push(Arc::new(FixedTools(tools)));
        }
        if !keys.is_empty() {
            let other = options.secrets.take();
            options.secrets = Some(Arc::new(move |name: &str| {
                keys.get(name).cloned().or_else(|| other.as_ref().and_then(|other| other(name)))
            }));
        }
        let base = BaseConfig::new(config)?;
        let realm = if scope.state_root.is_none() {
            Realm::ephemeral(scope.realm.unwrap_or_else(Runtime::generated_realm).parse()?)
        } else {
            scope.realm.get_or_insert_with(|| "default".to_owned());
            Realm::open(scope.options(DefaultRealm::Isolated, &SystemDirs::default(), "embedded")?)?
        };
        Ok(Runtime::assemble(realm, options, base))
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(|tool| &tool.def().name).collect();
        f.debug_struct("RuntimeBuilder")
            .field("tools", &tools)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
