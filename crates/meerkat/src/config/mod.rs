//! A realm's config: reading, replacing, and patching it. It is always complete and valid.
//!
//! Only keys that were set are stored; defaults are filled in when the config is read. A removed key returns to its
//! default, even if the default has changed since.

mod approvals;
mod change;
mod document;
mod duration;
mod error;
mod hooks;
mod limits;
mod memory;
mod providers;
mod registry;
mod shell;
mod skills;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::{HookSet, OutputSchema, Redactor, at_path, decode, excerpt};
use meerkat_store::{Change, ConfigRow, Guard, Store, Transaction};
use serde_json::{Map, Value};

pub use approvals::ApprovalsConfig;
pub use document::{AgentConfig, BudgetConfig, CompactionConfig, Config, RetryConfig, ToolsConfig};
pub use duration::{CallTimeout, HumanDuration, ParseDurationError};
pub use hooks::HooksConfig;
pub use limits::LimitsConfig;
pub(crate) use limits::MIN_REPLY_BYTES;
pub use memory::{MemoryConfig, MemoryScope};
use providers::MAX_CALL_TIMEOUT_SECS;
pub use providers::{
    ApiStyle, GoogleSearchConfig, ModelsConfig, ProviderConfig, ProviderToolsConfig, ProvidersConfig,
    SelfHostedConfig, SelfHostedModel, SelfHostedServer, SelfHostedTransport, WebSearchConfig,
};
pub use registry::{RegistryConfig, RegistryScopes};
pub use shell::{SandboxMode, SecurityMode, ShellConfig};
pub use skills::{GitRefType, SkillIdentity, SkillRemap, SkillRepository, SkillsConfig};

use crate::records::{self, RecordError, explain_result};
use crate::schema::OutputValidator;

pub use error::ConfigError;

/// A config and its generation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CurrentConfig {
    /// The document, including defaults.
    pub config: Arc<Config>,
    /// Number of changes so far.
    pub generation: u64,
}

/// A change to a config.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigChange {
    /// A new document; omitted keys return to their defaults.
    Set(Map<String, Value>),
    /// An RFC 7396 merge patch.
    Patch(Map<String, Value>),
}

/// Access level of a client that changes a config.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConfigAccess {
    /// A client without a token, which may be any user of this machine. It can use what the owner has enabled, but
    /// cannot enable anything.
    Anonymous,
    /// A client of a server. It cannot change where keys and tokens are sent or which files are read.
    #[default]
    Client,
    /// The owner of the realm.
    Owner,
}

/// The config of one realm.
#[derive(Clone)]
pub struct ConfigService {
    store: Arc<dyn Store>,
    /// The redactor with which secrets of the config are registered when it is read.
    redactor: Redactor,
    /// The program's own config, below that of the realm.
    base: BaseConfig,
    /// The newest config that was read.
    latest: Arc<Mutex<Option<CurrentConfig>>>,
}

/// Config of a program. The keys that are set in the realm override it.
#[derive(Debug, Clone, Default)]
pub(crate) struct BaseConfig {
    document: Map<String, Value>,
    config: Arc<Config>,
}

impl BaseConfig {
    pub(crate) fn new(document: Map<String, Value>) -> Result<Self, ConfigError> {
        let (document, config) = change::apply_change(
            (&Map::new(), Map::new()),
            ConfigChange::Set(document),
            ConfigAccess::Owner,
        )?;
        Ok(Self { document, config: Arc::new(config) })
    }
}

impl fmt::Debug for ConfigService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigService").finish_non_exhaustive()
    }
}

impl ConfigService {
    pub(crate) fn new(store: Arc<dyn Store>, redactor: Redactor, base: BaseConfig) -> Self {
        base.config.register_secrets(&redactor);
        Self { store, redactor, base, latest: Arc::default() }
    }

    /// Reads the config. Parses it only if it has changed since the last time.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or contains a document of a newer version.
    pub async fn get(&self) -> Result<CurrentConfig, ConfigError> {
        let Some(row) = self.store.config().await? else {
            return Ok(CurrentConfig { config: Arc::clone(&self.base.config), generation: 0 });
        };
        if let Some(current) = self.latest().as_ref().filter(|latest| latest.generation == row.generation) {
            return Ok(current.clone());
        }
        let stored = explain_result(&*self.store, stored(&row)).await?;
        let config = parse_over(&self.base.document, stored)?;
        Ok(self.keep(config, row.generation))
    }

