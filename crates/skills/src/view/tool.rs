//! The `skill` tool: lists the skills in its description, and returns the text of one.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use meerkat_core::excerpt;
use serde::Serialize;
use serde_json::{Value, json};

use super::fit::{EntrySize, Fit};
use super::nearest::nearest_first;
use super::xml::{escaped_len, escaped_text, shortened, shortened_for_escaping};
use crate::{Error, Scope, Skill, Snapshot};

/// The tool's name.
pub const SKILL_TOOL: &str = "skill";
/// Its display name.
pub const SKILL_TOOL_TITLE: &str = "Load Skill";
/// Error for an empty name.
pub const EMPTY_NAME: &str = "Skill name cannot be empty";

/// Maximum size of the list of skills in the tool's description, in bytes. Beyond it, descriptions are truncated
/// evenly; skills are dropped only if that is not enough.
const LIST_BUDGET: usize = 64 * 1024;
/// Maximum size of the list of skills in the response to an unknown name, in bytes.
const NOT_FOUND_BUDGET: usize = 16 * 1024;

/// MCP annotations of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the protocol has four hints")]
pub struct Annotations {
    /// Whether it only reads.
    pub read_only_hint: bool,
    /// Whether it can delete or overwrite.
    pub destructive_hint: bool,
    /// Whether repeated calls have no additional effect.
    pub idempotent_hint: bool,
    /// Whether it accesses external systems.
    pub open_world_hint: bool,
}

/// Returns the tool's annotations.
#[must_use]
pub const fn skill_tool_annotations() -> Annotations {
    Annotations {
        read_only_hint: true,
        destructive_hint: false,
        idempotent_hint: true,
        open_world_hint: false,
    }
}

/// Returns the schema of the tool's input. `command` is an alias of `name`; one of them is required.
#[must_use]
pub fn skill_tool_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "minLength": 1,
                "description": "Name of the skill to load (case-insensitive)",
            },
        },
        "required": ["name"],
        "additionalProperties": false,
    })
}

const INTRODUCTION: &str = r#"Execute a skill within the main conversation

<skills_instructions>
When users ask you to perform tasks, check if any of the available skills below can help complete the task more effectively. Skills provide specialized capabilities and domain knowledge.

How to use skills:
- Invoke skills using this tool with the skill name only (no arguments)
- When you invoke a skill, you will see <command-message>The "{name}" skill is loading</command-message>
- The skill's prompt will expand and provide detailed instructions on how to complete the task
- Examples:
  - `command: "pdf"` - invoke the pdf skill
  - `command: "xlsx"` - invoke the xlsx skill
  - `command: "ms-office-suite:pdf"` - invoke using fully qualified name

Important:
- Only use skills listed in <available_skills> below
- Do not invoke a skill that is already running
- Do not use this tool for built-in CLI commands (like /help, /clear, etc.)
</skills_instructions>

<available_skills>
"#;

/// Returns the tool's description, with the list of skills.
#[must_use]
pub fn skill_tool_description(snapshot: &Snapshot) -> String {
    let list = full_list(snapshot).unwrap_or_else(|| cut_list(snapshot));
    format!("{INTRODUCTION}{list}</available_skills>")
}

/// Lists every skill in full, if the budget allows it.
fn full_list(snapshot: &Snapshot) -> Option<String> {
    let mut list = String::new();
    for skill in snapshot.for_model() {
        list.push_str(&element(skill, &skill.description));
        if list.len() > LIST_BUDGET {
            return None;
        }
    }
    Some(list)
}

/// Lists as much as the budget allows, with a note about the omissions.
fn cut_list(snapshot: &Snapshot) -> String {
    let skills = by_priority(snapshot);
    let total = skills.len();
    let size = |(_, skill): &(usize, &Arc<Skill>)| EntrySize {
        fixed: element(skill, "").len(),
        description: escaped_len(&skill.description),
    };
    let sizes: Vec<_> = skills.iter().map(size).collect();
    let fit = Fit::new(&sizes, LIST_BUDGET);
    let cut = fit.listed.iter().filter(|index| sizes[**index].description > fit.longest).count();
    let mut skills: Vec<_> = fit.listed.iter().map(|index| skills[*index]).collect();
    skills.sort_unstable_by_key(|(position, _)| *position);
    let mut list = String::new();
    for (_, skill) in &skills {
        list.push_str(&element(skill, &shortened_for_escaping(&skill.description, fit.longest)));
    }
    list.push_str(&note(total, total - skills.len(), cut));
    list
}

