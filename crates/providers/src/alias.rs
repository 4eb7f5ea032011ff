//! A model registered under a different name than its server's.

use std::sync::Arc;

use meerkat_core::{BoxFuture, DeltaSink, Model, ModelError, ModelInfo, ModelRequest, ModelResponse};

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

    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        self.model.generate(request, deltas)
    }
}