    /// Registers the secrets of a config, and keeps it if it is the newest one.
    fn keep(&self, config: Config, generation: u64) -> CurrentConfig {
        config.register_secrets(&self.redactor);
        let current = CurrentConfig { config: Arc::new(config), generation };
        let mut latest = self.latest();
        if latest.as_ref().is_none_or(|latest| latest.generation < generation) {
            *latest = Some(current.clone());
        }
        current
    }

    /// Locks the newest config. It is valid even if a thread panicked while holding the lock.
    fn latest(&self) -> MutexGuard<'_, Option<CurrentConfig>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the config on behalf of its owner. If `expected` is set, the config must still be at that generation.
    /// Values written back as displayed keep their stored form, so a masked token is preserved.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the document is invalid or the generation is stale.
    pub async fn change(
        &self,
        change: ConfigChange,
        expected: Option<u64>,
    ) -> Result<CurrentConfig, ConfigError> {
        self.change_as(ConfigAccess::Owner, change, expected).await
    }

    /// Changes the config like [`Self::change`], with the given access level.
    ///
    /// # Errors
    /// Returns an error like [`Self::change`], or if the access level does not allow the change.
    pub async fn change_as(
        &self,
        access: ConfigAccess,
        change: ConfigChange,
        expected: Option<u64>,
    ) -> Result<CurrentConfig, ConfigError> {
        loop {
            let row = self.store.config().await?;
            let generation = row.as_ref().map_or(0, |row| row.generation);
            let stored = match (row.as_ref().map(stored).transpose(), &change, access) {
                // The owner can replace a document that cannot be read.
                (Err(RecordError::Unreadable { .. }), ConfigChange::Set(_), ConfigAccess::Owner) => {
                    Map::new()
                }
                (stored, ..) => explain_result(&*self.store, stored).await?.unwrap_or_default(),
            };
            let (document, config) =
                change::apply_change((&self.base.document, stored), change.clone(), access)?;
            let bytes = records::encode(&document)?;
            let transaction = Transaction {
                guards: vec![Guard::Generation(expected.unwrap_or(generation))],
                changes: vec![Change::PutConfig(bytes)],
            };
            match self.store.commit(transaction).await {
                Ok(committed) => {
                    return Ok(self.keep(config, committed.generation.unwrap_or(generation + 1)));
                }
                // Another change was committed first; without an expected generation, retry.
                Err(meerkat_store::Error::Generation { .. }) if expected.is_none() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn stored(row: &ConfigRow) -> Result<Map<String, Value>, RecordError> {
    records::decode("config", &row.document)
}

/// Returns a config in its displayed form.
fn to_document(config: &Config) -> Result<Map<String, Value>, ConfigError> {
    match serde_json::to_value(config).map_err(RecordError::Encode)? {
        Value::Object(parts) => Ok(parts),
        other => Err(ConfigError::Invalid(format!("a config is not an object: {other}"))),
    }
}

/// Parses a realm's document over that of the program.
fn parse_over(base: &Map<String, Value>, stored: Map<String, Value>) -> Result<Config, ConfigError> {
    if base.is_empty() {
        return parse(&stored);
    }
    let mut document = base.clone();
    merge(&mut document, stored);
    parse(&document)
}

fn parse(document: &Map<String, Value>) -> Result<Config, ConfigError> {
    let config: Config = decode(Value::Object(document.clone())).map_err(ConfigError::Invalid)?;
    if let Some(path) = list_for_table(document, &to_document(&config)?) {
        return Err(ConfigError::Invalid(at_path(&path, "invalid type: a list, expected a table")));
    }
    if let Some((model, server)) = config.self_hosted.model_without_server() {
        let path = format!("self_hosted.models.{model}.server");
        let text = at_path(&path, &format!("unknown server `{}`", excerpt(server)));
        return Err(ConfigError::Invalid(text));
    }
    if let Some(name) = config.self_hosted.model_with_invalid_timeout() {
        let path = format!("self_hosted.models.{name}.call_timeout_secs");
        let rule = format!("must be from 1 to {MAX_CALL_TIMEOUT_SECS} (30 days)");
        return Err(ConfigError::Invalid(at_path(&path, &rule)));
    }
    if let Some(schema) = config.agent.output_schema.clone() {
        let in_field =
            |error: &dyn std::error::Error| ConfigError::Invalid(format!("`agent.output_schema`: {error}"));
        let schema = OutputSchema::parse(schema).map_err(|error| in_field(&error))?;
        OutputValidator::new(schema).map_err(|error| in_field(&error))?;
    }
    if let Some(text) = config.skills.find_error().or_else(|| config.registry.find_error()) {
        return Err(ConfigError::Invalid(text));
    }
    if let Err(error) = HookSet::new(&config.hooks.entries, Vec::new(), &[]) {
        return Err(ConfigError::Invalid(format!("`hooks.entries`: {error}")));
    }
    match config.find_error() {
        Some((key, rule)) => Err(ConfigError::Invalid(format!("`{key}` {rule}"))),
        None => Ok(config),
    }
}

/// Returns the path of a list in place of a table. Serde would accept its values as the fields, in declaration order.
fn list_for_table(document: &Map<String, Value>, displayed: &Map<String, Value>) -> Option<String> {
    document.iter().find_map(|(key, value)| match (value, displayed.get(key)?) {
        (Value::Array(_), Value::Object(_)) => Some(key.clone()),
        (Value::Object(value), Value::Object(displayed)) => {
            list_for_table(value, displayed).map(|path| format!("{key}.{path}"))
        }
        (Value::Array(values), Value::Array(displayed)) => {
            values.iter().zip(displayed).enumerate().find_map(|(index, pair)| match pair {
                (Value::Array(_), Value::Object(_)) => Some(format!("{key}[{index}]")),
                (Value::Object(value), Value::Object(displayed)) => {
                    list_for_table(value, displayed).map(|path| format!("{key}[{index}].{path}"))
                }
                _ => None,
            })
        }
        _ => None,
    })
}

/// Applies an RFC 7396 merge patch.
pub(crate) fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.shift_remove(&key);
            }
            Value::Object(inner) => {
                let slot = target.entry(key).or_insert_with(|| Value::Object(Map::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(object) = slot {
                    merge(object, inner);
                }
            }
            other => {
                target.insert(key, other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else { panic!("{value}") };
        object
    }

    #[test]
    fn merge_patches_follow_rfc_7396() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({"a": 1}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        ];
        for (target, patch, expected) in cases {
            let mut merged = object(target);
            merge(&mut merged, object(patch.clone()));
            assert_eq!(Value::Object(merged), expected, "{patch}");
        }
    }

    #[test]
    fn invalid_document_is_reported_with_its_path() {
        let error = |document| parse(&object(document)).unwrap_err().to_string();
        assert_eq!(
            error(json!({"agent": {"modle": "x"}})),
            "invalid config: `agent.modle`: unknown field `modle`, expected one of `model`, `max_tokens_per_turn`, \
             `system_prompt`, `system_prompt_file`, `tool_instructions`, `temperature`, `budget_warning_threshold`, \
             `max_turns`, `provider_params`, `output_schema`, `extraction_prompt`, `structured_output_retries`"
        );
        assert_eq!(
            error(json!({"agent": {"max_tokens_per_turn": 0}})),
            "invalid config: `agent.max_tokens_per_turn` must be greater than 0"
        );
        assert_eq!(
            error(json!({"agent": {"max_tokens_per_turn": "many"}})),
            "invalid config: `agent.max_tokens_per_turn`: invalid type: string \"many\", expected a whole number \
             from 0 to 4294967295"
        );
        assert_eq!(
            error(json!({"retry": [1, 1, 1, 1, 1]})),
            "invalid config: `retry`: invalid type: a list, expected a table"
        );
        assert_eq!(
            error(json!({"providers": {"openai": ["http://localhost:1", null]}})),
            "invalid config: `providers.openai`: invalid type: a list, expected a table"
        );
    }
}
