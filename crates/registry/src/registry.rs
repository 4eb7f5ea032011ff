//! The registry itself: its eleven functions over a bus.

mod prompts;
mod skills;

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::Clock;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use crate::input::{RegisterPromptInput, RegisterSkillInput, UnregisterPromptInput, UnregisterSkillInput};
use crate::listing::{Entry, Kept, listed};
use crate::subscribers::Subscribers;
use crate::{Bus, BusError, Error, SkillSummary, StoredPrompt, validate};

/// Where the registered content is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    /// Skills.
    pub skills: String,
    /// Prompts.
    pub prompts: String,
}

impl Default for Scopes {
    fn default() -> Self {
        Self { skills: "skills".to_owned(), prompts: "prompts".to_owned() }
    }
}

/// How a registry behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the registered content is kept.
    pub scopes: Scopes,
    /// How long a value may take to be read or kept, and a handler to answer.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { scopes: Scopes::default(), timeout: Duration::from_secs(10) }
    }
}

/// Skills and prompts that programs register. Cloning it is cheap; all clones are the same registry.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    options: Options,
    subscribers: Subscribers,
    skills: Kept<SkillSummary>,
    prompts: Kept<StoredPrompt>,
    changes: watch::Sender<u64>,
}

impl Registry {
    /// Makes a registry.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>, clock: Arc<dyn Clock>, options: Options) -> Self {
        let shared = Shared {
            bus,
            clock,
            options,
            subscribers: Subscribers::default(),
            skills: Kept::default(),
            prompts: Kept::default(),
            changes: watch::channel(0).0,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Calls one of the functions.
    ///
    /// # Errors
    /// Says why it failed, in the words of the function.
    pub async fn call(&self, function: &str, data: Value) -> Result<Value, Error> {
        match function {
            "skills::register" => self.register_skill(input(data)?).await,
            "skills::unregister" => self.unregister_skill(input(data)?).await,
            "skills::list" => self.list_skills(input(data)?).await,
            "skills::resources-list" => self.list_resources(input(data)?).await,
            "skills::resources-read" => self.read_resource(input(data)?).await,
            "skills::resources-templates" => self.list_templates(input(data)?),
            "prompts::register" => self.register_prompt(input(data)?).await,
            "prompts::unregister" => self.unregister_prompt(input(data)?).await,
            "prompts::list" => self.list_prompts(input(data)?).await,
            "prompts::mcp-list" => self.list_prompts_in_full(input(data)?).await,
            "prompts::mcp-get" => self.get_prompt(input(data)?).await,
            other => Err(Error::UnknownFunction(other.to_owned())),
        }
    }

    /// Has a function called whenever a trigger of that type fires. The same id twice is one subscription.
    pub fn subscribe(&self, trigger_type: &str, trigger: &str, function: &str) {
        self.shared.subscribers.add(trigger, trigger_type, function);
    }

    /// Ends a subscription; there may be none.
    pub fn unsubscribe(&self, trigger: &str) {
        self.shared.subscribers.remove(trigger);
    }

    /// Follows the changes that go through this registry: the number grows with each.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Returns how it behaves.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Returns what it is on.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.shared.bus
    }

    fn bus_ref(&self) -> &dyn Bus {
        &*self.shared.bus
    }

    /// Tells everybody of a change. Nobody waits for them.
    fn fire(&self, trigger_type: &str, payload: &Value) {
        self.shared.changes.send_modify(|changes| *changes += 1);
        for function in self.shared.subscribers.of(trigger_type) {
            self.shared.bus.send(&function, payload.clone());
        }
    }

    /// Returns the time as it is stored.
    fn now(&self) -> String {
        let time = format!("{:.9}", self.shared.clock.now());
        format!("{}+00:00", time.trim_end_matches('Z'))
    }

    /// Waits for what keeps values, but not for ever.
    async fn timely<T>(&self, asked: impl Future<Output = Result<T, BusError>>) -> Result<T, BusError> {
        tokio::time::timeout(self.shared.options.timeout, asked).await.unwrap_or(Err(BusError::Timeout))
    }

    /// Lists what is in a scope: what changed since it was last listed, or everything on a bus that cannot tell.
    async fn listing<E: Entry>(&self, scope: &str, kept: &Kept<E>) -> Result<Arc<E::List>, BusError> {
        if let Some(changes) = self.timely(self.bus_ref().changes(scope, kept.revision())).await? {
            return Ok(kept.update(changes));
        }
        let values = self.timely(self.bus_ref().list(scope)).await?;
        Ok(Arc::new(listed::<E>(&values)))
    }

    /// Calls the function behind a section or a prompt.
    async fn trigger(&self, function: &str, data: Value) -> Result<Value, Error> {
        let called = self.shared.bus.call(function, data, self.shared.options.timeout);
        self.timely(called).await.map_err(|source| Error::Trigger { function: function.to_owned(), source })
    }
}

/// Checks what a change is given, before it is sent to a registry elsewhere. Other functions are not checked.
///
/// # Errors
/// Says what the function would say.
pub fn check(function: &str, data: &Value) -> Result<(), Error> {
    match function {
        "skills::register" => validate::skill(&RegisterSkillInput::deserialize(data).map_err(Error::Input)?)?,
        "prompts::register" => {
            validate::prompt(&RegisterPromptInput::deserialize(data).map_err(Error::Input)?)?;
        }
        "skills::unregister" => {
            validate::name("id", &UnregisterSkillInput::deserialize(data).map_err(Error::Input)?.id)?;
        }
        "prompts::unregister" => {
            validate::name("name", &UnregisterPromptInput::deserialize(data).map_err(Error::Input)?.name)?;
        }
        _ => {}
    }
    Ok(())
}

/// Reads the input of a function.
fn input<T: DeserializeOwned>(data: Value) -> Result<T, Error> {
    serde_json::from_value(data).map_err(Error::Input)
}

/// Refuses ids that no program would register and that could be taken for others.
fn refuse_blank(function: &str) -> Result<(), Error> {
    if function.contains(char::is_whitespace) { Err(Error::Blank(function.to_owned())) } else { Ok(()) }
}
