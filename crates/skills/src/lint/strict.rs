//! The rules of the format, as strict as in the reference validator.
//!
//! The validator ends the frontmatter at the next three hyphens wherever they are, and accepts only plain YAML.

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::Finding;
use crate::document::{Field, Quirk, Yaml, YamlError, read_yaml};

const KNOWN: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;

pub(super) fn check(dir: &str, file: &[u8]) -> Vec<Finding> {
    let Ok(text) = std::str::from_utf8(file) else {
        return vec![Finding::error("encoding", 1, "the file is not UTF-8", "save it as UTF-8")];
    };
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let Some(rest) = text.strip_prefix("---") else {
        let what = if text.starts_with('\u{feff}') {
            "the file starts with a byte order mark"
        } else {
            "the file does not start with `---`"
        };
        return vec![Finding::error("frontmatter", 1, what, "make `---` the first characters of the file")];
    };
    let Some(end) = rest.find("---") else {
        return vec![Finding::error("frontmatter", 1, "the frontmatter is not closed", "add a line `---`")];
    };
    let head = &rest[..end];
    if let Some(line) = head.lines().position(|line| line.chars().any(unprintable)) {
        let message = "the frontmatter has a control character";
        return vec![Finding::error("yaml", line + 1, message, "remove it")];
    }
    match read_yaml(head) {
        Ok(yaml) if yaml.fields.is_empty() && yaml.quirks.is_empty() => vec![no_mapping()],
        Ok(yaml) => {
            let finding = plain_style(&yaml).or_else(|| stray_tab(head, &yaml));
            finding.map_or_else(|| fields(dir, &yaml.fields), |finding| vec![finding])
        }
        Err(error) => vec![yaml_finding(&error)],
    }
}

fn yaml_finding(error: &YamlError) -> Finding {
    match error {
        YamlError::Syntax { line, what } => {
            let fix = "put quotes around values that contain `: ` or start with a special character";
            Finding::error("yaml", *line, format!("the frontmatter is not YAML: {what}"), fix)
        }
        YamlError::NoMapping => no_mapping(),
    }
}

fn no_mapping() -> Finding {
    let message = "the frontmatter has no `key: value` lines";
    Finding::error("frontmatter", 1, message, "add `name:` and `description:`")
}

/// Returns `true` for characters that YAML does not allow, even in quotes.
fn unprintable(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    control || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Finds a tab outside of quotes, block scalars, and comments.
fn stray_tab(head: &str, yaml: &Yaml) -> Option<Finding> {
    let guarded = |at: usize| yaml.guarded.iter().any(|range| range.contains(&at));
    let commented = |at: usize| {
        let line = head[..at].rfind('\n').map_or(0, |end| end + 1);
        let marks = head[line..at].match_indices('#').map(|(mark, _)| line + mark);
        marks.into_iter().any(|mark| !guarded(mark) && head[..mark].ends_with([' ', '\n']))
    };
    let stray = |at: &usize| !guarded(*at) && !commented(*at);
    let at = head.match_indices('\t').map(|(at, _)| at).find(stray)?;
    let line = head[..at].matches('\n').count() + 1;
    Some(Finding::error("yaml", line, "a tab is used in place of a space", "use a space instead"))
}

/// Returns the first violation of the plain style of YAML.
fn plain_style(yaml: &Yaml) -> Option<Finding> {
    let (line, quirk) = yaml.quirks.first()?;
    let (message, fix) = match quirk {
        Quirk::FlowStyle => {
            ("a value is in brackets or braces", "write one item on a line, or put quotes around it")
        }
        Quirk::Anchor => {
            ("an anchor or alias (`&`, `*`) is used", "write the value out, or put quotes around it")
        }
        Quirk::Tag => ("a tag (`!`) is used", "remove it, or put quotes around the value"),
        Quirk::DuplicateKey => ("a key is duplicated", "keep one of them"),
        Quirk::OtherDocument => ("a second document follows", "keep one mapping between the `---` lines"),
        Quirk::MergeKey => ("a merge key (`<<`) is used", "write the keys out"),
    };
    Some(Finding::error("yaml", *line, message, fix))
}

fn fields(dir: &str, fields: &[Field]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for field in fields.iter().filter(|field| !is_known(field)) {
        let fix = "move it below `metadata:`, or remove it";
        let message = format!("the key `{}` is unknown", field.key);
        findings.push(Finding::error("unknown-key", field.line, message, fix));
    }
    let find = |key: &str| fields.iter().find(|field| field.key == key);
    for (key, check) in [("name", name as fn(&str, &Field) -> Option<Finding>), ("description", description)]
    {
        match find(key) {
            Some(field) => findings.extend(check(dir, field)),
            None => {
                let message = format!("`{key}` is missing");
                findings.push(Finding::error("required", 1, message, "add it between the `---` lines"));
            }
        }
    }
    findings.extend(find("compatibility").and_then(compatibility));
    findings
}

/// Returns `true` if the key is known. A merge key stands for the keys of its mapping.
fn is_known(field: &Field) -> bool {
    KNOWN.contains(&field.key.as_str()) || (field.key == "<<" && field.value.is_object())
}

fn text(field: &Field) -> Option<&str> {
    field.text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

fn name(dir: &str, field: &Field) -> Option<Finding> {
    let at = |message: String, fix| Some(Finding::error("name", field.line, message, fix));
    let Some(written) = text(field) else {
        return at("the name is empty".to_owned(), "write the name of the directory");
    };
    let name: String = written.nfkc().collect();
    if name.chars().count() > MAX_NAME {
        return at("the name is longer than 64 characters".to_owned(), "shorten it and rename the directory");
    }
    if name != name.to_lowercase() {
        return at(format!("the name `{name}` has uppercase letters"), "write it in lowercase");
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return at(format!("the name `{name}` has misplaced hyphens"), "use single hyphens between letters");
    }
    if !name.chars().all(|c| c == '-' || (c.is_alphanumeric() && !is_combining_mark(c))) {
        return at(format!("the name `{name}` may contain only letters, digits, and hyphens"), "rename it");
    }
    let dir: String = dir.nfkc().collect();
    if dir != name {
        let message = format!("the name `{name}` differs from the directory name `{dir}`");
        return at(message, "make them the same");
    }
    None
}

fn description(_: &str, field: &Field) -> Option<Finding> {
    let Some(_) = text(field) else {
        let fix = "describe what the skill does and when to use it";
        return Some(Finding::error("description", field.line, "the description is empty", fix));
    };
    let length = field.text.as_deref().unwrap_or_default().chars().count();
    (length > MAX_DESCRIPTION).then(|| {
        let message = format!("the description has {length} characters, more than 1024");
        Finding::error("description", field.line, message, "shorten it; move details into the body")
    })
}

fn compatibility(field: &Field) -> Option<Finding> {
    let Some(text) = &field.text else {
        let message = "`compatibility` is not a string";
        return Some(Finding::error("compatibility", field.line, message, "write it as one line"));
    };
    let long = text.chars().count() > MAX_COMPATIBILITY && !matches!(field.value, Value::Null);
    let message = "`compatibility` is longer than 500 characters";
    long.then(|| Finding::error("compatibility", field.line, message, "shorten it"))
}
