//! The tables stay consistent, whatever workers do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::{Peer, TestCore, call, function, offer, trigger, untrigger};
use crate::core::BUILTINS;

/// An action of a worker; workers, functions, types, and triggers are few, so that they collide.
#[derive(Debug, Clone)]
enum Deed {
    Come,
    Leave(usize),
    Register(usize, u8),
    Unregister(usize, u8),
    Offer(usize, u8),
    Withdraw(usize, u8),
    Subscribe(usize, u8, u8, u8),
    Unsubscribe(usize, u8),
    Call(usize, u8),
    Answer(usize),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed =
        (0..10u8, any::<usize>(), 0..3u8, 0..2u8, 0..4u8).prop_map(|(kind, who, function, offered, name)| {
            match kind {
                0 => Deed::Come,
                1 => Deed::Leave(who),
                2 => Deed::Register(who, function),
                3 => Deed::Unregister(who, function),
                4 => Deed::Offer(who, offered),
                5 => Deed::Withdraw(who, offered),
                6 => Deed::Subscribe(who, name, offered, function),
                7 => Deed::Unsubscribe(who, name),
                8 => Deed::Call(who, function),
                _ => Deed::Answer(usize::from(name)),
            }
        });
    proptest::collection::vec(deed, 1..80)
}

/// Triggers that providers know and calls in progress, as derived from the messages.
#[derive(Default)]
struct Observed {
    triggers: BTreeMap<Peer, BTreeMap<String, Value>>,
    running: Vec<(Peer, Value)>,
    answered: BTreeMap<String, usize>,
}

impl Observed {
    fn hear(&mut self, sent: Vec<(Peer, Value)>) {
        for (peer, message) in sent {
            let id = message["id"].as_str().unwrap_or_default().to_owned();
            match message["type"].as_str().unwrap() {
                "registertrigger" => drop(self.triggers.entry(peer).or_default().insert(id, message)),
                "unregistertrigger" => drop(self.triggers.entry(peer).or_default().remove(&id)),
                "invokefunction" => self.running.push((peer, message)),
                "invocationresult" => {
                    let call = message["invocation_id"].as_str().unwrap().to_owned();
                    *self.answered.entry(call).or_default() += 1;
                }
                _ => {}
            }
        }
    }
}

fn name(kind: &str, number: u8) -> String {
    format!("{kind}{number}")
}

/// Returns the ids of all functions: those of the hub, and those that workers register.
fn functions() -> impl Iterator<Item = String> {
    (0..3).map(|number| name("f", number)).chain(BUILTINS.iter().map(|(id, _)| (*id).to_owned()))
}

fn check(
    table: &TestCore,
    workers: &[Peer],
    observed: &Observed,
) -> Result<(), proptest::test_runner::TestCaseError> {
    let core = &table.core;
    prop_assert!(workers.iter().all(|peer| core.workers.get(*peer).is_some()));
    let living: BTreeSet<Peer> = workers.iter().copied().chain([Peer::HUB]).collect();
    for id in functions() {
        prop_assert!(core.functions.owners(&id).all(|owner| living.contains(&owner)));
    }
    prop_assert!(core.calls.late(Duration::MAX).iter().all(|(callee, _)| living.contains(callee)));
    // Every connected provider knows exactly the active triggers of its types.
    let mut wanted: BTreeMap<Peer, BTreeSet<String>> = BTreeMap::new();
    for id in (0..4).map(|number| name("x", number)) {
        let Some(trigger) = core.triggers.get(&id) else { continue };
        prop_assert!(living.contains(&trigger.owner));
        let provider = core.triggers.providers(&trigger.trigger_type).last();
        if let Some(provider) =
            provider.filter(|_| !core.functions.is_superseded(trigger.owner, &trigger.function_id))
        {
            wanted.entry(*provider).or_default().insert(id);
        }
    }
    for peer in workers {
        let known =
            observed.triggers.get(peer).map(|known| known.keys().cloned().collect()).unwrap_or_default();
        prop_assert_eq!(wanted.get(peer).cloned().unwrap_or_default(), known);
    }
    Ok(())
}

proptest! {
    #[test]
    fn providers_have_active_triggers_and_calls_end_once(deeds in deeds()) {
        let mut table = TestCore::new();
        let mut observed = Observed::default();
        let mut workers = vec![table.worker(), table.worker()];
        let mut calls = 1000;
        for deed in deeds {
            let pick = |who: usize| workers.get(who % workers.len().max(1)).copied();
            let sent = match deed {
                Deed::Come => {
                    workers.push(table.worker());
                    Vec::new()
                }
                Deed::Leave(who) if !workers.is_empty() => {
                    let peer = workers.remove(who % workers.len());
                    observed.running.retain(|(callee, _)| *callee != peer);
                    table.disconnect(peer)
                }
                Deed::Answer(which) if !observed.running.is_empty() => {
                    let (callee, call_id) = observed.running.remove(which % observed.running.len());
                    table.send(callee, json!({ "type": "invocationresult", "function_id": call_id["function_id"],
                        "invocation_id": call_id["invocation_id"], "result": 1 }))
                }
                Deed::Leave(_) | Deed::Answer(_) => Vec::new(),
                Deed::Register(who, f) => pick(who).map(|peer| table.send(peer, function(&name("f", f)))).unwrap_or_default(),
                Deed::Unregister(who, f) => pick(who).map(|peer| table.send(peer, json!({ "type": "unregisterfunction", "id": name("f", f) }))).unwrap_or_default(),
                Deed::Offer(who, t) => pick(who).map(|peer| table.send(peer, offer(&name("t", t)))).unwrap_or_default(),
                Deed::Withdraw(who, t) => pick(who).map(|peer| table.send(peer, json!({ "type": "unregistertriggertype", "id": name("t", t) }))).unwrap_or_default(),
                Deed::Subscribe(who, x, t, f) => pick(who).map(|peer| table.send(peer, trigger(&name("x", x), &name("t", t), &name("f", f)))).unwrap_or_default(),
                Deed::Unsubscribe(who, x) => pick(who).map(|peer| table.send(peer, untrigger(&name("x", x), "t"))).unwrap_or_default(),
                Deed::Call(who, f) => {
                    calls += 1;
                    pick(who).map(|peer| table.send(peer, call(calls, &name("f", f), Value::Null))).unwrap_or_default()
                }
            };
            observed.hear(sent);
            check(&table, &workers, &observed)?;
        }
        // When all workers have disconnected, nothing is left, and no call was answered twice.
        for peer in workers {
            let sent = table.disconnect(peer);
            observed.hear(sent);
        }
        prop_assert_eq!(table.core.calls.late(Duration::MAX), []);
        prop_assert_eq!(table.core.triggers.list(&table.core.workers), [Value::Null; 0]);
        prop_assert!(functions().all(|id| table.core.functions.owners(&id).all(|owner| owner == Peer::HUB)));
        prop_assert!(observed.answered.values().all(|count| *count == 1));
    }
}
