//! The skills of a run: the full text of requested skills, and the list of available ones.
//!
//! If a requested skill cannot be loaded, the run fails. If a preloaded skill of the session is no longer available,
//! the run continues without it and reports a warning.

use std::sync::Arc;

use meerkat_contracts::SkillKey;
use meerkat_core::{AgentEvent, Content, ContentBlock, ToolSource};
use serde_json::json;

use super::options::TurnOptions;
use super::record::SessionSettings;
use crate::Error;
use crate::agent_skills::{Injected, SkillFilter};
use crate::config::{Config, CurrentConfig};
use crate::runtime::Shared;

/// Tool for loading skills; without it, a list of skills is useless.
const LOAD_TOOL: &str = "load_skill";

/// Skills and skill tools loaded for a run.
#[derive(Default)]
pub(super) struct RunSkills {
    /// Sections for the system prompt.
    pub(super) sections: Vec<String>,
    pub(super) tools: Vec<Arc<dyn ToolSource>>,
    pub(super) events: Vec<AgentEvent>,
    pub(super) warnings: Vec<String>,
}

impl Shared {
    /// Inserts the requested skills before the user's prompt, and checks that the skills to preload can be loaded.
    pub(super) async fn inject_skill_refs(
        &self,
        turn: &mut TurnOptions,
        current: &CurrentConfig,
    ) -> Result<Vec<AgentEvent>, Error> {
        self.refresh_skills(current).await;
        self.skills.inject(turn.preload_skills.as_deref().unwrap_or_default()).await?;
        let skills = self.skills.inject(&turn.skills).await?;
        let is_empty = turn.input.prompt.is_blank() && turn.input.results.is_empty();
        if skills.is_empty() || is_empty {
            return Ok(Vec::new());
        }
        let prompt = turn.input.prompt.blocks().iter().cloned();
        let texts = skills.iter().map(|skill| ContentBlock::Text { text: skill.text.clone() });
        turn.input.prompt = Content::from(texts.chain(prompt).collect::<Vec<_>>());
        Ok(vec![resolved(&skills)])
    }

    /// Loads the system prompt sections and tools for skills.
    pub(super) async fn load_run_skills(
        &self,
        settings: &SessionSettings,
        turn: &TurnOptions,
        config: &Config,
        events: Vec<AgentEvent>,
    ) -> RunSkills {
        let mut run_skills = RunSkills { events, ..RunSkills::default() };
        let mut preloaded = Vec::new();
        for key in &settings.preload_skills {
            match self.skills.inject(std::slice::from_ref(key)).await {
                Ok(skills) => preloaded.extend(skills),
                Err(error) => {
                    run_skills.warnings.push(format!("cannot load a preloaded skill: {error}"));
                    run_skills.events.push(failed(key, &error));
                }
            }
        }
        if !preloaded.is_empty() {
            run_skills.events.push(resolved(&preloaded));
            run_skills.sections.extend(preloaded.into_iter().map(|skill| skill.text));
        }
        // Bundled skills explain the built-in tools, so they are listed only if those are enabled.
        let builtins = settings.builtins.unwrap_or(config.tools.builtins_enabled);
        let filter = if builtins { SkillFilter::All } else { SkillFilter::ExcludeBuiltin };
        let is_shadowed = settings.tools.iter().any(|tool| tool.name == LOAD_TOOL);
        if !is_shadowed && turn.overlay.allows(LOAD_TOOL) {
            run_skills.sections.extend(self.skills.inventory(filter));
            run_skills.tools.extend(self.skills.tools(filter));
        }
        if !turn.overlay.allows_none() {
            run_skills.tools.extend(self.registry.tools(config).await);
        }
        run_skills
    }
}

fn resolved(skills: &[Injected]) -> AgentEvent {
    AgentEvent::SkillsResolved {
        skills: skills.iter().map(|skill| json!(skill.key)).collect(),
        injection_bytes: skills.iter().map(|skill| skill.text.len() as u64).sum(),
    }
}

fn failed(key: &SkillKey, error: &Error) -> AgentEvent {
    AgentEvent::SkillResolutionFailed {
        skill_key: Some(json!(key)),
        reason: json!({ "reason_type": error.kind().code().to_lowercase() }),
        reference: format!("{}/{}", key.source_uuid, key.skill_name),
        error: error.to_string(),
    }
}
