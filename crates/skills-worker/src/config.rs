//! The config file: a YAML mapping in which every key is optional, or a list with one such mapping.

use std::path::Path;
use std::time::Duration;

use granit_parser::{Event, Parser};
use meerkat_registry::Options;

/// Error reading a config file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Read(#[from] std::io::Error),
    /// The file is not valid YAML.
    #[error("line {line}: {what}")]
    Syntax {
        /// Line number.
        line: usize,
        /// Error of the parser.
        what: String,
    },
    /// The file is empty or not a mapping.
    #[error("not a mapping")]
    NoMapping,
    /// A value is invalid.
    #[error("`{key}` must be {expected}")]
    Value {
        /// The key.
        key: String,
        /// Description of a valid value.
        expected: &'static str,
    },
}

/// Reads a config file. Unknown keys are ignored.
pub fn read(path: &Path) -> Result<Options, ConfigError> {
    parse(&std::fs::read_to_string(path)?)
}

fn parse(text: &str) -> Result<Options, ConfigError> {
    let mut options = Options::default();
    for (path, value) in read_scalars(text)? {
        let key = path.join(".");
        match key.as_str() {
            "scopes.skills" => options.scopes.skills = scope_name(key, value)?,
            "scopes.prompts" => options.scopes.prompts = scope_name(key, value)?,
            "state_timeout_ms" => {
                let expected = "a number of milliseconds";
                let number = value.parse().map_err(|_| ConfigError::Value { key, expected })?;
                options.timeout = Duration::from_millis(number);
            }
            _ => {}
        }
    }
    Ok(options)
}

fn scope_name(key: String, value: String) -> Result<String, ConfigError> {
    let expected = "the name of a scope";
    if value.trim().is_empty() { Err(ConfigError::Value { key, expected }) } else { Ok(value) }
}

/// Returns the scalars of a mapping, each with the path of keys to it; sequences are skipped.
fn read_scalars(text: &str) -> Result<Vec<(Vec<String>, String)>, ConfigError> {
    let mut scalars = Vec::new();
    let mut path: Vec<Option<String>> = Vec::new();
    let (mut is_item, mut sequences) = (false, 0_usize);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, _) =
            event.map_err(|error| ConfigError::Syntax { line: error.marker().line(), what: error.info() })?;
        match event {
            // The config block of an engine's list of workers has the mapping as an item of a list.
            Event::SequenceStart(..) if path.is_empty() && !is_item => is_item = true,
            Event::SequenceStart(..) | Event::SequenceEnd | Event::Scalar(..) if path.is_empty() => {
                return Err(ConfigError::NoMapping);
            }
            Event::SequenceStart(..) => sequences += 1,
            Event::SequenceEnd => {
                sequences = sequences.saturating_sub(1);
                end_value(&mut path, sequences);
            }
            _ if sequences > 0 => {}
            Event::MappingStart(..) => path.push(None),
            Event::MappingEnd => {
                path.pop();
                if path.is_empty() {
                    return Ok(scalars);
                }
                end_value(&mut path, sequences);
            }
            Event::Scalar(text, ..) => match path.last_mut() {
                Some(key @ None) => *key = Some(text.to_string()),
                _ => {
                    scalars.push((path.iter().flatten().cloned().collect(), text.to_string()));
                    end_value(&mut path, sequences);
                }
            },
            _ => {}
        }
    }
    Err(ConfigError::NoMapping)
}

/// Ends the value of a key; the next node in its mapping is a key.
fn end_value(path: &mut [Option<String>], sequences: usize) {
    if let Some(key) = path.last_mut().filter(|_| sequences == 0) {
        *key = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, String, u128), String> {
        let options = parse(text).map_err(|error| error.to_string())?;
        Ok((options.scopes.skills, options.scopes.prompts, options.timeout.as_millis()))
    }

    #[test]
    fn keys_are_optional_and_unknown_keys_ignored() {
        let all = |skills: &str, prompts: &str, time| Ok((skills.to_owned(), prompts.to_owned(), time));
        let cases = [
            ("scopes:\n  skills: s\n  prompts: p\nstate_timeout_ms: 5\n", all("s", "p", 5)),
            ("scopes: {prompts: p}\n", all("skills", "p", 10_000)),
            ("state_timeout_ms: 7\nother: [a, {b: c}]\nscopes:\n  skills: s\n", all("s", "prompts", 7)),
            ("other: {x: {skills: no}}\n", all("skills", "prompts", 10_000)),
            ("- scopes:\n    prompts: p\n    skills: s\n  state_timeout_ms: 9\n", all("s", "p", 9)),
            ("[{scopes: {skills: s}, other: [a]}]\n", all("s", "prompts", 10_000)),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_configs_are_rejected() {
        for text in [
            "",
            "# nothing\n",
            "- a\n",
            "[]\n",
            "- [a]\n",
            "- - scopes: {skills: s}\n",
            "text",
            "scopes: [",
            "state_timeout_ms: soon\n",
            "scopes: {skills: ''}\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