/// Returns the skills that a model may load with their positions in name order, sorted by precedence of the sources.
fn by_priority(snapshot: &Snapshot) -> Vec<(usize, &Arc<Skill>)> {
    let sources = snapshot.sources().iter().enumerate();
    let ranks: HashMap<_, _> = sources.map(|(rank, source)| (source.source_uuid, rank)).collect();
    let mut skills: Vec<_> = snapshot.for_model().enumerate().collect();
    skills.sort_by_key(|(_, skill)| ranks.get(&skill.key.source_uuid).copied().unwrap_or(usize::MAX));
    skills
}

fn element(skill: &Skill, description: &str) -> String {
    format!(
        "<skill>\n<name>{}</name>\n<description>{}</description>\n<location>{}</location>\n</skill>\n",
        escaped_text(&skill.name),
        escaped_text(description),
        location(skill),
    )
}

/// Instructions for finding skills that do not fit into a list.
const SEARCH: &str = "To find one, pass words that describe it as `name`.";

/// Returns a note about the skills and descriptions that do not fit into a list.
fn note(total: usize, dropped: usize, cut: usize) -> String {
    match (dropped, cut) {
        (0, 0) => String::new(),
        (0, _) => {
            format!("<note>{cut} of {total} descriptions are cut. Load a skill to read all of it.</note>\n")
        }
        (_, 0) => format!("<note>{dropped} of {total} skills are not listed. {SEARCH}</note>\n"),
        _ => format!(
            "<note>{dropped} of {total} skills are not listed, and {cut} descriptions are cut. {SEARCH}</note>\n"
        ),
    }
}

fn location(skill: &Skill) -> &'static str {
    if skill.scope == Scope::Project { "project" } else { "global" }
}

/// Response of the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillAnswer {
    /// The skill's text.
    Loaded(String),
    /// The skill does not exist; the text lists the available ones.
    NotFound(String),
    /// The name or the skill is invalid; the text is the error.
    Refused(String),
}

impl SkillAnswer {
    /// Returns the text of the response.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Loaded(text) | Self::NotFound(text) | Self::Refused(text) => text,
        }
    }

    /// Returns `true` if the response is a protocol error. An unknown skill is a normal response.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// Handles a call of the tool. It reads the skill's file.
#[must_use]
pub fn skill_tool_answer(snapshot: &Snapshot, name: &str) -> SkillAnswer {
    if name.trim().is_empty() {
        return SkillAnswer::Refused(EMPTY_NAME.to_owned());
    }
    let skill = match snapshot.by_name(name) {
        Ok(skill) => skill,
        Err(Error::NoSuchName(_)) => return SkillAnswer::NotFound(not_found(snapshot, name)),
        Err(Error::Hidden { why, fix, .. }) => {
            let text = not_found(snapshot, name);
            return SkillAnswer::NotFound(format!("{text}\n\nIt is not available because {why}; {fix}."));
        }
        Err(error) => return SkillAnswer::Refused(error.to_string()),
    };
    match skill.read() {
        Ok(read) => {
            let base = skill.base();
            SkillAnswer::Loaded(format!("Loading: {}\nBase directory: {base}\n\n{}", skill.name, read.text))
        }
        Err(error) => SkillAnswer::Refused(error.to_string()),
    }
}

fn not_found(snapshot: &Snapshot, name: &str) -> String {
    let skills = nearest_first(snapshot.for_model(), name);
    // Line breaks would look like further skills.
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<_> = skills.iter().map(|skill| (&skill.name, one_line(&skill.description))).collect();
    let size = |(name, description): &(&String, String)| EntrySize {
        fixed: "- : \n".len() + name.len(),
        description: description.len(),
    };
    let fit = Fit::new(&rows.iter().map(size).collect::<Vec<_>>(), NOT_FOUND_BUDGET);
    let mut list = String::new();
    for (name, description) in fit.listed.iter().map(|index| &rows[*index]) {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "- {name}: {}", shortened(description, fit.longest));
    }
    let left = rows.len() - fit.listed.len();
    if left > 0 {
        let _ = writeln!(list, "\n{left} more skills are not listed. {SEARCH}");
    }
    let name = excerpt(name);
    format!(
        "Skill '{name}' not found.\n\nAvailable skills:\n{list}\nUse the exact skill name (case-insensitive) to load a skill."
    )
}
