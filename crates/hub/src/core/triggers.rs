//! Trigger types, and the triggers that wait for them or were placed with their providers.
//!
//! The hub does not fire the triggers of a worker's type; the provider does, with ordinary calls. The hub ensures that
//! the provider knows every active trigger exactly once, and no inactive one.

use serde_json::Value;
use serde_json::value::RawValue;

use super::functions::parse_payload;
use super::{Core, Effect, Peer};
use crate::wire::{Formats, Object, RegisterTrigger};

/// Providers of a type, the newest last; never empty.
#[derive(Debug)]
pub(super) struct TriggerType {
    pub(super) providers: Vec<Peer>,
    pub(super) description: String,
    pub(super) request_format: Option<Value>,
    pub(super) call_format: Option<Value>,
}

/// A function to call when a trigger fires.
#[derive(Debug)]
pub(super) struct Trigger {
    /// Owner of the trigger; triggers of the hub outlive connections.
    pub(super) owner: Peer,
    pub(super) trigger_type: String,
    pub(super) function_id: String,
    pub(super) config: String,
    pub(super) metadata: Option<String>,
    /// The provider that received the trigger.
    placed: Option<Peer>,
}

/// A function to call when a trigger type of this process fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) function_id: String,
    pub(crate) config: String,
}

impl Core {
    /// Registers a trigger type of this process.
    pub(crate) fn provide_type(&mut self, id: &str, description: &str) {
        let offered = TriggerType {
            providers: vec![Peer::HUB],
            description: description.to_owned(),
            request_format: None,
            call_format: None,
        };
        self.types.insert(id.to_owned(), offered);
        self.refresh_type(id);
    }

    /// Returns the triggers of a type of this process.
    pub(crate) fn subscribers(&self, trigger_type: &str) -> Vec<Subscriber> {
        let placed = self
            .triggers
            .values()
            .filter(|trigger| trigger.trigger_type == trigger_type && trigger.placed == Some(Peer::HUB));
        placed
            .map(|trigger| Subscriber {
                function_id: trigger.function_id.clone(),
                config: trigger.config.clone(),
            })
            .collect()
    }

    pub(super) fn register_type(
        &mut self,
        peer: Peer,
        id: &str,
        description: Option<String>,
        formats: &Formats<'_>,
    ) {
        if self.grant(peer).is_some_and(|grant| !grant.may_register_types) {
            return self.note(peer, &format!("the trigger type `{id}` is not registered: not allowed"));
        }
        let providers = self.types.get(id).map(|offered| offered.providers.as_slice()).unwrap_or_default();
        let is_taken = providers.iter().any(|provider| !self.is_same_owner(peer, *provider));
        if is_taken && self.grant(peer).is_some() {
            return self.note(peer, &format!("the trigger type `{id}` belongs to another worker"));
        }
        let entry = self.types.entry(id.to_owned()).or_insert_with(|| TriggerType {
            providers: Vec::new(),
            description: String::new(),
            request_format: None,
            call_format: None,
        });
        if entry.providers.last() == Some(&Peer::HUB) {
            return self.note(peer, &format!("the trigger type `{id}` belongs to the hub"));
        }
        if !entry.providers.contains(&peer) {
            entry.providers.push(peer);
        }
        entry.description = description.unwrap_or_default();
        entry.request_format = parse_payload(formats.request);
        entry.call_format = parse_payload(formats.response);
        self.refresh_type(id);
    }

    pub(super) fn unregister_type(&mut self, peer: Peer, id: &str) {
        let Some(offered) = self.types.get_mut(id) else { return };
        offered.providers.retain(|provider| *provider != peer);
        if offered.providers.is_empty() {
            self.types.remove(id);
        }
        self.refresh_type(id);
    }

    pub(super) fn drop_types(&mut self, peer: Peer) {
        let offered: Vec<String> = self.types.keys().cloned().collect();
        for id in offered {
            if self.types.get(&id).is_some_and(|offered| offered.providers.contains(&peer)) {
                self.unregister_type(peer, &id);
            }
        }
    }

