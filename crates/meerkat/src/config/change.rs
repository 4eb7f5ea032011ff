//! What a change makes of a config: what was shown masked or unset stays as it is stored, addresses are addresses,
//! and who may only use the runtime does not decide where its owner's secrets go.

use std::collections::BTreeSet;

use meerkat_core::HookRuntime;
use meerkat_providers::base_url_fault;
use serde_json::{Map, Value};

use super::providers::MASK;
use super::{Config, ConfigAccess, ConfigChange, merge, parse, parts};
use crate::Error;
use crate::providers::is_own_variable;

/// Makes the document that is stored after a change, and its meaning.
pub(super) fn changed(
    stored: Map<String, Value>,
    change: ConfigChange,
    access: ConfigAccess,
) -> Result<(Map<String, Value>, Config), Error> {
    // A document that no longer fits can still be replaced.
    let before = parse(&stored).unwrap_or_default();
    let shown = parts(&before)?;
    let document = match change {
        ConfigChange::Set(mut new) => {
            settle(&mut new, &shown, &stored, Unset::Stays);
            new
        }
        ConfigChange::Patch(mut patch) => {
            settle(&mut patch, &shown, &stored, Unset::IsSet);
            let mut document = stored;
            merge(&mut document, patch);
            document
        }
    };
    let after = parse(&document)?;
    check_addresses(&before, &after)?;
    if access != ConfigAccess::Owner {
        if before.hooks != after.hooks {
            return Err(Error::ConfigProtected { key: "hooks".to_owned() });
        }
        check_secrets(&before, &after)?;
        check_guards(&before, &after)?;
    }
    if access == ConfigAccess::Anonymous {
        check_open(&before, &after)?;
    }
    Ok((document, after))
}

/// What becomes of a value that was not set and is given as it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unset {
    /// It stays unset, where everything that was shown beside it is given too: a copy was made and given back.
    Stays,
    /// It is set.
    IsSet,
}

/// Takes what is given as it was shown for what it stands for.
fn settle(
    new: &mut Map<String, Value>,
    shown: &Map<String, Value>,
    stored: &Map<String, Value>,
    unset: Unset,
) {
    let is_copy =
        unset == Unset::Stays && shown.iter().all(|(key, value)| value.is_null() || new.contains_key(key));
    let nothing = Map::new();
    new.retain(|key, value| match (value, shown.get(key), stored.get(key)) {
        (Value::Object(value), Some(Value::Object(shown)), stored) => {
            settle(value, shown, stored.and_then(Value::as_object).unwrap_or(&nothing), unset);
            true
        }
        (Value::Array(values), Some(Value::Array(shown)), Some(Value::Array(stored))) => {
            settle_list(values, shown, stored);
            true
        }
        (value, Some(shown), Some(stored)) if value == shown => {
            value.clone_from(stored);
            true
        }
        (value, Some(shown), None) if value == shown => !is_copy,
        _ => true,
    });
}

/// Does the same for what is in a list; it is known by its `name` or `id`.
fn settle_list(values: &mut [Value], shown: &[Value], stored: &[Value]) {
    let named = |list: &[Value], key: &str, name: &Value| {
        list.iter().find(|other| other.get(key) == Some(name)).and_then(Value::as_object).cloned()
    };
    for value in values.iter_mut().filter_map(Value::as_object_mut) {
        let known = |key: &'static str| value.get(key).cloned().map(|name| (key, name));
        let Some((key, name)) = known("name").or_else(|| known("id")) else { continue };
        if let (Some(shown), Some(stored)) = (named(shown, key, &name), named(stored, key, &name)) {
            settle(value, &shown, &stored, Unset::IsSet);
        }
    }
}

/// Refuses an address that is none, and a secret that is nobody's. What was stored before stays.
fn check_addresses(before: &Config, after: &Config) -> Result<(), Error> {
    let known: BTreeSet<_> = addresses(before).into_iter().map(|(_, url)| url).collect();
    for (key, url) in addresses(after) {
        if let Some(fault) = base_url_fault(&url).filter(|_| !known.contains(&url)) {
            return Err(Error::Config(format!("`{key}` {fault}")));
        }
    }
    for (index, repository) in after.skills.repositories.iter().enumerate() {
        check_token(&format!("skills.repositories[{index}].auth_token"), repository.auth_token())?;
    }
    for (index, hook) in after.hooks.entries.iter().enumerate() {
        let (what, secrets) = match &hook.runtime {
            HookRuntime::InProcess { .. } => continue,
            HookRuntime::Command { env, .. } => ("env", env),
            HookRuntime::Http { headers, .. } => ("headers", headers),
        };
        for (name, value) in secrets.expose() {
            check_token(&format!("hooks.entries[{index}].runtime.{what}.{name}"), Some(value))?;
        }
    }
    for (name, server) in &after.self_hosted.servers {
        let key = format!("self_hosted.servers.{name}");
        check_token(&format!("{key}.bearer_token"), server.bearer_token.as_deref())?;
        if let Some(variable) = server.bearer_token_env.as_deref().filter(|name| is_own_variable(name)) {
            return Err(Error::Config(format!(
                "`{key}.bearer_token_env`: `{variable}` holds a secret for somebody else; use a variable of the \
                 server's own"
            )));
        }
    }
    Ok(())
}

