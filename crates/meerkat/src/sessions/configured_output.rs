//! The output schema of the config, compiled once per config and not in every run.

use std::sync::{Arc, Mutex, PoisonError};

use meerkat_core::OutputSchema;

use crate::Error;
use crate::config::Config;
use crate::schema::OutputValidator;

/// The validator of the newest config that was used.
#[derive(Default)]
pub(crate) struct ConfiguredOutput(Mutex<Option<(Arc<Config>, OutputValidator)>>);

impl ConfiguredOutput {
    /// Returns the validator of a config's output schema, or `None` if it has none.
    pub(super) fn validator(&self, config: &Arc<Config>) -> Result<Option<OutputValidator>, Error> {
        let Some(schema) = &config.agent.output_schema else { return Ok(None) };
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = latest.as_ref().filter(|(known, _)| Arc::ptr_eq(known, config));
        if let Some((_, validator)) = known {
            return Ok(Some(validator.clone()));
        }
        let validator = OutputValidator::new(OutputSchema::parse(schema.clone())?)?;
        *latest = Some((Arc::clone(config), validator.clone()));
        Ok(Some(validator))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::ConfiguredOutput;
    use crate::{Runtime, RuntimeOptions};

    #[tokio::test]
    async fn second_run_compiles_and_parses_nothing() {
        let runtime = Runtime::ephemeral(RuntimeOptions::default()).unwrap();
        let patch = json!({ "agent": { "output_schema": { "type": "object" } } });
        let patch = patch.as_object().cloned().unwrap();
        runtime.config().change(crate::ConfigChange::Patch(patch), None).await.unwrap();
        let output = ConfiguredOutput::default();
        let mut schemas = Vec::new();
        let mut configs = Vec::new();
        for _ in 0..2 {
            let config = runtime.config().get().await.unwrap().config;
            schemas.push(output.validator(&config).unwrap().unwrap().schema());
            configs.push(config);
        }
        assert!(Arc::ptr_eq(&configs[0], &configs[1]));
        assert!(Arc::ptr_eq(&schemas[0], &schemas[1]));
    }
}
