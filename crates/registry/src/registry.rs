//! The registry itself: its eleven functions over a bus.

mod prompts;
mod skills;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use meerkat_core::Clock;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use crate::input::{RegisterPromptInput, RegisterSkillInput, UnregisterPromptInput, UnregisterSkillInput};
use crate::listing::{Entry, Kept, listed};
use crate::subscribers::Subscribers;
use crate::{Bus, BusError, Error, Exchange, SkillSummary, StoredPrompt, validate};

/// The field of a stored entry that names its author. Entries of callers that may do everything have none.
const OWNER: &str = "owner";

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

/// A caller that may only change what it registered itself, and only use some functions.
#[derive(Clone, Copy)]
pub struct Author<'a> {
    /// The name that is stored with what it registers.
    pub name: &'a str,
    /// Returns true if it may change what the author of that name registered.
    pub may_replace: &'a (dyn Fn(&str) -> bool + Send + Sync),
    /// Returns true if a function may be called on its behalf.
    pub may_use: &'a (dyn Fn(&str) -> bool + Send + Sync),
}

/// Skills and prompts that programs register. Cloning it is cheap; all clones are the same registry.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
    /// Options that count instead of the shared ones.
    pinned: Option<Arc<Options>>,
}

struct Shared {
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    options: RwLock<Arc<Options>>,
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
            options: RwLock::new(Arc::new(options)),
            subscribers: Subscribers::default(),
            skills: Kept::default(),
            prompts: Kept::default(),
            changes: watch::channel(0).0,
        };
        Self { shared: Arc::new(shared), pinned: None }
    }

    /// Calls one of the functions, for a caller that may do everything.
    ///
    /// # Errors
    /// Says why it failed, in the words of the function.
    pub async fn call(&self, function: &str, data: Value) -> Result<Value, Error> {
        self.call_as(None, function, data).await
    }

    /// Calls one of the functions, for a caller that may do everything or for an author.
    ///
    /// # Errors
    /// Returns an error if the author may not do it; else says why it failed, in the words of the function.
    pub async fn call_as(
        &self,
        author: Option<Author<'_>>,
        function: &str,
        data: Value,
    ) -> Result<Value, Error> {
        // The options may change while the call waits for the bus.
        let fixed = self.pinned();
        match function {
            "skills::register" => fixed.register_skill(author, input(data)?).await,
            "skills::unregister" => fixed.unregister_skill(author, input(data)?).await,
            "skills::list" => fixed.list_skills(input(data)?).await,
            "skills::resources-list" => fixed.list_resources(input(data)?).await,
            "skills::resources-read" => fixed.read_resource(author, input(data)?).await,
            "skills::resources-templates" => fixed.list_templates(input(data)?),
            "prompts::register" => fixed.register_prompt(author, input(data)?).await,
            "prompts::unregister" => fixed.unregister_prompt(author, input(data)?).await,
            "prompts::list" => fixed.list_prompts(input(data)?).await,
            "prompts::mcp-list" => fixed.list_prompts_in_full(input(data)?).await,
            "prompts::mcp-get" => fixed.get_prompt(author, input(data)?).await,
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

    /// Returns the same registry with the options of this moment: later changes of the options do not affect it.
    #[must_use]
    pub fn pinned(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), pinned: Some(self.options()) }
    }

    /// Returns the same registry with these options; all other clones keep theirs.
    #[must_use]
    pub fn with_options(&self, options: Options) -> Self {
        Self { shared: Arc::clone(&self.shared), pinned: Some(Arc::new(options)) }
    }

    /// Returns how it behaves now.
    #[must_use]
    pub fn options(&self) -> Arc<Options> {
        if let Some(pinned) = &self.pinned {
            return Arc::clone(pinned);
        }
        // A value is whole whatever panicked while it was locked.
        Arc::clone(&self.shared.options.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes how it behaves, from the next call on. What is in scopes that it leaves stays there. Clones with options
    /// of their own keep them.
    pub fn set_options(&self, options: Options) {
        let mut shared = self.shared.options.write().unwrap_or_else(PoisonError::into_inner);
        if **shared == options {
            return;
        }
        *shared = Arc::new(options);
        drop(shared);
        self.shared.changes.send_modify(|changes| *changes += 1);
    }

    /// Returns what it is on.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.shared.bus
    }

    fn bus_ref(&self) -> &dyn Bus {
        &*self.shared.bus
    }

    /// Stores an entry, with its author if it has one, or removes it; returns what was there before.
    async fn put(
        &self,
        scope: &str,
        (what, name): (&'static str, &str),
        entry: Option<Value>,
        author: Option<Author<'_>>,
    ) -> Result<Option<Value>, Error> {
        let Some(author) = author else {
            return Ok(match entry {
                Some(entry) => self.timely(self.bus_ref().set(scope, name, entry)).await.map(|()| None)?,
                None => self.timely(self.bus_ref().delete(scope, name)).await?,
            });
        };
        let allowed = |found: Option<&Value>| match found.filter(|found| !found.is_null()) {
            None => true,
            Some(found) => found.get(OWNER).and_then(Value::as_str).is_some_and(author.may_replace),
        };
        let entry = entry.map(|mut entry| {
            entry[OWNER] = author.name.into();
            entry
        });
        match self.timely(self.bus_ref().exchange(scope, name, entry, &allowed)).await? {
            Exchange::Done(before) => Ok(before),
            Exchange::Denied => Err(Error::NotOwner { what, name: name.to_owned() }),
        }
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
        tokio::time::timeout(self.options().timeout, asked).await.unwrap_or(Err(BusError::Timeout))
    }

    /// Lists what is in a scope: what changed since it was last listed, or everything on a bus that cannot tell.
    async fn listing<E: Entry>(&self, scope: &str, kept: &Kept<E>) -> Result<Arc<E::List>, BusError> {
        loop {
            let since = kept.revision(scope);
            let Some(changes) = self.timely(self.bus_ref().changes(scope, since)).await? else { break };
            if let Some(list) = kept.update(scope, since, changes) {
                return Ok(list);
            }
        }
        let values = self.timely(self.bus_ref().list(scope)).await?;
        Ok(Arc::new(listed::<E>(&values)))
    }

    /// Calls the function behind a section or a prompt.
    async fn trigger(&self, function: &str, data: Value) -> Result<Value, Error> {
        let called = self.shared.bus.call(function, data, self.options().timeout);
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
