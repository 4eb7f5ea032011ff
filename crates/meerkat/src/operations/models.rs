//! `meerkat_models_catalog`.

use meerkat_core::{ModelProfile, Provider};
use meerkat_providers::{Catalog, ModelEntry, ProfileEntry, ProviderGroup};
use schemars::JsonSchema;
use serde::Serialize;

use super::capabilities::NoInput;
use super::{Call, Impact, Operation};
use crate::Error;
use crate::config::{SelfHostedConfig, SelfHostedModel};

/// `meerkat_models_catalog`.
pub struct Models;

/// Available models by provider.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModelsReply {
    /// Contract version.
    pub contract_version: String,
    /// The providers and their models.
    pub providers: Vec<ProviderGroup>,
}

impl Operation for Models {
    const NAME: &'static str = "meerkat_models_catalog";
    const TITLE: &'static str = "List models";
    const DOC: &'static str = "List the models that sessions can use, by provider, with the capabilities and \
        provider_params of each. Includes self-hosted models from the config.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = NoInput;
    type Output = ModelsReply;

    async fn call(call: Call, _: NoInput) -> Result<ModelsReply, Error> {
        let config = call.runtime.config().get().await?.config;
        let version = meerkat_contracts::CONTRACT_VERSION;
        let mut providers = Catalog::built_in().groups();
        providers.extend(self_hosted(&config.self_hosted));
        let contract_version = format!("{}.{}.{}", version.major, version.minor, version.patch);
        Ok(ModelsReply { contract_version, providers })
    }
}

fn self_hosted(config: &SelfHostedConfig) -> Option<ProviderGroup> {
    let default_model_id = config.models.keys().next()?.clone();
    let models = config.models.iter().map(|(id, model)| entry(id, model)).collect();
    Some(ProviderGroup { provider: Provider::SelfHosted, default_model_id, models })
}

fn entry(id: &str, model: &SelfHostedModel) -> ModelEntry {
    let family = model.family.clone().unwrap_or_else(|| model.remote_model.clone());
    ModelEntry {
        id: id.to_owned(),
        display_name: model.display_name.clone().unwrap_or_else(|| id.to_owned()),
        tier: model.tier,
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
        server_id: Some(model.server.clone()),
        profile: Some(ProfileEntry::new(family, ModelProfile::from(model))),
    }
}
