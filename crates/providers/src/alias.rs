//! A model registered under a different name than its server's.

use std::sync::Arc;

use meerkat_core::{Answer, BoxFuture, DeltaSink, Model, ModelError, ModelInfo, ModelRequest};

/// Wraps a model in other properties, such as another name; requests are passed through unchanged.
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
