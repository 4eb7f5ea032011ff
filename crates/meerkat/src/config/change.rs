//! Application of config changes: masked or unset values keep their stored form, URLs are validated, and only the owner
//! can change where secrets are sent.

use std::collections::BTreeSet;

use meerkat_core::{HookRuntime, excerpt};
use meerkat_providers::base_url_error;
use serde_json::{Map, Value};

use super::providers::MASK;
use super::{Config, ConfigAccess, ConfigChange, ConfigError, merge, parse_over, to_document};
use crate::request_error::RequestError;
use crate::secrets::is_reserved_variable;

/// Returns the document to store after a change, and the config that it and the program's own result in.
pub(super) fn apply_change(
    (base, stored): (&Map<String, Value>, Map<String, Value>),
    change: ConfigChange,
    access: ConfigAccess,
) -> Result<(Map<String, Value>, Config), ConfigError> {
    let before = match parse_over(base, stored.clone()) {
        // The owner can replace an invalid document. For others, its protections must not return to their defaults.
        Err(_) if access == ConfigAccess::Owner => Config::default(),
        before => before?,
    };
    let displayed = to_document(&before)?;
    let document = match change {
        ConfigChange::Set(mut new) => {
            restore_masked(&mut new, &displayed, &stored, Unset::Keep);
            new
        }
        ConfigChange::Patch(mut patch) => {
            restore_masked(&mut patch, &displayed, &stored, Unset::Set);
            let mut document = stored;
            merge(&mut document, patch);
            document
        }
    };
    let after = parse_over(base, document.clone())?;
    check_urls_and_tokens(&before, &after)?;
    if access != ConfigAccess::Owner {
        if before.hooks != after.hooks {
            return Err(ConfigError::Protected { key: "hooks".to_owned() });
        }
        check_secrets(&before, &after)?;
        check_tool_access(&before, &after)?;
    }
    if access == ConfigAccess::Anonymous {
        check_anonymous(&before, &after)?;
    }
    Ok((document, after))
}

/// Treatment of an unset value that is written back as displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unset {
    /// The value stays unset if all values displayed next to it are written back too, as in an edited copy.
    Keep,
    /// The value is set.
    Set,
}

/// Replaces values that are written back as displayed with their stored form.
fn restore_masked(
    new: &mut Map<String, Value>,
    displayed: &Map<String, Value>,
    stored: &Map<String, Value>,
    unset: Unset,
) {
    let is_copy =
        unset == Unset::Keep && displayed.iter().all(|(key, value)| value.is_null() || new.contains_key(key));
    let empty = Map::new();
    new.retain(|key, value| match (value, displayed.get(key), stored.get(key)) {
        (Value::Object(value), Some(Value::Object(displayed)), stored) => {
            restore_masked(value, displayed, stored.and_then(Value::as_object).unwrap_or(&empty), unset);
            true
        }
        (Value::Array(values), Some(Value::Array(displayed)), Some(Value::Array(stored))) => {
            restore_list(values, displayed, stored);
            true
        }
        (value, Some(displayed), Some(stored)) if value == displayed => {
            value.clone_from(stored);
            true
        }
        (value, Some(displayed), None) if value == displayed => !is_copy,
        _ => true,
    });
}

/// Does the same for the items of a list, matched by `name` or `id`.
fn restore_list(values: &mut [Value], displayed: &[Value], stored: &[Value]) {
    let find = |list: &[Value], key: &str, name: &Value| {
        list.iter().find(|other| other.get(key) == Some(name)).and_then(Value::as_object).cloned()
    };
    for value in values.iter_mut().filter_map(Value::as_object_mut) {
        let identifier = |key: &'static str| value.get(key).cloned().map(|name| (key, name));
        let Some((key, name)) = identifier("name").or_else(|| identifier("id")) else { continue };
        if let (Some(displayed), Some(stored)) = (find(displayed, key, &name), find(stored, key, &name)) {
            restore_masked(value, &displayed, &stored, Unset::Set);
        }
    }
}

/// Rejects invalid URLs, masks without a stored token, and variables that hold other secrets. URLs that were already
/// stored are accepted.
fn check_urls_and_tokens(before: &Config, after: &Config) -> Result<(), ConfigError> {
    let known: BTreeSet<_> = base_urls(before).into_iter().map(|(_, url)| url).collect();
    for (key, url) in base_urls(after) {
        if let Some(error) = base_url_error(&url).filter(|_| !known.contains(&url)) {
            return Err(ConfigError::Invalid(format!("`{}` {error}", excerpt(&key))));
        }
    }
    for (index, repository) in after.skills.repositories.iter().enumerate() {
        check_token(&format!("skills.repositories[{index}].auth_token"), repository.auth_token())?;
    }
    for (index, hook) in after.hooks.entries.iter().enumerate() {
        let (field, secrets) = match &hook.runtime {
            HookRuntime::InProcess { .. } => continue,
            HookRuntime::Command { env, .. } => ("env", env),
            HookRuntime::Http { headers, .. } => ("headers", headers),
        };
        for (name, value) in secrets.expose() {
            check_token(&format!("hooks.entries[{index}].runtime.{field}.{name}"), Some(value))?;
        }
    }
    for (name, server) in &after.self_hosted.servers {
        let key = format!("self_hosted.servers.{name}");
        check_token(&format!("{key}.bearer_token"), server.bearer_token.as_deref())?;
        if let Some(variable) = server.bearer_token_env.as_deref().filter(|name| is_reserved_variable(name)) {
            return Err(ConfigError::Invalid(format!(
                "`{}`: `{}` may hold a secret that is not for this server; use another variable",
                excerpt(&format!("{key}.bearer_token_env")),
                excerpt(variable)
            )));
        }
    }
    Ok(())
}

