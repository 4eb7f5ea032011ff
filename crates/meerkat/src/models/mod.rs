//! Selection of the model for a run.
//!
//! A model named in the request is used or rejected. If none is named, it is the default model of the config or of the
//! first provider with a key, or else the offline model. The reply names the model.

mod error;
mod factory;
pub(crate) mod params;
mod providers;

use std::collections::BTreeMap;
use std::sync::Arc;

use meerkat_core::{Model, Provider};
use meerkat_providers::{OFFLINE_MODEL_ID, OfflineModel};

use crate::config::Config;
use crate::help::OfflineHelp;

pub use error::ModelsError;
pub(crate) use factory::schema_warnings;
use providers::default_model;
pub(crate) use providers::{Providers, ResolvedModel};

/// The models a runtime can use.
pub(crate) struct Models {
    by_id: BTreeMap<String, Arc<dyn Model>>,
    providers: Providers,
}

impl Models {
    pub(crate) fn new(custom: Vec<Arc<dyn Model>>, providers: Providers) -> Self {
        let built_in: [Arc<dyn Model>; 2] = [Arc::new(OfflineModel::new()), Arc::new(OfflineHelp::new())];
        let all = built_in.into_iter().chain(custom);
        Self { by_id: all.map(|model| (model.info().id.clone(), model)).collect(), providers }
    }

    /// Returns the access to the providers.
    pub(crate) fn providers(&self) -> &Providers {
        &self.providers
    }

    /// Returns the model named in a request, or the default one if it names none.
    pub(crate) fn resolve(
        &self,
        requested: Option<&str>,
        provider: Option<Provider>,
        config: &Config,
    ) -> Result<ResolvedModel, ModelsError> {
        let requested = requested.filter(|model| !model.trim().is_empty());
        let id = match (requested, provider) {
            (Some(id), _) => id.to_owned(),
            (None, Some(provider)) => default_model(provider, config),
            (None, None) => {
                let configured = config.agent.model.clone();
                let chosen = configured.or_else(|| self.providers.first_with_key(config));
                chosen.unwrap_or_else(|| OFFLINE_MODEL_ID.to_owned())
            }
        };
        let Some(model) = self.by_id.get(&id) else { return self.providers.find(&id, provider, config) };
        match provider {
            Some(provider) if provider != model.info().provider => Err(ModelsError::Unusable {
                model: id,
                reason: format!("it is served by `{}`, not by `{provider}`", model.info().provider),
            }),
            _ => Ok(ResolvedModel { model: Arc::clone(model), warning: None }),
        }
    }
}
