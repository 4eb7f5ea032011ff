//! Provider parameters: defaults from the config and the model, overridden by the caller.
//!
//! Defaults are computed again for every run, so a config change takes effect immediately; only the caller's parameters
//! are stored with the session.

use meerkat_core::{ModelInfo, Provider};
use serde_json::{Map, Value};

use crate::config::{Config, merge};

/// Keys that enable or disable a provider's web search.
const SEARCH_KEYS: [&str; 2] = ["web_search", "google_search"];

/// Other keys for tools that the provider runs.
const SERVER_TOOL_KEYS: [&str; 4] = ["url_context", "code_execution", "web_search_options", "mcp_servers"];

/// Returns the parameters of a run's requests.
pub(crate) fn effective(
    info: &ModelInfo,
    config: &Config,
    overrides: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let mut patch = match &config.agent.provider_params {
        Some(Value::Object(configured)) => configured.clone(),
        _ => Map::new(),
    };
    compose(&mut patch, overrides.cloned().unwrap_or_default());
    let search = search(info, config, &mut patch);
    let mut params = Map::new();
    merge(&mut params, patch);
    params.extend(search);
    params
}

/// Merges a run's parameters into those that its session stores.
///
/// The stored parameters are themselves a patch of the defaults, so `null` is stored. For web search it is stored as
/// `false`, which means the same and survives any merge.
pub(crate) fn merge_stored(stored: &mut Map<String, Value>, mut params: Map<String, Value>) {
    for key in SEARCH_KEYS {
        if let Some(value @ Value::Null) = params.get_mut(key) {
            *value = Value::Bool(false);
        }
    }
    compose(stored, params);
}

/// Drops parameters stored for another provider, except the web search switch. Another provider may reject them or
/// interpret them differently.
pub(crate) fn retain_search_switch(stored: &mut Map<String, Value>) {
    stored.retain(|key, value| SEARCH_KEYS.contains(&key.as_str()) && value.is_boolean());
}

/// Combines two RFC 7396 patches: applying the result is the same as applying the first and then the second.
fn compose(first: &mut Map<String, Value>, second: Map<String, Value>) {
    for (key, value) in second {
        match (first.get_mut(&key), value) {
            (Some(Value::Object(target)), Value::Object(inner)) => compose(target, inner),
            (_, value) => {
                first.insert(key, value);
            }
        }
    }
}

/// Removes the web search switch from the parameters, and returns the provider's search tool if search is on. The other
/// providers' key counts too, unless it holds options, so a session keeps its opt-out when its model changes.
fn search(info: &ModelInfo, config: &Config, patch: &mut Map<String, Value>) -> Option<(String, Value)> {
    let (is_default, key, mut tool) = search_tool(info.provider, config);
    let mut switch = None;
    for search_key in SEARCH_KEYS {
        match patch.shift_remove(search_key) {
            Some(value) if search_key == key => switch = Some(value),
            Some(value @ (Value::Null | Value::Bool(_))) => switch = switch.or(Some(value)),
            Some(_) | None => {}
        }
    }
    match switch {
        None if !is_default => return None,
        None | Some(Value::Bool(true)) if !info.profile.supports_web_search => return None,
        None | Some(Value::Bool(true)) => {}
        Some(Value::Object(options)) => merge(&mut tool, options),
        Some(_) => return None,
    }
    Some((key.to_owned(), Value::Object(tool)))
}

/// Returns warnings for the caller's parameters that this model does not support; they are not sent.
pub(crate) fn unsupported_params(info: &ModelInfo, overrides: Option<&Map<String, Value>>) -> Vec<String> {
    const UNSUPPORTED_BY_OPENAI: [&str; 3] = ["seed", "frequency_penalty", "presence_penalty"];
    let is_unsupported = |key: &str| {
        (key == "temperature" && !info.profile.supports_temperature)
            || (info.provider == Provider::OpenAi && UNSUPPORTED_BY_OPENAI.contains(&key))
    };
    let is_unsupported_search = |key: &str, value: &Value| {
        SEARCH_KEYS.contains(&key) && *value == Value::Bool(true) && !info.profile.supports_web_search
    };
    let unsupported = overrides.into_iter().flatten().filter(|(key, value)| {
        (!value.is_null() && is_unsupported(key)) || is_unsupported_search(key, value)
    });
    unsupported.map(|(key, _)| format!("`{}` does not support `{key}`; ignoring it", info.id)).collect()
}

