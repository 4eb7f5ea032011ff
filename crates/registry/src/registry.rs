//! The registry: eleven functions on top of a bus.

mod prompts;
mod skills;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use meerkat_core::Clock;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::descriptor::{PROMPTS_ON_CHANGE, SKILLS_ON_CHANGE};
use crate::input::{UnregisterPromptInput, UnregisterSkillInput};
use crate::listing::{CachedListing, Entry, build_list};
use crate::subscribers::Subscribers;
use crate::{Bus, BusError, Error, Exchange, SkillSummary, StoredPrompt, validate};

/// Field of a stored entry that names its author. Entries of unrestricted callers do not have it.
const OWNER: &str = "owner";

/// A kind of registered content.
#[derive(Clone, Copy)]
struct Content {
    /// Noun for an entry in errors.
    what: &'static str,
    /// Field with the name of an entry.
    key: &'static str,
    /// Trigger type that fires after a change.
    on_change: &'static str,
    scope: fn(&Scopes) -> &str,
}

const SKILL: Content =
    Content { what: "skill", key: "id", on_change: SKILLS_ON_CHANGE, scope: |scopes| &scopes.skills };
const PROMPT: Content =
    Content { what: "prompt", key: "name", on_change: PROMPTS_ON_CHANGE, scope: |scopes| &scopes.prompts };

/// Scopes in which registered content is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    /// Scope of skills.
    pub skills: String,
    /// Scope of prompts.
    pub prompts: String,
}

impl Default for Scopes {
    fn default() -> Self {
        Self { skills: "skills".to_owned(), prompts: "prompts".to_owned() }
    }
}

/// Options of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Scopes in which registered content is stored.
    pub scopes: Scopes,
    /// Timeout for reading or storing a value, and for a handler's response.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { scopes: Scopes::default(), timeout: Duration::from_secs(10) }
    }
}

/// A restricted caller: it may change only its own entries and use only some functions.
#[derive(Clone, Copy)]
pub struct Author<'a> {
    /// Name stored with the entries it registers.
    pub name: &'a str,
    /// Returns `true` if it may change the entries of the author with that name.
    pub may_replace: &'a (dyn Fn(&str) -> bool + Send + Sync),
    /// Returns `true` if a function may be called on its behalf.
    pub may_use: &'a (dyn Fn(&str) -> bool + Send + Sync),
}

/// Skills and prompts registered by workers. Cloning is cheap; all clones share the same registry.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
    /// Options that override the shared ones.
    pinned: Option<Arc<Options>>,
}

struct Shared {
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    options: RwLock<Arc<Options>>,
    subscribers: Subscribers,
    skills: CachedListing<SkillSummary>,
    prompts: CachedListing<StoredPrompt>,
    changes: watch::Sender<u64>,
}