/// Refuses a mask that stands for nothing.
fn check_token(key: &str, token: Option<&str>) -> Result<(), Error> {
    if token != Some(MASK) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "`{key}` is `{MASK}`, which stands for the token that is stored, and there is none; write the token itself"
    )))
}

fn addresses(config: &Config) -> Vec<(String, String)> {
    let hosted = [
        ("anthropic", &config.providers.anthropic),
        ("openai", &config.providers.openai),
        ("gemini", &config.providers.gemini),
    ];
    let hosted = hosted.into_iter().filter_map(|(name, provider)| {
        Some((format!("providers.{name}.base_url"), provider.base_url.clone()?))
    });
    let servers = config.self_hosted.servers.iter();
    let servers = servers
        .map(|(name, server)| (format!("self_hosted.servers.{name}.base_url"), server.base_url.clone()));
    hosted.chain(servers).collect()
}

/// Something of the owner's, and where it goes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    /// What goes: a provider's key, what a variable or a file holds, a token, or what a source of skills may take.
    what: What,
    place: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Key(&'static str),
    Variable(String),
    Token(String),
    File(String),
    Source(String),
}

/// Refuses a change by which something of the owner's would go where it did not go before. A client's own token
/// may go anywhere.
fn check_secrets(before: &Config, after: &Config) -> Result<(), Error> {
    let before = ways(before);
    let known: BTreeSet<_> = before.iter().map(|(_, way)| way).collect();
    let is_own = |way: &Way| match &way.what {
        What::Token(_) => !before.iter().any(|(_, other)| other.what == way.what),
        What::Key(_) | What::Variable(_) | What::File(_) | What::Source(_) => false,
    };
    match ways(after).into_iter().find(|(_, way)| !known.contains(way) && !is_own(way)) {
        Some((key, _)) => Err(Error::ConfigProtected { key }),
        None => Ok(()),
    }
}

/// Refuses a change of what tools may do without being asked for, and of what they may read: it is the owner's machine.
fn check_guards(before: &Config, after: &Config) -> Result<(), Error> {
    let changed = [
        (before.shell != after.shell, "shell"),
        (before.approvals != after.approvals, "approvals"),
        (before.tools.secrets != after.tools.secrets, "tools.secrets"),
    ];
    let protect = |(_, key): &(bool, &str)| Err(Error::ConfigProtected { key: (*key).to_owned() });
    changed.iter().find(|(changed, _)| *changed).map_or(Ok(()), protect)
}

/// Rejects a change by a client that may be any user of this machine, except of how models answer: neither what is
/// enabled, nor what may be spent, nor what other runs read is theirs to change.
fn check_open(before: &Config, after: &Config) -> Result<(), Error> {
    let mut rest = after.clone();
    rest.models.clone_from(&before.models);
    rest.agent.model.clone_from(&before.agent.model);
    rest.agent.max_tokens_per_turn = before.agent.max_tokens_per_turn;
    rest.agent.temperature = before.agent.temperature;
    rest.agent.structured_output_retries = before.agent.structured_output_retries;
    if rest == *before {
        return Ok(());
    }
    let (before, rest) = (Value::Object(parts(before)?), Value::Object(parts(&rest)?));
    // A masked secret is shown as it was.
    let key = first_difference(&before, &rest, "").unwrap_or_else(|| "self_hosted".to_owned());
    let what = format!("changing `{key}`");
    Err(Error::TokenNeeded { what, instead: "change it with `rkat config`" })
}

/// Returns the path of the first key whose values differ.
fn first_difference(before: &Value, after: &Value, path: &str) -> Option<String> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| path.to_owned());
    };
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    keys.into_iter().find_map(|key| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        first_difference(old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null), &path)
    })
}

fn ways(config: &Config) -> Vec<(String, Way)> {
    let mut ways = Vec::new();
    let hosted = [
        ("anthropic", &config.providers.anthropic),
        ("openai", &config.providers.openai),
        ("gemini", &config.providers.gemini),
    ];
    for (name, provider) in hosted {
        if let Some(url) = &provider.base_url {
            let way = Way { what: What::Key(name), place: url.clone() };
            ways.push((format!("providers.{name}.base_url"), way));
        }
    }
    for (name, server) in &config.self_hosted.servers {
        let key = format!("self_hosted.servers.{name}");
        let place = || server.base_url.clone();
        if let Some(variable) = &server.bearer_token_env {
            let way = Way { what: What::Variable(variable.clone()), place: place() };
            ways.push((format!("{key}.bearer_token_env"), way));
        }
        if let Some(token) = &server.bearer_token {
            let way = Way { what: What::Token(token.clone()), place: place() };
            ways.push((format!("{key}.base_url"), way));
        }
    }
    for (index, repository) in config.skills.repositories.iter().enumerate() {
        // It may name a directory, a variable, a file with a key and where they go, so that it counts as a whole.
        let way = Way { what: What::Source(format!("{repository:?}")), place: String::new() };
        ways.push((format!("skills.repositories[{index}]"), way));
    }
    if let Some(file) = &config.agent.system_prompt_file {
        let way = Way { what: What::File(file.display().to_string()), place: String::new() };
        ways.push(("agent.system_prompt_file".to_owned(), way));
    }
    ways
}
