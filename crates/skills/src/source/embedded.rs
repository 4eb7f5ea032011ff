//! Built-in skills that teach the use of Meerkat's own tools.
//!
//! The frontmatter of each lists the capabilities it requires; if one is missing, the skill is withheld.

use std::sync::{Arc, OnceLock};

use super::{ScanResult, Source};
use crate::problem::{Effect, Problem};
use crate::{
    Digest, Document, Provenance, Scope, Skill, SkillKey, SkillLocation, SkillName, SourceId, SourceStatus,
    Transport, Trust,
};

/// A skill that is compiled into the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Companion {
    /// Its display name.
    pub title: &'static str,
    /// The SKILL.md.
    pub text: &'static str,
}

macro_rules! companions {
    ($($title:literal = $file:literal;)*) => {
        &[$(Companion { title: $title, text: include_str!(concat!("../companions/", $file, ".md")) }),*]
    };
}

/// Lists the skills that come with Meerkat. Applications can add their own.
#[must_use]
pub const fn companions() -> &'static [Companion] {
    companions! {
        "Task Workflow" = "task-workflow";
        "Shell Patterns" = "shell-patterns";
        "Hook Authoring" = "hook-authoring";
        "MCP Server Setup" = "mcp-server-setup";
        "Memory Retrieval" = "memory-retrieval";
        "Session Management" = "session-management";
        "Multi-Agent Comms" = "multi-agent-comms";
        "Mob Communication" = "mob-communication";
        "WorkGraph Workflow" = "workgraph-workflow";
    }
}

/// The source of compiled-in skills.
pub struct Embedded {
    provenance: Arc<Provenance>,
    companions: Vec<Companion>,
    /// The parsed skills. They are parsed on the first scan, not at startup.
    found: OnceLock<Arc<ScanResult>>,
}

impl Embedded {
    /// Creates a source of these skills.
    #[must_use]
    pub fn new(companions: &[Companion]) -> Self {
        let provenance = Arc::new(Provenance {
            source_uuid: SourceId::EMBEDDED,
            display_name: "embedded".to_owned(),
            transport_kind: Transport::Embedded,
            fingerprint: "embedded:inventory".to_owned(),
            status: SourceStatus::Active,
        });
        Self { provenance, companions: companions.to_vec(), found: OnceLock::new() }
    }

    fn read(&self) -> Arc<ScanResult> {
        let mut found = ScanResult::default();
        for companion in &self.companions {
            match parse(companion, &self.provenance) {
                Ok(skill) => found.skills.push(Arc::new(skill)),
                Err(error) => {
                    let reason = format!("cannot be parsed: {}", error.reason);
                    let path = format!("embedded/{}", companion.title);
                    found.problems.push(Problem {
                        line: Some(error.line),
                        ..Problem::new(Effect::Skipped, path, reason, error.fix)
                    });
                }
            }
        }
        Arc::new(found)
    }
}

fn parse(companion: &Companion, provenance: &Arc<Provenance>) -> Result<Skill, crate::ParseError> {
    let document = Document::read(companion.text)?;
    Ok(Skill {
        key: SkillKey { source_uuid: SourceId::EMBEDDED, skill_name: SkillName::nearest(&document.name) },
        title: Some(companion.title.to_owned()),
        description: document.description,
        scope: Scope::Builtin,
        source: Arc::clone(provenance),
        digest: Digest::compute(companion.text.as_bytes()),
        size: companion.text.len() as u64,
        traits: document.traits,
        name: document.name,
        trust: Trust::Trusted,
        place: SkillLocation::Text(Arc::from(companion.text)),
    })
}

impl Source for Embedded {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        Arc::clone(self.found.get_or_init(|| self.read()))
    }
}
