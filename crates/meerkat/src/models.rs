//! Which model serves a run.
//!
//! A model that somebody named is used or refused; only where nobody named one and there is no key does the
//! offline model step in, and the reply says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use meerkat_core::{Model, Provider};
use meerkat_providers::{OFFLINE_MODEL_ID, OfflineModel};

use crate::Error;
use crate::config::DEFAULT_MODEL;

/// The models a runtime can use.
pub(crate) struct Models {
    by_id: BTreeMap<String, Arc<dyn Model>>,
}

impl Models {
    pub(crate) fn new(own: Vec<Arc<dyn Model>>) -> Self {
        let offline: Arc<dyn Model> = Arc::new(OfflineModel::new());
        let all = std::iter::once(offline).chain(own);
        Self { by_id: all.map(|model| (model.info().id.clone(), model)).collect() }
    }

    /// Finds the model of a request, or the one the config names.
    pub(crate) fn resolve(
        &self,
        asked: Option<&str>,
        provider: Option<Provider>,
        configured: &str,
    ) -> Result<Arc<dyn Model>, Error> {
        let asked = asked.filter(|model| !model.trim().is_empty());
        let id = match (asked, provider) {
            (Some(id), _) => id,
            (None, Some(provider)) => return self.of(provider),
            (None, None) if configured == DEFAULT_MODEL => OFFLINE_MODEL_ID,
            (None, None) => configured,
        };
        let model = self.by_id.get(id).ok_or_else(|| Error::Model {
            model: id.to_owned(),
            reason: format!("this build knows {}", self.names()),
        })?;
        match provider {
            Some(provider) if provider != model.info().provider => Err(Error::Model {
                model: id.to_owned(),
                reason: format!("it is served by `{}`, not by `{provider}`", model.info().provider),
            }),
            _ => Ok(Arc::clone(model)),
        }
    }

    /// Finds a model that the provider serves.
    fn of(&self, provider: Provider) -> Result<Arc<dyn Model>, Error> {
        let found = self.by_id.values().find(|model| model.info().provider == provider);
        found.cloned().ok_or_else(|| Error::Model {
            model: format!("of provider {provider}"),
            reason: format!("this build knows {}", self.names()),
        })
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.by_id.keys().map(|id| format!("`{id}`")).collect();
        names.join(", ")
    }
}
