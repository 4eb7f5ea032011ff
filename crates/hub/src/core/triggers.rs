//! Trigger types, and the triggers that wait for them or were placed with their providers.
//!
//! The hub does not fire the triggers of a worker's type; the provider does, with ordinary calls. The hub ensures that
//! the provider knows every active trigger exactly once, and no inactive one.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Effect, Peer, Rights, Subscriber, Workers, parse_payload};
use crate::wire::{Object, RegisterTriggerType};

/// The trigger types and triggers.
#[derive(Debug, Default)]
pub(super) struct Triggers {
    types: BTreeMap<String, TriggerType>,
    triggers: BTreeMap<String, Trigger>,
    /// Number of triggers of each owner.
    counts: HashMap<Peer, usize>,
}

#[derive(Debug, Default)]
struct TriggerType {
    /// The newest last; never empty.
    providers: Vec<Peer>,
    description: String,
    request_format: Option<Value>,
    call_format: Option<Value>,
}

/// A function to call when a trigger fires.
#[derive(Debug)]
pub(super) struct Trigger {
    /// Owner of the trigger; triggers of the hub outlive connections.
    pub(super) owner: Peer,
    pub(super) trigger_type: String,
    pub(super) function_id: String,
    config: String,
    metadata: Option<String>,
    /// The provider that received the trigger.
    placed: Option<Peer>,
}

impl Triggers {
    /// Registers a trigger type of this process.
    pub(super) fn provide_type(&mut self, id: &str, description: &str) {
        let (providers, description) = (vec![Peer::HUB], description.to_owned());
        let offered = TriggerType { providers, description, ..TriggerType::default() };
        self.types.insert(id.to_owned(), offered);
    }

    /// Registers a trigger type of a worker.
    pub(super) fn register_type(&mut self, peer: Peer, new: RegisterTriggerType<'_>) {
        let offered = self.types.entry(new.id).or_default();
        if !offered.providers.contains(&peer) {
            offered.providers.push(peer);
        }
        offered.description = new.description.unwrap_or_default();
        offered.request_format = parse_payload(new.request_format);
        offered.call_format = parse_payload(new.response_format);
    }

    pub(super) fn unregister_type(&mut self, peer: Peer, id: &str) {
        let Some(offered) = self.types.get_mut(id) else { return };
        offered.providers.retain(|provider| *provider != peer);
        if offered.providers.is_empty() {
            self.types.remove(id);
        }
    }

    /// Returns the providers of a type, the newest last.
    pub(super) fn providers(&self, id: &str) -> &[Peer] {
        self.types.get(id).map(|offered| offered.providers.as_slice()).unwrap_or_default()
    }

