//! Provider parameters: the defaults of config and model, and what the caller wants on top.
//!
//! Defaults are made anew for every run, so a changed config holds at once; only what the caller said is kept
//! with the session.

use meerkat_core::{ModelInfo, Provider};
use serde_json::{Map, Value, json};

use crate::config::{Config, merge};

/// The keys under which providers' own web search is switched.
const SEARCH_KEYS: [&str; 2] = ["web_search", "google_search"];

/// Returns the parameters of a run's requests.
pub(crate) fn effective(
    info: &ModelInfo,
    config: &Config,
    own: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let mut params = defaults(info, config);
    if let Some(Value::Object(configured)) = &config.agent.provider_params {
        merge(&mut params, configured.clone());
    }
    if let Some(own) = own {
        merge(&mut params, own.clone());
    }
    for key in SEARCH_KEYS {
        if params.get(key) == Some(&Value::Bool(false)) {
            params.shift_remove(key);
        }
    }
    params
}

/// Names the parameters of the caller that this model does not take, and that are not sent.
pub(crate) fn left_out(info: &ModelInfo, own: Option<&Map<String, Value>>) -> Vec<String> {
    const UNKNOWN_TO_OPENAI: [&str; 3] = ["seed", "frequency_penalty", "presence_penalty"];
    let is_left_out = |key: &str| {
        (key == "temperature" && !info.profile.supports_temperature)
            || (info.provider == Provider::OpenAi && UNKNOWN_TO_OPENAI.contains(&key))
    };
    let given = own.into_iter().flatten().filter(|(key, value)| !value.is_null() && is_left_out(key));
    given.map(|(key, _)| format!("`{}` takes no `{key}`; it is left out", info.id)).collect()
}

/// Takes out what would let the model use a tool.
pub(crate) fn without_search(params: &Value) -> Value {
    let mut params = params.clone();
    if let Value::Object(object) = &mut params {
        object.retain(|key, _| !SEARCH_KEYS.contains(&key.as_str()));
    }
    params
}

fn defaults(info: &ModelInfo, config: &Config) -> Map<String, Value> {
    let tools = &config.provider_tools;
    let (on, key, value) = match info.provider {
        Provider::Anthropic => (
            tools.anthropic.web_search,
            "web_search",
            json!({ "type": "web_search_20250305", "name": "web_search" }),
        ),
        Provider::OpenAi => (tools.openai.web_search, "web_search", json!({ "type": "web_search" })),
        Provider::Gemini => (tools.gemini.google_search, "google_search", json!({})),
        Provider::SelfHosted | Provider::Other => return Map::new(),
    };
    if on && info.profile.supports_web_search {
        Map::from_iter([(key.to_owned(), value)])
    } else {
        Map::new()
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::ModelProfile;

    use super::*;

    fn info(provider: Provider, supports_web_search: bool) -> ModelInfo {
        let profile = ModelProfile { supports_web_search, ..ModelProfile::default() };
        ModelInfo { profile, ..ModelInfo::new("m", provider) }
    }

    fn params(provider: Provider, own: &Value) -> Value {
        Value::Object(effective(&info(provider, true), &Config::default(), own.as_object()))
    }

    #[test]
    fn search_is_on_where_the_model_can_and_off_where_somebody_says_so() {
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
    fn the_caller_comes_after_the_config() {
        let mut config = Config::default();
        config.agent.provider_params = Some(json!({"effort": "low", "top_k": 5}));
        let own = json!({"effort": "high", "web_search": {"max_uses": 2}});
        let params = effective(&info(Provider::Anthropic, true), &config, own.as_object());
        let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 2});
        let params = Value::Object(params);
        assert_eq!(params, json!({"web_search": search, "effort": "high", "top_k": 5}));
        assert_eq!(without_search(&params), json!({"effort": "high", "top_k": 5}));
    }

    #[test]
    fn what_a_model_does_not_take_is_named() {
        let own = json!({"seed": 1, "presence_penalty": null, "temperature": 0.5, "effort": "low"});
        let named = |provider| left_out(&info(provider, true), own.as_object());
        let temperature = "`m` takes no `temperature`; it is left out";
        assert_eq!(named(Provider::OpenAi), ["`m` takes no `seed`; it is left out", temperature]);
        assert_eq!(named(Provider::Gemini), [temperature]);
        let mut warm = info(Provider::SelfHosted, false);
        warm.profile.supports_temperature = true;
        assert!(left_out(&warm, own.as_object()).is_empty());
    }
}