/// Removes every parameter that lets the provider run a tool.
pub(crate) fn without_tools(mut params: Map<String, Value>) -> Map<String, Value> {
    params.retain(|key, _| !SEARCH_KEYS.iter().chain(&SERVER_TOOL_KEYS).any(|tool_key| tool_key == key));
    params
}

/// Returns a provider's web search: whether it is on by default, the key of its parameter, and the tool.
fn search_tool(provider: Provider, config: &Config) -> (bool, &'static str, Map<String, Value>) {
    let tools = &config.provider_tools;
    let tool = |fields: &[(&str, &str)]| {
        fields.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect()
    };
    match provider {
        Provider::Anthropic => {
            let tool = tool(&[("type", "web_search_20250305"), ("name", "web_search")]);
            (tools.anthropic.web_search, "web_search", tool)
        }
        Provider::OpenAi => (tools.openai.web_search, "web_search", tool(&[("type", "web_search")])),
        Provider::Gemini => (tools.gemini.google_search, "google_search", Map::new()),
        Provider::SelfHosted | Provider::Other => (false, "web_search", Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::ModelProfile;
    use serde_json::json;

    use super::*;

    fn info(provider: Provider, supports_web_search: bool) -> ModelInfo {
        let profile = ModelProfile { supports_web_search, ..ModelProfile::default() };
        ModelInfo { profile, ..ModelInfo::new("m", provider) }
    }

    fn params(provider: Provider, overrides: &Value) -> Value {
        Value::Object(effective(&info(provider, true), &Config::default(), overrides.as_object()))
    }

    #[test]
    fn search_is_on_if_supported_unless_disabled() {
        let anthropic = json!({"web_search": {"type": "web_search_20250305", "name": "web_search"}});
        assert_eq!(params(Provider::Anthropic, &json!({})), anthropic);
        assert_eq!(params(Provider::OpenAi, &json!({})), json!({"web_search": {"type": "web_search"}}));
        assert_eq!(params(Provider::Gemini, &json!({})), json!({"google_search": {}}));
        assert_eq!(params(Provider::SelfHosted, &json!({})), json!({}));
        for off in [json!(null), json!(false)] {
            assert_eq!(params(Provider::Anthropic, &json!({ "web_search": off })), json!({}));
            assert_eq!(params(Provider::Gemini, &json!({ "google_search": off })), json!({}));
        }
        assert!(effective(&info(Provider::OpenAi, false), &Config::default(), None).is_empty());
        let mut config = Config::default();
        config.provider_tools.openai.web_search = false;
        assert!(effective(&info(Provider::OpenAi, true), &config, None).is_empty());
    }

    #[test]
    fn caller_params_override_config() {
        let mut config = Config::default();
        config.agent.provider_params = Some(json!({"effort": "low", "top_k": 5}));
        let overrides = json!({"effort": "high", "web_search": {"max_uses": 2}});
        let params = effective(&info(Provider::Anthropic, true), &config, overrides.as_object());
        let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 2});
        let params = Value::Object(params);
        assert_eq!(params, json!({"web_search": search, "effort": "high", "top_k": 5}));
    }

    #[test]
    fn true_turns_search_on() {
        let mut config = Config::default();
        config.provider_tools.anthropic.web_search = false;
        config.provider_tools.gemini.google_search = false;
        let on = |provider, key: &str| {
            let overrides = json!({ key: true });
            Value::Object(effective(&info(provider, true), &config, overrides.as_object()))
        };
        let anthropic = json!({"web_search": {"type": "web_search_20250305", "name": "web_search"}});
        assert_eq!(on(Provider::Anthropic, "web_search"), anthropic);
        assert_eq!(on(Provider::OpenAi, "web_search"), json!({"web_search": {"type": "web_search"}}));
        assert_eq!(on(Provider::Gemini, "google_search"), json!({"google_search": {}}));
        assert_eq!(on(Provider::Gemini, "web_search"), json!({"google_search": {}}));
        assert_eq!(on(Provider::SelfHosted, "web_search"), json!({"web_search": {}}));
        let overrides = json!({"web_search": true});
        let unsupporting = info(Provider::Anthropic, false);
        assert!(effective(&unsupporting, &config, overrides.as_object()).is_empty());
        assert_eq!(
            unsupported_params(&unsupporting, overrides.as_object()),
            ["`m` does not support `web_search`; ignoring it"]
        );
    }

    #[test]
    fn opt_out_of_search_holds_for_every_provider() {
        for key in SEARCH_KEYS {
            for provider in [Provider::Anthropic, Provider::OpenAi, Provider::Gemini] {
                assert_eq!(params(provider, &json!({ key: false })), json!({}), "{provider} {key}");
            }
        }
        let overrides = json!({"web_search": false, "google_search": {"time": "day"}});
        assert_eq!(params(Provider::Gemini, &overrides), json!({"google_search": {"time": "day"}}));
        assert_eq!(params(Provider::Anthropic, &overrides), json!({}));
    }

    #[test]
    fn stored_params_are_merged() {
        let mut stored = Map::new();
        let mut merge = |params: Value| {
            let Value::Object(params) = params else { panic!("{params}") };
            merge_stored(&mut stored, params);
            Value::Object(stored.clone())
        };
        assert_eq!(
            merge(json!({"web_search": null, "a": {"b": 1}})),
            json!({"web_search": false, "a": {"b": 1}})
        );
        let merged = json!({"web_search": false, "a": {"b": 1, "c": null}, "top_k": null});
        assert_eq!(merge(json!({"a": {"c": null}, "top_k": null})), merged);
        assert_eq!(merge(json!({"web_search": {"max_uses": 2}}))["web_search"], json!({"max_uses": 2}));
        let mut config = Config::default();
        config.agent.provider_params = Some(json!({"top_k": 5, "a": {"c": 2, "d": 3}}));
        let sent = effective(&info(Provider::Anthropic, true), &config, Some(&stored));
        let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 2});
        assert_eq!(Value::Object(sent), json!({"web_search": search, "a": {"b": 1, "d": 3}}));
    }

    #[test]
    fn another_provider_keeps_only_the_search_switch() {
        let stored = json!({"web_search": false, "google_search": {}, "thinking_budget": 2048});
        let Value::Object(mut stored) = stored else { panic!("{stored}") };
        retain_search_switch(&mut stored);
        assert_eq!(Value::Object(stored), json!({"web_search": false}));
    }

    #[test]
    fn without_tools_keeps_everything_else() {
        let params = json!({
            "web_search": {}, "google_search": {}, "url_context": {}, "code_execution": {},
            "web_search_options": {}, "mcp_servers": [], "effort": "high",
        });
        let Value::Object(params) = params else { panic!("{params}") };
        assert_eq!(Value::Object(without_tools(params)), json!({"effort": "high"}));
    }

    #[test]
    fn unsupported_params_are_reported() {
        let overrides = json!({"seed": 1, "presence_penalty": null, "temperature": 0.5, "effort": "low"});
        let warnings = |provider| unsupported_params(&info(provider, true), overrides.as_object());
        let temperature = "`m` does not support `temperature`; ignoring it";
        assert_eq!(warnings(Provider::OpenAi), ["`m` does not support `seed`; ignoring it", temperature]);
        assert_eq!(warnings(Provider::Gemini), [temperature]);
        let mut supporting = info(Provider::SelfHosted, false);
        supporting.profile.supports_temperature = true;
        assert!(unsupported_params(&supporting, overrides.as_object()).is_empty());
    }
}
