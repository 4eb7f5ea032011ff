//! The system prompt: named sections, rendered in one place.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;

use crate::config::{AgentConfig, ConfigError};

/// Parts of a run's system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SystemPrompt<'a> {
    /// The session's own prompt, instead of the configured or the default one.
    pub(crate) session_prompt: Option<&'a str>,
    /// Preloaded skills, and the list of available ones.
    pub(crate) skills: &'a [String],
    /// Additional sections.
    pub(crate) instructions: &'a [String],
}

const DEFAULT: &str = "You are an agent run by Meerkat. Do what the user asks, using the tools you have where they \
help. When a tool fails, read its error, and try another way or say what is missing. Say plainly what you did, \
what you found and what you could not do.";

/// Maximum length of a section of instructions, in bytes.
pub(crate) const MAX_SECTION_BYTES: usize = 32 * 1024;

/// Reads a system prompt from a file.
pub(crate) async fn read_file(file: PathBuf) -> Result<String, ConfigError> {
    let path = file.display().to_string();
    let error =
        |problem: &str| ConfigError::Invalid(format!("`agent.system_prompt_file`: `{path}` {problem}"));
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        std::fs::File::open(file)?.take(MAX_SECTION_BYTES as u64 + 1).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    });
    match read.await {
        Ok(Ok(text)) if text.len() <= MAX_SECTION_BYTES => Ok(text),
        Ok(Ok(_)) => Err(error(&format!("is longer than {MAX_SECTION_BYTES} bytes"))),
        Ok(Err(source)) => Err(error(&format!("cannot be read: {source}"))),
        Err(source) => Err(error(&format!("cannot be read: {source}"))),
    }
}

impl SystemPrompt<'_> {
    pub(crate) fn render(&self, config: &AgentConfig) -> String {
        let base = self.session_prompt.or(config.system_prompt.as_deref()).unwrap_or(DEFAULT);
        let mut prompt = base.to_owned();
        // Skill sections are truncated when they are built, and must keep their endings.
        for section in self.skills {
            let _ = write!(prompt, "\n\n{section}");
        }
        let extra = self.instructions.iter().map(String::as_str).chain(config.tool_instructions.as_deref());
        for section in extra.map(str::trim).filter(|section| !section.is_empty()) {
            let bounded = &section[..section.floor_char_boundary(MAX_SECTION_BYTES)];
            // Writing to a string cannot fail.
            let _ = write!(prompt, "\n\n{bounded}");
        }
        prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_follow_the_base_in_order() {
        let config =
            AgentConfig { tool_instructions: Some("Prefer tools.".to_owned()), ..AgentConfig::default() };
        let instructions = ["Be brief.".to_owned(), "  ".to_owned()];
        let own = SystemPrompt {
            session_prompt: Some("You review code."),
            skills: &["<skill/>".to_owned()],
            instructions: &instructions,
        };
        assert_eq!(own.render(&config), "You review code.\n\n<skill/>\n\nBe brief.\n\nPrefer tools.");
        let plain = SystemPrompt::default().render(&AgentConfig::default());
        assert!(plain.starts_with("You are an agent run by Meerkat."), "{plain}");
        let configured =
            AgentConfig { system_prompt: Some("From config.".to_owned()), ..AgentConfig::default() };
        assert_eq!(SystemPrompt::default().render(&configured), "From config.");
    }
}
