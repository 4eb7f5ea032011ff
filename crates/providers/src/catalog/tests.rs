use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn entry(id: &str) -> &'static CatalogEntry {
    Catalog::built_in().find(id).unwrap()
}

fn entries() -> impl Iterator<Item = &'static CatalogEntry> {
    Catalog::built_in().providers.iter().flat_map(|group| &group.models)
}

#[test]
fn catalog_file_is_valid_and_consistent() {
    let catalog = read(include_str!("models.json")).unwrap();
    let providers: Vec<_> = catalog.providers.iter().map(|group| group.provider).collect();
    assert_eq!(providers, [Provider::Anthropic, Provider::OpenAi, Provider::Gemini]);
    let mut ids = BTreeSet::new();
    for entry in entries() {
        assert!(ids.insert(&entry.id), "{} is listed twice", entry.id);
        assert_eq!(Catalog::provider_of_prefix(&entry.id), Some(entry.provider), "{}", entry.id);
        assert!(u64::from(entry.max_output_tokens) <= entry.context_window, "{}", entry.id);
        assert!(entry.call_timeout_secs > 0, "{}", entry.id);
        if let Some(target) = &entry.alias_of {
            let target = self::entry(target);
            let renamed = CatalogEntry {
                id: entry.id.clone(),
                display_name: entry.display_name.clone(),
                alias_of: entry.alias_of.clone(),
                ..target.clone()
            };
            assert_eq!(&renamed, entry);
        }
    }
    for group in &catalog.providers {
        let default = catalog.default_model(group.provider).unwrap();
        assert!(default.serves_runs() && default.alias_of.is_none(), "{}", default.id);
    }
}

#[test]
fn every_parameter_has_allowed_values() {
    for entry in entries() {
        let takes = |param| entry.params.contains(&param);
        let effort = [params::Param::Effort, params::Param::ReasoningEffort, params::Param::ThinkingLevel]
            .into_iter()
            .any(takes);
        assert_eq!(effort, !entry.efforts.is_empty(), "{}", entry.id);
        assert_eq!(entry.provider == Provider::Anthropic, !entry.thinking.is_empty(), "{}", entry.id);
        let schema = params_schema(entry);
        assert!(jsonschema::meta::is_valid(&schema), "{}", entry.id);
        assert_eq!(schema["additionalProperties"], json!(false), "{}", entry.id);
    }
}

#[test]
fn groups_are_ordered_and_name_their_defaults() {
    let groups = Catalog::built_in().groups();
    let names: Vec<_> = groups.iter().map(|group| group.default_model_id.as_str()).collect();
    assert_eq!(names, ["claude-opus-4-7", "gpt-5.5", "gemini-3-flash-preview"]);
    for group in groups {
        assert!(group.models.is_sorted_by(|a, b| a.id < b.id), "{}", group.provider);
    }
}

#[test]
fn capabilities_follow_the_provider() {
    for entry in entries() {
        let profile = entry.info().profile;
        assert!(profile.vision, "{}", entry.id);
        assert_eq!(profile.image_tool_results, entry.provider != Provider::OpenAi, "{}", entry.id);
        assert_eq!(profile.inline_video, entry.provider == Provider::Gemini, "{}", entry.id);
        assert_eq!(entry.serves_runs(), entry.id != "gpt-realtime-2", "{}", entry.id);
        let searches = entry.id != "gpt-realtime-2" && entry.model_family != "codex";
        assert_eq!(profile.supports_web_search, searches, "{}", entry.id);
        assert_eq!(entry.betas.is_empty(), entry.provider != Provider::Anthropic, "{}", entry.id);
    }
}

#[test]
fn entry_serializes_to_its_public_form() {
    let schema = json!({
        "type": "object",
        "properties": {
            "thinking": {
                "type": "object",
                "properties": { "type": { "type": "string", "enum": ["adaptive"] } },
                "required": ["type"],
                "additionalProperties": false,
            },
            "effort": { "type": "string", "enum": ["low", "medium", "high", "xhigh", "max"] },
            "inference_geo": { "type": "string" },
            "compaction": {},
        },
        "additionalProperties": false,
    });
    let beta = |feature: &str, value: &str| json!({ "feature": feature, "header_name": "anthropic-beta", "header_value": value });
    let expected = json!({
        "id": "claude-opus-4-7",
        "display_name": "Claude Opus 4.7",
        "tier": "recommended",
        "context_window": 1_000_000,
        "max_output_tokens": 128_000,
        "profile": {
            "model_family": "claude-opus-4",
            "supports_temperature": false,
            "supports_thinking": true,
            "supports_reasoning": false,
            "params_schema": schema,
            "supports_web_search": true,
            "vision": true,
            "image_input": true,
            "image_tool_results": true,
            "inline_video": false,
            "realtime": false,
            "image_generation": false,
            "beta_headers": [
                beta("compaction", "compact-2026-01-12"),
                beta("structured_output", "structured-outputs-2025-11-13"),
                beta("interleaved_thinking", "interleaved-thinking-2025-05-14"),
            ],
        },
    });
    assert_eq!(serde_json::to_value(entry("claude-opus-4-7").view()).unwrap(), expected);
}

#[test]
fn provider_is_detected_by_name_prefix() {
    let cases = [
        ("claude-next-9", Some(Provider::Anthropic)),
        ("gpt-9", Some(Provider::OpenAi)),
        ("chatgpt-4o-latest", Some(Provider::OpenAi)),
        ("o1", Some(Provider::OpenAi)),
        ("o3-mini", Some(Provider::OpenAi)),
        ("o3x", None),
        ("gemini-9-pro", Some(Provider::Gemini)),
        ("llama-3", None),
        ("Claude-3", None),
        ("", None),
    ];
    for (id, provider) in cases {
        assert_eq!(Catalog::provider_of_prefix(id), provider, "{id}");
    }
}

#[test]
fn unknown_model_resembles_the_default() {
    let catalog = Catalog::built_in();
    let info = catalog.info("gpt-9", Provider::OpenAi);
    let default = entry("gpt-5.5").info();
    let expected = ModelInfo {
        profile: default.profile,
        call_timeout: default.call_timeout,
        ..ModelInfo::new("gpt-9", Provider::OpenAi)
    };
    assert_eq!(info, expected);
    assert_eq!(catalog.info("gpt-5.4", Provider::OpenAi), entry("gpt-5.4").info());
    let own = catalog.info("gpt-5.4", Provider::SelfHosted);
    assert_eq!(
        (own.provider, own.context_window, own.profile.supports_temperature),
        (Provider::SelfHosted, None, true)
    );
    assert_eq!(catalog.info("offline", Provider::Other), ModelInfo::new("offline", Provider::Other));
}
