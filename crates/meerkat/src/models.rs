//! Which model serves a run.
//!
//! A model that somebody named is used or refused. Only where nobody named one is it chosen: the first provider
//! there is a key for, else the offline model; the reply says which it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use meerkat_core::{Model, Provider};
use meerkat_providers::{OFFLINE_MODEL_ID, OfflineModel};

use crate::Error;
use crate::config::Config;
use crate::help::Librarian;
use crate::providers::{Providers, Served, default_model};

/// The models a runtime can use.
pub(crate) struct Models {
    own: BTreeMap<String, Arc<dyn Model>>,
    providers: Providers,
}

impl Models {
    pub(crate) fn new(own: Vec<Arc<dyn Model>>, providers: Providers) -> Self {
        let built_in: [Arc<dyn Model>; 2] = [Arc::new(OfflineModel::new()), Arc::new(Librarian::new())];
        let all = built_in.into_iter().chain(own);
        Self { own: all.map(|model| (model.info().id.clone(), model)).collect(), providers }
    }

    /// Returns who reaches the providers.
    pub(crate) fn providers(&self) -> &Providers {
        &self.providers
    }

    /// Finds the model of a request, or the one to use when it names none.
    pub(crate) fn resolve(
        &self,
        asked: Option<&str>,
        provider: Option<Provider>,
        config: &Config,
    ) -> Result<Served, Error> {
        let asked = asked.filter(|model| !model.trim().is_empty());
        let id = match (asked, provider) {
            (Some(id), _) => id.to_owned(),
            (None, Some(provider)) => default_model(provider, config),
            (None, None) => {
                let set = config.agent.model.clone();
                let chosen = set.or_else(|| self.providers.first_with_key(config));
                chosen.unwrap_or_else(|| OFFLINE_MODEL_ID.to_owned())
            }
        };
        let Some(model) = self.own.get(&id) else { return self.providers.find(&id, provider, config) };
        match provider {
            Some(provider) if provider != model.info().provider => Err(Error::Model {
                model: id,
                reason: format!("it is served by `{}`, not by `{provider}`", model.info().provider),
            }),
            _ => Ok(Served { model: Arc::clone(model), warning: None }),
        }
    }
}