impl Registry {
    /// Creates a registry.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>, clock: Arc<dyn Clock>, options: Options) -> Self {
        let shared = Shared {
            bus,
            clock,
            options: RwLock::new(Arc::new(options)),
            subscribers: Subscribers::default(),
            skills: CachedListing::default(),
            prompts: CachedListing::default(),
            changes: watch::channel(0).0,
        };
        Self { shared: Arc::new(shared), pinned: None }
    }

    /// Calls one of the functions on behalf of an unrestricted caller.
    ///
    /// # Errors
    /// Returns the function's error.
    pub async fn call(&self, function: &str, data: Value) -> Result<Value, Error> {
        self.call_as(None, function, data).await
    }

    /// Calls one of the functions on behalf of an author, or of an unrestricted caller.
    ///
    /// # Errors
    /// Returns an error if the author lacks permission, or the function's error.
    pub async fn call_as(
        &self,
        author: Option<Author<'_>>,
        function: &str,
        data: Value,
    ) -> Result<Value, Error> {
        // The options may change while the call is waiting for the bus.
        let fixed = self.pinned();
        match function {
            "skills::register" => fixed.register_skill(author, input(data)?).await,
            "skills::unregister" => {
                fixed.unregister(SKILL, author, &input::<UnregisterSkillInput>(data)?.id).await
            }
            "skills::list" => fixed.list_skills(input(data)?).await,
            "skills::resources-list" => fixed.list_resources(input(data)?).await,
            "skills::resources-read" => fixed.read_resource(author, input(data)?).await,
            "skills::resources-templates" => fixed.list_templates(input(data)?),
            "prompts::register" => fixed.register_prompt(author, input(data)?).await,
            "prompts::unregister" => {
                fixed.unregister(PROMPT, author, &input::<UnregisterPromptInput>(data)?.name).await
            }
            "prompts::list" => fixed.list_prompts(input(data)?).await,
            "prompts::mcp-list" => fixed.list_prompts_in_full(input(data)?).await,
            "prompts::mcp-get" => fixed.get_prompt(author, input(data)?).await,
            other => Err(Error::UnknownFunction(other.to_owned())),
        }
    }

    /// Subscribes a function to triggers of a type. A subscription with the same id is replaced.
    pub fn subscribe(&self, trigger_type: &str, trigger: &str, function: &str) {
        self.shared.subscribers.add(trigger, trigger_type, function);
    }

    /// Removes a subscription, if it exists.
    pub fn unsubscribe(&self, trigger: &str) {
        self.shared.subscribers.remove(trigger);
    }

    /// Subscribes to changes made through this registry: the number increases with each change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Returns the same registry with its current options: later changes to the options do not affect it.
    #[must_use]
    pub fn pinned(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), pinned: Some(self.options()) }
    }

    /// Returns the same registry with the given options; other clones keep theirs.
    #[must_use]
    pub fn with_options(&self, options: Options) -> Self {
        Self { shared: Arc::clone(&self.shared), pinned: Some(Arc::new(options)) }
    }

    /// Returns the current options.
    #[must_use]
    pub fn options(&self) -> Arc<Options> {
        if let Some(pinned) = &self.pinned {
            return Arc::clone(pinned);
        }
        // The value is valid even if a thread panicked while holding the lock.
        Arc::clone(&self.shared.options.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the options, starting with the next call. Entries in previous scopes stay there. Clones with pinned
    /// options keep them.
    pub fn set_options(&self, options: Options) {
        let mut shared = self.shared.options.write().unwrap_or_else(PoisonError::into_inner);
        if **shared == options {
            return;
        }
        *shared = Arc::new(options);
        drop(shared);
        self.shared.changes.send_modify(|changes| *changes += 1);
    }

    /// Returns the registry's bus.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.shared.bus
    }

    /// Stores an entry with the time, and notifies subscribers.
    async fn register(
        &self,
        content: Content,
        author: Option<Author<'_>>,
        name: &str,
        mut entry: Value,
    ) -> Result<Value, Error> {
        let registered_at = self.now();
        entry["registered_at"] = registered_at.as_str().into();
        self.put(content, author, name, Some(entry)).await?;
        self.fire(content.on_change, &json!({ "op": "register", (content.key): name }));
        Ok(json!({ (content.key): name, "registered_at": registered_at }))
    }

    /// Removes an entry if it exists, and notifies subscribers if it did.
    async fn unregister(
        &self,
        content: Content,
        author: Option<Author<'_>>,
        name: &str,
    ) -> Result<Value, Error> {
        validate::name(content.key, name)?;
        let removed = self.put(content, author, name, None).await?.is_some_and(|value| !value.is_null());
        if removed {
            self.fire(content.on_change, &json!({ "op": "unregister", (content.key): name }));
        }
        Ok(json!({ (content.key): name, "removed": removed }))
    }

    /// Stores an entry, with its author if it has one, or removes it; returns the previous value.
    async fn put(
        &self,
        content: Content,
        author: Option<Author<'_>>,
        name: &str,
        entry: Option<Value>,
    ) -> Result<Option<Value>, Error> {
        let (options, bus) = (self.options(), &self.shared.bus);
        let scope = (content.scope)(&options.scopes);
        let Some(author) = author else {
            return Ok(match entry {
                Some(entry) => self.with_timeout(bus.set(scope, name, entry)).await.map(|()| None)?,
                None => self.with_timeout(bus.delete(scope, name)).await?,
            });
        };
        let allowed = |current: Option<&Value>| match current.filter(|current| !current.is_null()) {
            None => true,
            Some(current) => current.get(OWNER).and_then(Value::as_str).is_some_and(author.may_replace),
        };
        let entry = entry.map(|mut entry| {
            entry[OWNER] = author.name.into();
            entry
        });
        match self.with_timeout(bus.exchange(scope, name, entry, &allowed)).await? {
            Exchange::Done(before) => Ok(before),
            Exchange::Denied => Err(Error::NotOwner { what: content.what, name: name.to_owned() }),
        }
    }

    /// Reads one entry.
    async fn stored<T: DeserializeOwned>(&self, content: Content, name: &str) -> Result<Option<T>, Error> {
        validate::name(content.key, name)?;
        let options = self.options();
        let stored = self.shared.bus.get((content.scope)(&options.scopes), name);
        let stored = self.with_timeout(stored).await?.filter(|value| !value.is_null());
        let undecodable = |source| Error::Stored { what: content.what, name: name.to_owned(), source };
        stored.map(serde_json::from_value).transpose().map_err(undecodable)
    }

    /// Notifies all subscribers of a change, without waiting for them.
    fn fire(&self, trigger_type: &str, payload: &Value) {
        self.shared.changes.send_modify(|changes| *changes += 1);
        for function in self.shared.subscribers.functions_for(trigger_type) {
            self.shared.bus.send(&function, payload.clone());
        }
    }

    /// Returns the current time in the stored format.
    fn now(&self) -> String {
        let time = format!("{:.9}", self.shared.clock.now());
        format!("{}+00:00", time.trim_end_matches('Z'))
    }

    /// Waits for a bus operation, up to the timeout.
    async fn with_timeout<T>(
        &self,
        operation: impl Future<Output = Result<T, BusError>>,
    ) -> Result<T, BusError> {
        tokio::time::timeout(self.options().timeout, operation).await.unwrap_or(Err(BusError::Timeout))
    }

    /// Lists the entries of a scope. Reads only the changes since the last listing, or everything if the bus does not
    /// track changes.
    async fn listing<E: Entry>(
        &self,
        scope: &str,
        cached: &CachedListing<E>,
    ) -> Result<Arc<E::List>, BusError> {
        loop {
            let since = cached.revision(scope);
            let Some(changes) = self.with_timeout(self.shared.bus.changes(scope, since)).await? else {
                break;
            };
            if let Some(list) = cached.update(scope, since, changes) {
                return Ok(list);
            }
        }
        let values = self.with_timeout(self.shared.bus.list(scope)).await?;
        Ok(Arc::new(build_list::<E>(&values)))
    }

    /// Calls the function behind a section or a prompt.
    async fn trigger(&self, function: &str, data: Value) -> Result<Value, Error> {
        let call = self.shared.bus.call(function, data, self.options().timeout);
        self.with_timeout(call)
            .await
            .map_err(|source| Error::Trigger { function: function.to_owned(), source })
    }
}

/// Validates the input of a change before it is sent to a remote registry. Other functions are not checked.
///
/// # Errors
/// Returns the same error as the function.
pub fn check(function: &str, data: &Value) -> Result<(), Error> {
    fn read<'a, T: Deserialize<'a>>(data: &'a Value) -> Result<T, Error> {
        T::deserialize(data).map_err(Error::Input)
    }
    match function {
        "skills::register" => validate::skill(&read(data)?)?,
        "prompts::register" => validate::prompt(&read(data)?)?,
        "skills::unregister" => validate::name("id", &read::<UnregisterSkillInput>(data)?.id)?,
        "prompts::unregister" => validate::name("name", &read::<UnregisterPromptInput>(data)?.name)?,
        _ => {}
    }
    Ok(())
}

/// Deserializes the input of a function.
fn input<T: DeserializeOwned>(data: Value) -> Result<T, Error> {
    serde_json::from_value(data).map_err(Error::Input)
}

/// Rejects function ids with whitespace: no worker registers such ids, and they could be mistaken for others.
fn reject_whitespace(function: &str) -> Result<(), Error> {
    if function.contains(char::is_whitespace) { Err(Error::Blank(function.to_owned())) } else { Ok(()) }
}
