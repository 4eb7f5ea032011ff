//! The config file: a YAML mapping in which every key may be left out, or a list with one such mapping.

use std::path::Path;
use std::time::Duration;

use granit_parser::{Event, Parser};
use meerkat_registry::Options;

/// Why a config file is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Read(#[from] std::io::Error),
    /// It is not YAML.
    #[error("line {line}: {what}")]
    Syntax {
        /// Where.
        line: usize,
        /// What the parser says.
        what: String,
    },
    /// It is empty, or something else than a mapping.
    #[error("it is not a mapping")]
    NoMapping,
    /// A value does not fit.
    #[error("`{key}` must be {wanted}")]
    Value {
        /// The key.
        key: String,
        /// What it must be.
        wanted: &'static str,
    },
}

/// Reads a config file. Keys that are not known are passed over.
pub fn read(path: &Path) -> Result<Options, ConfigError> {
    parse(&std::fs::read_to_string(path)?)
}

fn parse(text: &str) -> Result<Options, ConfigError> {
    let mut options = Options::default();
    for (path, value) in scalars(text)? {
        let key = path.join(".");
        match key.as_str() {
            "scopes.skills" => options.scopes.skills = named(key, value)?,
            "scopes.prompts" => options.scopes.prompts = named(key, value)?,
            "state_timeout_ms" => {
                let wanted = "a number of milliseconds";
                let number = value.parse().map_err(|_| ConfigError::Value { key, wanted })?;
                options.timeout = Duration::from_millis(number);
            }
            _ => {}
        }
    }
    Ok(options)
}

fn named(key: String, value: String) -> Result<String, ConfigError> {
    let wanted = "the name of a scope";
    if value.trim().is_empty() { Err(ConfigError::Value { key, wanted }) } else { Ok(value) }
}

/// The texts of a mapping, each with the keys that lead to it; what is inside sequences is left out.
fn scalars(text: &str) -> Result<Vec<(Vec<String>, String)>, ConfigError> {
    let mut found = Vec::new();
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
                done(&mut path, sequences);
            }
            _ if sequences > 0 => {}
            Event::MappingStart(..) => path.push(None),
            Event::MappingEnd => {
                path.pop();
                if path.is_empty() {
                    return Ok(found);
                }
                done(&mut path, sequences);
            }
            Event::Scalar(text, ..) => match path.last_mut() {
                Some(key @ None) => *key = Some(text.to_string()),
                _ => {
                    found.push((path.iter().flatten().cloned().collect(), text.to_string()));
                    done(&mut path, sequences);
                }
            },
            _ => {}
        }
    }
    Err(ConfigError::NoMapping)
}

/// The value of a key is over; the next thing in its mapping is a key.
fn done(path: &mut [Option<String>], sequences: usize) {
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
    fn every_key_may_be_left_out_and_others_are_passed_over() {
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
    fn what_is_no_config_is_refused() {
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
