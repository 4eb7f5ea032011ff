//! `meerkat_config`.

use meerkat_contracts::{ConfigAction, ConfigEnvelope, ConfigRequest, ResolvedPaths};

use super::{Call, Impact, Operation};
use crate::config::{ConfigChange, CurrentConfig};
use crate::records::RecordError;
use crate::{Error, Runtime};

/// `meerkat_config`.
pub struct Configure;

impl Operation for Configure {
    const NAME: &'static str = "meerkat_config";
    const TITLE: &'static str = "Read or change the config";
    const DOC: &'static str = "Read the realm's config (action get), replace it (set with config), or change parts of \
        it (patch, an RFC 7396 merge patch). Pass expected_generation to reject the change if the config was changed \
        since you read it. Tokens are shown as ***; sending *** back keeps them. Keys that control where secrets go or \
        which files are read can only be changed by the owner, with rkat config.";
    const IMPACT: Impact = Impact::Idempotent;
    type Input = ConfigRequest;
    type Output = ConfigEnvelope;

    async fn call(call: Call, input: ConfigRequest) -> Result<ConfigEnvelope, Error> {
        let service = call.runtime.config();
        let access = call.runtime.config_access();
        let missing = |what: &str| Error::arguments(format!("`{what}` is missing"));
        let current = match input.action {
            ConfigAction::Get => service.get().await?,
            ConfigAction::Set => {
                let document = input.config.ok_or_else(|| missing("config"))?;
                service.change_as(access, ConfigChange::Set(document), input.expected_generation).await?
            }
            ConfigAction::Patch => {
                let patch = input.patch.ok_or_else(|| missing("patch"))?;
                service.change_as(access, ConfigChange::Patch(patch), input.expected_generation).await?
            }
        };
        if input.action != ConfigAction::Get {
            // Notify subscribers of the catalog now, not at the next run.
            call.runtime.refresh_skills().await?;
        }
        envelope(&call.runtime, &current)
    }
}

fn envelope(runtime: &Runtime, current: &CurrentConfig) -> Result<ConfigEnvelope, Error> {
    let realm = runtime.realm();
    let resolved_paths = realm.paths().map(|paths| {
        let text = |path: &std::path::Path| path.display().to_string();
        ResolvedPaths {
            root: text(&paths.root),
            manifest_path: text(&paths.manifest),
            config_path: text(&paths.database),
            sessions_sqlite_path: Some(text(&paths.database)),
        }
    });
    Ok(ConfigEnvelope {
        config: serde_json::to_value(&*current.config).map_err(RecordError::Encode)?,
        generation: current.generation,
        realm_id: realm.id().to_string(),
        instance_id: runtime.instance().map(str::to_owned),
        backend: realm.backend().to_string(),
        resolved_paths,
    })
}