    /// Returns the types that a worker provides.
    pub(super) fn types_of(&self, peer: Peer) -> Vec<String> {
        let provided = self.types.iter().filter(|(_, offered)| offered.providers.contains(&peer));
        provided.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Trigger> {
        self.triggers.get(id)
    }

    /// Returns the number of triggers of an owner.
    pub(super) fn count(&self, owner: Peer) -> usize {
        self.counts.get(&owner).copied().unwrap_or_default()
    }

    /// Returns the owners of the triggers that call a function.
    pub(super) fn owners(&self, function_id: &str) -> impl Iterator<Item = Peer> {
        let calling = self.triggers.values().filter(move |trigger| trigger.function_id == function_id);
        calling.map(|trigger| trigger.owner)
    }

    /// Returns the triggers of a type of this process.
    pub(super) fn subscribers(&self, trigger_type: &str) -> Vec<Subscriber> {
        let of_type = self.triggers.values().filter(|trigger| trigger.trigger_type == trigger_type);
        of_type.filter(|trigger| trigger.placed == Some(Peer::HUB)).map(Trigger::subscriber).collect()
    }

    /// Returns an error if a worker may not register a trigger. A worker can have up to `limit` triggers.
    pub(super) fn check(
        &self,
        id: &str,
        new: &Trigger,
        rights: Rights<'_>,
        limit: usize,
    ) -> Result<(), String> {
        let Trigger { owner: peer, trigger_type, function_id, .. } = new;
        if rights.workers.grant(*peer).is_some_and(|grant| !grant.may_subscribe(trigger_type)) {
            return Err(format!("trigger type '{trigger_type}' not allowed"));
        }
        if let Some(id) = rights.denied_function(*peer, function_id, &new.config) {
            return Err(format!("function '{id}' not allowed"));
        }
        let known = self.triggers.get(id);
        if known.is_none_or(|known| known.owner != *peer) && self.count(*peer) >= limit {
            return Err(format!("a worker may have at most {limit} triggers"));
        }
        // The same subscription on a new connection belongs to a worker that reconnected.
        let is_taken = known.is_some_and(|known| {
            known.owner != *peer
                && (known.function_id != *function_id
                    || known.trigger_type != *trigger_type
                    || !rights.workers.may_take_over(*peer, known.owner))
        });
        if is_taken { Err("the trigger id belongs to another worker".to_owned()) } else { Ok(()) }
    }

    /// Adds a trigger, or replaces the one with the same id.
    pub(super) fn put(&mut self, id: &str, mut new: Trigger, rights: Rights<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(old) = self.take(id) {
            if old.is_same(&new) {
                // Sent again after a reconnect: the provider knows it already.
                new.placed = old.placed;
            } else if old.trigger_type != new.trigger_type || !new.may_fire(rights) {
                // If the provider receives the new trigger, that replaces the old one.
                effects.extend(old.removal(id));
            }
        }
        effects.extend(new.refresh(id, self.provider(&new.trigger_type), rights));
        *self.counts.entry(new.owner).or_default() += 1;
        self.triggers.insert(id.to_owned(), new);
        effects
    }

    /// Removes a trigger of this owner.
    pub(super) fn remove(&mut self, owner: Peer, id: &str) -> Option<Trigger> {
        self.triggers.get(id).filter(|trigger| trigger.owner == owner)?;
        self.take(id)
    }

    /// Removes the triggers of an owner.
    pub(super) fn remove_all(&mut self, owner: Peer) -> Vec<Effect> {
        self.counts.remove(&owner);
        let removed = self.triggers.extract_if(.., |_, trigger| trigger.owner == owner);
        removed.filter_map(|(id, trigger)| trigger.removal(&id)).collect()
    }

    /// Removes a trigger that its provider rejected; returns the message to its owner.
    pub(super) fn reject(&mut self, provider: Peer, id: &str, error: &RawValue) -> Option<Effect> {
        self.triggers.get(id).filter(|trigger| trigger.placed == Some(provider))?;
        let trigger = self.take(id)?;
        Some(trigger.rejection(id, error.get()))
    }

    fn take(&mut self, id: &str) -> Option<Trigger> {
        let trigger = self.triggers.remove(id)?;
        if let Some(count) = self.counts.get_mut(&trigger.owner) {
            *count = count.saturating_sub(1);
        }
        Some(trigger)
    }

    /// Ensures that only the right providers know the triggers that meet the condition.
    pub(super) fn refresh(
        &mut self,
        rights: Rights<'_>,
        is_concerned: impl Fn(&Trigger) -> bool,
    ) -> Vec<Effect> {
        let Self { types, triggers, .. } = self;
        let provider = |id: &str| types.get(id).and_then(|offered| offered.providers.last()).copied();
        let concerned = triggers.iter_mut().filter(|(_, trigger)| is_concerned(trigger));
        concerned
            .flat_map(|(id, trigger)| trigger.refresh(id, provider(&trigger.trigger_type), rights))
            .collect()
    }

    fn provider(&self, trigger_type: &str) -> Option<Peer> {
        self.providers(trigger_type).last().copied()
    }

    pub(super) fn list_types(&self, workers: &Workers) -> Vec<Value> {
        let rows = self.types.iter().map(|(id, offered)| {
            let provider = offered.providers.last().copied().unwrap_or(Peer::HUB);
            json!({
                "id": id,
                "worker_name": workers.listed_name(provider),
                "description": offered.description,
                "namespace": "default",
                "trigger_request_format": offered.request_format,
                "call_request_format": offered.call_format,
            })
        });
        rows.collect()
    }

    pub(super) fn list(&self, workers: &Workers) -> Vec<Value> {
        let rows = self.triggers.iter().map(|(id, trigger)| {
            let provider = self.provider(&trigger.trigger_type);
            json!({
                "id": id,
                "trigger_type": trigger.trigger_type,
                "function_id": trigger.function_id,
                "worker_name": provider.map(|provider| workers.listed_name(provider)),
                "config": json_of(&trigger.config),
                "config_summary": trigger.config,
                "metadata": trigger.metadata.as_deref().map(json_of),
            })
        });
        rows.collect()
    }

    /// Lists the triggers that call a function.
    pub(super) fn list_of(&self, function_id: &str) -> Value {
        let calling = self.triggers.iter().filter(|(_, trigger)| trigger.function_id == function_id);
        let rows = calling.map(|(id, trigger)| {
            let config = json_of(&trigger.config);
            json!({ "id": id, "trigger_type": trigger.trigger_type, "config": config })
        });
        rows.collect()
    }
}

impl Trigger {
    pub(super) fn new(
        owner: Peer,
        trigger_type: String,
        function_id: String,
        config: String,
        metadata: Option<String>,
    ) -> Self {
        Self { owner, trigger_type, function_id, config, metadata, placed: None }
    }

