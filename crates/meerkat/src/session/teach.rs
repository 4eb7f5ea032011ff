//! The skills of a run: those that were asked for, written out, and the list of those there are.
//!
//! A skill that was asked for and cannot be had refuses the run. One that a session was created with and that is
//! gone since is told of, and the run goes on without it.

use std::sync::Arc;

use meerkat_contracts::SkillKey;
use meerkat_core::{AgentEvent, Content, ContentBlock, ToolSource};
use serde_json::json;

use super::options::TurnOptions;
use super::record::SessionSettings;
use crate::Error;
use crate::config::{Config, CurrentConfig};
use crate::runtime::Shared;
use crate::skills::{Injected, Offered};

/// The tool without which a list of skills is of no use.
const LOAD: &str = "load_skill";

/// What a run is taught.
#[derive(Default)]
pub(super) struct Taught {
    /// Sections of the system prompt.
    pub(super) sections: Vec<String>,
    pub(super) tools: Vec<Arc<dyn ToolSource>>,
    pub(super) events: Vec<AgentEvent>,
    pub(super) warnings: Vec<String>,
}

impl Shared {
    /// Puts the skills that a run asks for before what the user says, and checks those that it asks to preload.
    pub(super) async fn give_skills(
        &self,
        turn: &mut TurnOptions,
        current: &CurrentConfig,
    ) -> Result<Vec<AgentEvent>, Error> {
        self.settle_skills(current).await;
        self.skills.inject(turn.preload_skills.as_deref().unwrap_or_default()).await?;
        let given = self.skills.inject(&turn.skills).await?;
        let nothing_asked = turn.input.prompt.is_blank() && turn.input.results.is_empty();
        if given.is_empty() || nothing_asked {
            return Ok(Vec::new());
        }
        let said = turn.input.prompt.blocks().iter().cloned();
        let skills = given.iter().map(|skill| ContentBlock::Text { text: skill.text.clone() });
        turn.input.prompt = Content::from(skills.chain(said).collect::<Vec<_>>());
        Ok(vec![resolved(&given)])
    }

    /// Settles what the system prompt says of skills, and which tools go with it.
    pub(super) async fn teach(
        &self,
        settings: &SessionSettings,
        turn: &TurnOptions,
        config: &Config,
        events: Vec<AgentEvent>,
    ) -> Taught {
        let mut taught = Taught { events, ..Taught::default() };
        let mut preloaded = Vec::new();
        for key in &settings.preload_skills {
            match self.skills.inject(std::slice::from_ref(key)).await {
                Ok(skills) => preloaded.extend(skills),
                Err(error) => {
                    taught.warnings.push(format!("a skill of this session is missing: {error}"));
                    taught.events.push(failed(key, &error));
                }
            }
        }
        if !preloaded.is_empty() {
            taught.events.push(resolved(&preloaded));
            taught.sections.extend(preloaded.into_iter().map(|skill| skill.text));
        }
        // The skills that came with the program teach its tools: only who has those is told of them.
        let builtins = settings.builtins.unwrap_or(config.tools.builtins_enabled);
        let offered = if builtins { Offered::All } else { Offered::Brought };
        let taken = settings.tools.iter().any(|tool| tool.name == LOAD);
        if !taken && turn.overlay.allows(LOAD) {
            taught.sections.extend(self.skills.inventory(offered));
            taught.tools.extend(self.skills.tools(offered));
        }
        if !turn.overlay.allows_none() {
            taught.tools.extend(self.registry.tools(config).await);
        }
        taught
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
