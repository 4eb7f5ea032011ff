//! Skills as slash commands: the text after the name replaces `$ARGUMENTS` in the skill.

use serde::Serialize;

use crate::{Error, Skill, Snapshot, Trust};

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptView {
    /// Name of the command.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// The description.
    pub description: String,
    /// Hint for its arguments, if the skill has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
}

const PLACEHOLDER: &str = "$ARGUMENTS";

/// Lists the skills that a user can invoke.
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

/// Returns the description, with a warning for untrusted skills: clients show it before the user invokes the command.
fn description(skill: &Skill) -> String {
    match skill.trust {
        Trust::Trusted => skill.description.clone(),
        Trust::Untrusted => format!("[from an untrusted directory] {}", skill.description),
    }
}

/// Returns the prompt of a slash command. It reads the skill's file.
///
/// # Errors
/// Returns an error if the skill does not exist, users cannot invoke it, or it cannot be read.
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