/// Rejects a mask if no token is stored.
fn check_token(key: &str, token: Option<&str>) -> Result<(), ConfigError> {
    if token != Some(MASK) {
        return Ok(());
    }
    Err(ConfigError::Invalid(format!(
        "`{}` is `{MASK}`, which stands for the stored token, but no token is stored; write the token itself",
        excerpt(key)
    )))
}

fn base_urls(config: &Config) -> Vec<(String, String)> {
    let hosted = config.providers.base_urls();
    let hosted = hosted.map(|(name, url)| (format!("providers.{name}.base_url"), url.clone()));
    let servers = config.self_hosted.servers.iter();
    let servers = servers
        .map(|(name, server)| (format!("self_hosted.servers.{name}.base_url"), server.base_url.clone()));
    hosted.chain(servers).collect()
}

/// A secret of the owner, and its destination.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SecretRoute {
    /// The secret: a provider's key, the value of a variable, the content of a file, a token, or the secrets of a skill
    /// repository.
    secret: Secret,
    destination: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Secret {
    Key(&'static str),
    Variable(String),
    Token(String),
    File(String),
    Source(String),
}

/// Rejects a change that would send a secret of the owner to a new destination. A token supplied by the client may be
/// sent anywhere.
fn check_secrets(before: &Config, after: &Config) -> Result<(), ConfigError> {
    let before = secret_routes(before);
    let known: BTreeSet<_> = before.iter().map(|(_, route)| route).collect();
    let is_new_token = |route: &SecretRoute| match &route.secret {
        Secret::Token(_) => !before.iter().any(|(_, other)| other.secret == route.secret),
        Secret::Key(_) | Secret::Variable(_) | Secret::File(_) | Secret::Source(_) => false,
    };
    match secret_routes(after).into_iter().find(|(_, route)| !known.contains(route) && !is_new_token(route)) {
        Some((key, _)) => Err(ConfigError::Protected { key }),
        None => Ok(()),
    }
}

/// Rejects changes to approvals, the shell, and the files that tools may read: the machine is the owner's.
fn check_tool_access(before: &Config, after: &Config) -> Result<(), ConfigError> {
    let changed = [
        (before.shell != after.shell, "shell"),
        (before.approvals != after.approvals, "approvals"),
        (before.tools.secrets != after.tools.secrets, "tools.secrets"),
    ];
    let protect = |(_, key): &(bool, &str)| Err(ConfigError::Protected { key: (*key).to_owned() });
    changed.iter().find(|(changed, _)| *changed).map_or(Ok(()), protect)
}

/// Rejects changes by an anonymous client, which may be any user of this machine, except to model settings. Such a
/// client cannot change enabled features, budgets, or the input of other runs.
fn check_anonymous(before: &Config, after: &Config) -> Result<(), ConfigError> {
    let mut rest = after.clone();
    rest.models.clone_from(&before.models);
    rest.agent.model.clone_from(&before.agent.model);
    rest.agent.max_tokens_per_turn = before.agent.max_tokens_per_turn;
    rest.agent.temperature = before.agent.temperature;
    rest.agent.structured_output_retries = before.agent.structured_output_retries;
    if rest == *before {
        return Ok(());
    }
    let (before, rest) = (Value::Object(to_document(before)?), Value::Object(to_document(&rest)?));
    // A changed secret is masked, so no difference is visible.
    let key = first_difference(&before, &rest, "").unwrap_or_else(|| "self_hosted".to_owned());
    let what = format!("changing `{}`", excerpt(&key));
    Err(RequestError::TokenNeeded { what, instead: "change it with `rkat config`" }.into())
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

/// Returns where the config sends secrets, with the config key responsible for each route.
fn secret_routes(config: &Config) -> Vec<(String, SecretRoute)> {
    let mut routes = Vec::new();
    for (name, url) in config.providers.base_urls() {
        let route = SecretRoute { secret: Secret::Key(name), destination: url.clone() };
        routes.push((format!("providers.{name}.base_url"), route));
    }
    for (name, server) in &config.self_hosted.servers {
        let key = format!("self_hosted.servers.{name}");
        let destination = || server.base_url.clone();
        if let Some(variable) = &server.bearer_token_env {
            let route =
                SecretRoute { secret: Secret::Variable(variable.clone()), destination: destination() };
            routes.push((format!("{key}.bearer_token_env"), route));
        }
        if let Some(token) = &server.bearer_token {
            let route = SecretRoute { secret: Secret::Token(token.clone()), destination: destination() };
            routes.push((format!("{key}.base_url"), route));
        }
    }
    for (index, repository) in config.skills.repositories.iter().enumerate() {
        // It may contain a directory, a variable, a key file, and their destination, so it is compared as one.
        let route =
            SecretRoute { secret: Secret::Source(format!("{repository:?}")), destination: String::new() };
        routes.push((format!("skills.repositories[{index}]"), route));
    }
    if let Some(file) = &config.agent.system_prompt_file {
        let route =
            SecretRoute { secret: Secret::File(file.display().to_string()), destination: String::new() };
        routes.push(("agent.system_prompt_file".to_owned(), route));
    }
    routes
}
