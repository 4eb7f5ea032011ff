//! The `skill` tool: a list of skills in its description, and the text of one as its answer.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::xml::{escaped, shortened};
use crate::{Error, Scope, Skill, Snapshot};

/// The tool's name.
pub const SKILL_TOOL: &str = "skill";
/// Its name for people.
pub const SKILL_TOOL_TITLE: &str = "Load Skill";
/// What is said of a name that is empty.
pub const EMPTY_NAME: &str = "Skill name cannot be empty";

/// The longest list of skills in the tool's description, in bytes. Beyond it descriptions are shortened, then
/// left out; names never are.
const LIST_BUDGET: usize = 48 * 1024;
/// A shortened description has this many bytes.
const SHORT: usize = 120;

/// What the tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the protocol has four hints")]
pub struct Annotations {
    /// It only reads.
    pub read_only_hint: bool,
    /// It takes nothing away.
    pub destructive_hint: bool,
    /// Doing it again does no more.
    pub idempotent_hint: bool,
    /// It does not reach out.
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

/// Returns the schema of the tool's input. `command` is another word for `name`; one of them is needed.
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

/// Writes the tool's description, with the list of skills.
#[must_use]
pub fn skill_tool_description(snapshot: &Snapshot) -> String {
    let list = |limit: Option<usize>| {
        let mut list = String::new();
        for skill in snapshot.for_model() {
            let description = limit.map_or_else(
                || skill.description.clone(),
                |limit| if limit == 0 { String::new() } else { shortened(&skill.description, limit) },
            );
            // Writing to a string cannot fail.
            let _ = writeln!(
                list,
                "<skill>\n<name>{}</name>\n<description>{}</description>\n<location>{}</location>\n</skill>",
                escaped(&skill.name),
                escaped(&description),
                location(skill),
            );
        }
        list
    };
    let full = list(None);
    let list = if full.len() <= LIST_BUDGET {
        full
    } else {
        Some(list(Some(SHORT))).filter(|short| short.len() <= LIST_BUDGET).unwrap_or_else(|| list(Some(0)))
    };
    format!("{INTRODUCTION}{list}</available_skills>")
}

fn location(skill: &Skill) -> &'static str {
    if skill.scope == Scope::Project { "project" } else { "global" }
}

/// What the tool answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillAnswer {
    /// The skill's text.
    Loaded(String),
    /// There is no such skill; the text lists those there are.
    NotFound(String),
    /// The name or the skill is at fault; the text says how.
    Refused(String),
}

impl SkillAnswer {
    /// Returns the text of the answer.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Loaded(text) | Self::NotFound(text) | Self::Refused(text) => text,
        }
    }

    /// Says whether the answer is an error to the protocol. That a skill is not found is an answer like another.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// Answers a call of the tool. It reads the skill's file.
#[must_use]
pub fn skill_tool_answer(snapshot: &Snapshot, name: &str) -> SkillAnswer {
    if name.trim().is_empty() {
        return SkillAnswer::Refused(EMPTY_NAME.to_owned());
    }
    let skill = match snapshot.by_name(name) {
        Ok(skill) => skill,
        Err(Error::NoSuchName(_)) => return SkillAnswer::NotFound(not_found(snapshot, name)),
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
    let list = |limit: usize| {
        let mut list = String::new();
        for skill in snapshot.for_model() {
            // Line breaks would look like further skills.
            let description: Vec<&str> = skill.description.split_whitespace().collect();
            let _ = writeln!(list, "- {}: {}", skill.name, shortened(&description.join(" "), limit));
        }
        list
    };
    let full = list(usize::MAX);
    let list = if full.len() <= LIST_BUDGET { full } else { list(SHORT) };
    let name: String = name.chars().take(200).collect();
    format!(
        "Skill '{name}' not found.\n\nAvailable skills:\n{list}\nUse the exact skill name (case-insensitive) to load a skill."
    )
}
