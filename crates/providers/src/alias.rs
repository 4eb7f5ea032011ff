//! A model under another name than its server's.

use std::sync::Arc;

use meerkat_core::{Answer, BoxFuture, DeltaSink, Model, ModelError, ModelInfo, ModelRequest};

/// Gives a model another description, and so another name; it is asked as before.
#[must_use]
pub fn aliased(info: ModelInfo, model: Arc<dyn Model>) -> Arc<dyn Model> {
    Arc::new(Alias { info, model })
}

struct Alias {
    info: ModelInfo,
    model: Arc<dyn Model>,
}

impl Model for Alias {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        self.model.ask(request, deltas)
    }
}
