//! Skills as slash commands: what the user types after the name goes where the skill says `$ARGUMENTS`.

use serde::Serialize;

use crate::{Error, Skill, Snapshot, Trust};

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptView {
    /// What the user types.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it does.
    pub description: String,
    /// What to type after it, if the skill says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
}

const PLACEHOLDER: &str = "$ARGUMENTS";

/// Lists the skills that a user can start.
#[must_use]
pub fn prompts(snapshot: &Snapshot) -> Vec<PromptView> {
    let by_user = snapshot.active().filter(|skill| skill.traits.invocation.by_user());
    by_user
        .map(|skill| PromptView {
            name: skill.key.skill_name.to_string(),
            title: skill.display_name().to_owned(),
            description: description(skill),
            argument_hint: skill.traits.argument_hint.clone(),
        })
        .collect()
}

/// A client shows the description before the user starts it, so it is there that a warning is read.
fn description(skill: &Skill) -> String {
    match skill.trust {
        Trust::Trusted => skill.description.clone(),
        Trust::Untrusted => format!("[of a directory that is not trusted] {}", skill.description),
    }
}

/// Writes the prompt of a slash command. It reads the skill's file.
///
/// # Errors
/// Says when no such skill can be started by a user, or it cannot be read.
pub fn prompt(snapshot: &Snapshot, name: &str, arguments: &str) -> Result<String, Error> {
    let skill = snapshot.by_name(name)?;
    if !skill.traits.invocation.by_user() {
        let why = "its frontmatter says `user-invocable: false`".to_owned();
        let fix = "ask the agent to load it".to_owned();
        return Err(Error::Hidden { name: name.to_owned(), why, fix });
    }
    Ok(expanded(skill, skill.read()?.body(), arguments.trim()))
}

fn expanded(skill: &Skill, body: &str, arguments: &str) -> String {
    let body = body.trim_end();
    let text = if body.contains(PLACEHOLDER) {
        body.replace(PLACEHOLDER, arguments)
    } else if arguments.is_empty() {
        body.to_owned()
    } else {
        format!("{body}\n\nARGUMENTS: {arguments}")
    };
    format!("Base directory of this skill: {}\n\n{text}", skill.base())
}
