//! Built-in skills that teach the use of Meerkat's own tools.
//!
//! The frontmatter of each lists the capabilities it requires; if one is missing, the skill is withheld.

use std::sync::{Arc, OnceLock};

use super::{ScanResult, Source};
use crate::problem::{Effect, Problem};
use crate::{Provenance, Scope, Skill, SkillLocation, SourceId, Transport};

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
        let (id, fingerprint) = (SourceId::EMBEDDED, "embedded:inventory".to_owned());
        let provenance = Arc::new(Provenance::new(id, "embedded", Transport::Embedded, fingerprint));
        Self { provenance, companions: companions.to_vec(), found: OnceLock::new() }
    }

    fn read(&self) -> Arc<ScanResult> {
        let mut found = ScanResult::default();
        for companion in &self.companions {
            let (bytes, place) = (companion.text.as_bytes(), SkillLocation::Text(companion.text.into()));
            match Skill::parse(&self.provenance, Scope::Builtin, bytes, place) {
                Ok(skill) => {
                    let title = Some(companion.title.to_owned());
                    found.skills.push(Arc::new(Skill { title, ..skill }));
                }
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

impl Source for Embedded {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        Arc::clone(self.found.get_or_init(|| self.read()))
    }
}