    pub(super) fn register_trigger(&mut self, peer: Peer, mut trigger: RegisterTrigger<'_>) {
        trigger.function_id = self.full_id(peer, &trigger.function_id);
        let refusal = self.trigger_rejection(peer, &trigger);
        if let Some(reason) = refusal {
            return self.reject_trigger(peer, &trigger, &reason);
        }
        let id = trigger.id.clone();
        let new = Trigger {
            owner: peer,
            trigger_type: trigger.trigger_type,
            function_id: trigger.function_id,
            config: trigger.config.map_or("{}", RawValue::get).to_owned(),
            metadata: trigger.metadata.map(|raw| raw.get().to_owned()),
            placed: None,
        };
        self.put_trigger(&id, new);
    }

    fn put_trigger(&mut self, id: &str, mut new: Trigger) {
        self.count_trigger(new.owner, 1);
        let old = self.triggers.remove(id);
        if let Some(old) = &old {
            self.count_trigger(old.owner, -1);
            let same = old.trigger_type == new.trigger_type && old.function_id == new.function_id;
            if same && old.config == new.config && old.metadata == new.metadata {
                // Sent again after a reconnect: the provider knows it already.
                new.placed = old.placed;
            } else if old.trigger_type != new.trigger_type || self.is_superseded(new.owner, &new.function_id)
            {
                // If the provider receives the new trigger, that replaces the old one.
                self.displace(id, &old.trigger_type, old.placed);
            }
        }
        self.triggers.insert(id.to_owned(), new);
        self.refresh_trigger(id);
    }

    fn count_trigger(&mut self, owner: Peer, by: isize) {
        if let Some(worker) = self.workers.get_mut(&owner) {
            worker.triggers = worker.triggers.saturating_add_signed(by);
        }
    }

    fn trigger_rejection(&self, peer: Peer, trigger: &RegisterTrigger<'_>) -> Option<String> {
        let worker = self.workers.get(&peer)?;
        let denied = worker.grant.as_ref().is_some_and(|grant| !grant.may_subscribe(&trigger.trigger_type));
        if denied {
            return Some(format!("trigger type '{}' not allowed", trigger.trigger_type));
        }
        let config = trigger.config.map_or("{}", RawValue::get);
        if let Some(id) = self.denied_function(peer, &trigger.function_id, config) {
            return Some(format!("function '{id}' not allowed"));
        }
        let known = self.triggers.get(&trigger.id);
        if known.is_none_or(|known| known.owner != peer) && worker.triggers >= self.limits.triggers {
            return Some(format!("a worker may have at most {} triggers", self.limits.triggers));
        }
        // The same subscription on a new connection belongs to a worker that reconnected.
        let taken = known.is_some_and(|known| {
            known.owner != peer
                && (known.function_id != trigger.function_id
                    || known.trigger_type != trigger.trigger_type
                    || !self.may_take_over(peer, known.owner))
        });
        taken.then(|| "the trigger id belongs to another worker".to_owned())
    }

    fn reject_trigger(&mut self, peer: Peer, trigger: &RegisterTrigger<'_>, reason: &str) {
        let error = Object::new().text("code", "trigger_registration_failed").text("message", reason).end();
        let message = Object::message("triggerregistrationresult")
            .text("id", &trigger.id)
            .text("trigger_type", &trigger.trigger_type)
            .text("function_id", &trigger.function_id)
            .raw("error", &error);
        self.send(peer, message.end());
    }

    /// Adds a trigger that outlives connections.
    pub(super) fn keep_trigger(&mut self, id: &str, trigger_type: &str, function_id: &str, config: &Value) {
        let trigger = Trigger {
            owner: Peer::HUB,
            trigger_type: trigger_type.to_owned(),
            function_id: function_id.to_owned(),
            config: config.to_string(),
            metadata: None,
            placed: None,
        };
        self.put_trigger(id, trigger);
    }

    /// Removes a trigger of this owner; returns `false` if there is none.
    pub(super) fn remove_trigger(&mut self, owner: Peer, id: &str) -> bool {
        if self.triggers.get(id).is_none_or(|trigger| trigger.owner != owner) {
            return false;
        }
        if let Some(trigger) = self.triggers.remove(id) {
            self.count_trigger(owner, -1);
            self.displace(id, &trigger.trigger_type, trigger.placed);
        }
        true
    }