    fn subscriber(&self) -> Subscriber {
        Subscriber { function_id: self.function_id.clone(), config: self.config.clone() }
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.trigger_type, &self.function_id) == (&other.trigger_type, &other.function_id)
            && (&self.config, &self.metadata) == (&other.config, &other.metadata)
    }

    fn may_fire(&self, rights: Rights<'_>) -> bool {
        // If a newer connection took over a worker's function, the function would be called once too often.
        !rights.functions.is_superseded(self.owner, &self.function_id)
            && rights.denied_function(self.owner, &self.function_id, &self.config).is_none()
    }

    /// Moves the trigger to this provider, unless it may not fire.
    fn refresh(&mut self, id: &str, provider: Option<Peer>, rights: Rights<'_>) -> Vec<Effect> {
        let wanted = provider.filter(|_| self.may_fire(rights));
        if self.placed == wanted {
            return Vec::new();
        }
        let removal = self.removal(id);
        self.placed = wanted;
        removal.into_iter().chain(self.placement(id)).collect()
    }

    /// Returns the effect that notifies the provider of the trigger.
    fn placement(&self, id: &str) -> Option<Effect> {
        let message = self.message("registertrigger", id).raw("config", &self.config);
        let message = message.maybe_raw("metadata", self.metadata.as_deref());
        self.notification(id, message, Some(self.subscriber()))
    }

    /// Returns the effect that notifies the provider that the trigger was removed.
    pub(super) fn removal(&self, id: &str) -> Option<Effect> {
        let message = Object::message("unregistertrigger").text("id", id);
        self.notification(id, message.text("trigger_type", &self.trigger_type), None)
    }

    fn notification(&self, id: &str, message: Object, subscriber: Option<Subscriber>) -> Option<Effect> {
        let (trigger_type, id) = (self.trigger_type.clone(), id.to_owned());
        Some(match self.placed? {
            Peer::HUB => Effect::Subscription { trigger_type, id, subscriber },
            provider => Effect::Send(provider, message.end()),
        })
    }

    /// Returns the message that reports a rejection of the trigger to its owner.
    pub(super) fn rejection(&self, id: &str, error: &str) -> Effect {
        Effect::Send(self.owner, self.message("triggerregistrationresult", id).raw("error", error).end())
    }

    fn message(&self, kind: &str, id: &str) -> Object {
        let message = Object::message(kind).text("id", id);
        message.text("trigger_type", &self.trigger_type).text("function_id", &self.function_id)
    }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
