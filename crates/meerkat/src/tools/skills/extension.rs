//! The skills of a run: the full text of requested skills, and the list of available ones.
//!
//! If a requested skill cannot be loaded, the run fails. If a preloaded skill of the session is no longer available,
//! the run continues without it and reports a warning.

use std::sync::Arc;

use meerkat_contracts::SkillKey;
use meerkat_core::{AgentEvent, BoxFuture, ContentBlock, RealmId};
use meerkat_skills::{Catalog, SkillFilter};
use meerkat_store::{Backend, Realm};
use serde_json::json;

#[cfg(feature = "registry")]
use super::super::RuntimeRegistry;
use super::super::extension::{InjectedSkills, SkillRequest};
use super::super::{Contribution, RunExtension, RunView, ToolsError};
use super::catalog::{DesiredState, ScanWait};
use super::{Injected, Skills};
use crate::capabilities::Capabilities;
use crate::coded::Coded as _;
use crate::config::CurrentConfig;
use crate::secrets::SecretSource;

/// Tool for loading skills; without it, a list of skills is useless.
const LOAD_TOOL: &str = "load_skill";

/// Adds skills to runs.
pub(crate) struct SkillsExtension {
    skills: Skills,
    realm: (RealmId, Backend),
    capabilities: Capabilities,
    secrets: SecretSource,
    /// Held while changed registered skills are added to the catalog.
    registering: tokio::sync::Mutex<()>,
    #[cfg(feature = "registry")]
    registry: Option<Arc<RuntimeRegistry>>,
}

impl SkillsExtension {
    pub(crate) fn new(
        skills: Skills,
        realm: &Realm,
        capabilities: &Capabilities,
        secrets: SecretSource,
    ) -> Self {
        Self {
            skills,
            realm: (realm.id().clone(), realm.backend()),
            capabilities: capabilities.clone(),
            secrets,
            registering: tokio::sync::Mutex::default(),
            #[cfg(feature = "registry")]
            registry: None,
        }
    }

    /// Adds the skills that workers register.
    #[cfg(feature = "registry")]
    pub(crate) fn with_registry(mut self, registry: &Arc<RuntimeRegistry>) -> Self {
        self.registry = Some(Arc::clone(registry));
        self
    }

    pub(crate) fn skills(&self) -> &Skills {
        &self.skills
    }

    /// Refreshes the skills from the config, or from a newer one that another caller has already applied.
    async fn apply(&self, current: &CurrentConfig, wait: ScanWait) {
        let (realm, backend) = self.realm.clone();
        let desired = DesiredState {
            version: Some((realm, current.generation)),
            config: current.config.skills.clone(),
            capabilities: self.capabilities.available(&current.config, backend),
        };
        let registering = self.registering.lock().await;
        let has_changed = self.refresh_registered(current).await;
        // Another caller that finds no changes uses the catalog at once, so the changes must be in it by then.
        let _registering = has_changed.then_some(registering);
        let scan = if has_changed { Catalog::refresh } else { Catalog::refresh_if_stale };
        self.skills.apply_and_scan(desired, &self.secrets, scan, wait).await;
    }

    /// Refreshes the skills that workers registered; returns whether they changed.
    #[cfg(feature = "registry")]
    async fn refresh_registered(&self, current: &CurrentConfig) -> bool {
        match &self.registry {
            Some(registry) => registry.refresh_skills(current, &self.skills).await,
            None => false,
        }
    }

    #[cfg(not(feature = "registry"))]
    #[expect(clippy::unused_async, reason = "same signature as in builds with a registry")]
    async fn refresh_registered(&self, _: &CurrentConfig) -> bool {
        false
    }

    async fn sections_and_tools(&self, run: &RunView<'_>) -> Contribution {
        let mut contribution = Contribution::default();
        let mut preloaded = Vec::new();
        for key in &run.settings.preload_skills {
            match self.skills.inject(std::slice::from_ref(key)).await {
                Ok(skills) => preloaded.extend(skills),
                Err(error) => {
                    contribution.warnings.push(format!("cannot load a preloaded skill: {error}"));
                    contribution.events.push(failed(key, &error));
                }
            }
        }
        if !preloaded.is_empty() {
            contribution.events.push(resolved(&preloaded));
            contribution.sections.extend(preloaded.into_iter().map(|skill| skill.text));
        }
        // Bundled skills explain the built-in tools, so they are listed only if those are enabled.
        let builtins = run.settings.builtins.unwrap_or(run.config.tools.builtins_enabled);
        let filter = if builtins { SkillFilter::All } else { SkillFilter::ExcludeBuiltin };
        let is_shadowed = run.settings.tools.iter().any(|tool| tool.name == LOAD_TOOL);
        // Until the current scan is done, the catalog may still contain skills that were disabled.
        if !is_shadowed && run.overlay.allows(LOAD_TOOL) && self.skills.config().enabled {
            contribution.sections.extend(self.skills.inventory(filter));
            contribution.sources.push(self.skills.tools(filter));
            contribution.warnings.extend(self.skills.scan_warning());
        }
        contribution
    }
}

impl RunExtension for Arc<SkillsExtension> {
    fn refresh<'a>(&'a self, current: &'a CurrentConfig) -> BoxFuture<'a, ()> {
        Box::pin(self.apply(current, ScanWait::Complete))
    }

    /// Returns the requested skills, and checks that the skills to preload can be loaded.
    fn inject<'a>(
        &'a self,
        (preload, refs): SkillRequest<'a>,
        current: &'a CurrentConfig,
    ) -> BoxFuture<'a, Result<Option<InjectedSkills>, ToolsError>> {
        Box::pin(async move {
            self.apply(current, ScanWait::Limited).await;
            self.skills.inject(preload).await?;
            let skills = self.skills.inject(refs).await?;
            let event = resolved(&skills);
            let blocks: Vec<_> =
                skills.into_iter().map(|skill| ContentBlock::Text { text: skill.text }).collect();
            Ok((!blocks.is_empty()).then_some((blocks, event)))
        })
    }

    fn contribute<'a>(&'a self, run: &'a RunView<'a>) -> BoxFuture<'a, Contribution> {
        Box::pin(self.sections_and_tools(run))
    }
}

fn resolved(skills: &[Injected]) -> AgentEvent {
    AgentEvent::SkillsResolved {
        skills: skills.iter().map(|skill| json!(skill.key)).collect(),
        injection_bytes: skills.iter().map(|skill| skill.text.len() as u64).sum(),
    }
}

fn failed(key: &SkillKey, error: &ToolsError) -> AgentEvent {
    AgentEvent::SkillResolutionFailed {
        skill_key: Some(json!(key)),
        reason: json!({ "reason_type": error.kind().code().to_lowercase() }),
        reference: format!("{}/{}", key.source_uuid, key.skill_name),
        error: error.to_string(),
    }
}