    pub(super) fn unregister_trigger(&mut self, peer: Peer, id: &str) {
        self.remove_trigger(peer, id);
    }

    pub(super) fn drop_triggers(&mut self, peer: Peer) {
        let owned = self.triggers.iter().filter(|(_, trigger)| trigger.owner == peer);
        let ids: Vec<String> = owned.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.remove_trigger(peer, &id);
        }
    }

    /// Handles a provider's rejection of a trigger: notifies the owner and removes the trigger.
    pub(super) fn trigger_result(&mut self, peer: Peer, id: &str, error: Option<&RawValue>) {
        let Some(error) = error else { return };
        let Some(trigger) = self.triggers.get(id).filter(|trigger| trigger.placed == Some(peer)) else {
            return;
        };
        let owner = trigger.owner;
        let message = Object::message("triggerregistrationresult")
            .text("id", id)
            .text("trigger_type", &trigger.trigger_type)
            .text("function_id", &trigger.function_id)
            .raw("error", error.get());
        self.triggers.remove(id);
        self.count_trigger(owner, -1);
        self.send(owner, message.end());
    }

    /// Places the triggers of a type with its current provider.
    fn refresh_type(&mut self, id: &str) {
        self.refresh_where(|trigger| trigger.trigger_type == id);
    }

    /// Updates the triggers that call a function whose owner changed.
    pub(super) fn refresh_function(&mut self, id: &str) {
        self.refresh_where(|trigger| trigger.function_id == id);
    }

    fn refresh_where(&mut self, concerned: impl Fn(&Trigger) -> bool) {
        let found = self.triggers.iter().filter(|(_, trigger)| concerned(trigger));
        let ids: Vec<String> = found.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.refresh_trigger(&id);
        }
    }

    /// Ensures that only the right provider knows the trigger.
    fn refresh_trigger(&mut self, id: &str) {
        let Some(trigger) = self.triggers.get(id) else { return };
        // If a newer connection took over a worker's function, the function would be called once too often.
        let counts = !self.is_superseded(trigger.owner, &trigger.function_id)
            && self.denied_function(trigger.owner, &trigger.function_id, &trigger.config).is_none();
        let provider = self.types.get(&trigger.trigger_type).and_then(|offered| offered.providers.last());
        let wanted = provider.copied().filter(|_| counts);
        let (placed, trigger_type) = (trigger.placed, trigger.trigger_type.clone());
        if placed == wanted {
            return;
        }
        self.displace(id, &trigger_type, placed);
        if let Some(provider) = wanted {
            self.place(id, provider);
        }
        if let Some(trigger) = self.triggers.get_mut(id) {
            trigger.placed = wanted;
        }
    }

    fn place(&mut self, id: &str, provider: Peer) {
        let Some(trigger) = self.triggers.get(id) else { return };
        if provider == Peer::HUB {
            let effect = Effect::Placed {
                trigger_type: trigger.trigger_type.clone(),
                id: id.to_owned(),
                function_id: trigger.function_id.clone(),
                config: trigger.config.clone(),
            };
            return self.effects.push(effect);
        }
        let message = Object::message("registertrigger")
            .text("id", id)
            .text("trigger_type", &trigger.trigger_type)
            .text("function_id", &trigger.function_id)
            .raw("config", &trigger.config)
            .maybe_raw("metadata", trigger.metadata.as_deref());
        self.send(provider, message.end());
    }

    /// Notifies the provider of a trigger that it was removed.
    fn displace(&mut self, id: &str, trigger_type: &str, placed: Option<Peer>) {
        match placed {
            None => {}
            Some(Peer::HUB) => {
                let (trigger_type, id) = (trigger_type.to_owned(), id.to_owned());
                self.effects.push(Effect::Removed { trigger_type, id });
            }
            Some(provider) => {
                let message = Object::message("unregistertrigger").text("id", id);
                self.send(provider, message.text("trigger_type", trigger_type).end());
            }
        }
    }
}
