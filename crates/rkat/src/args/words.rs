//! Normalization of command-line arguments before the grammar parses them.

use std::ffi::OsString;

use clap::CommandFactory as _;

use super::Cli;
use crate::locate::is_reference;

/// Returns the arguments in the form that the grammar parses.
pub(crate) fn normalize(args: Vec<OsString>) -> Vec<OsString> {
    with_session(insert_default_command(args))
}

/// Rewrites `--resume ID` to `--resume=ID`. A following word that cannot be a session is left alone: it is the prompt,
/// unless another word follows it.
fn with_session(args: Vec<OsString>) -> Vec<OsString> {
    let mut joined = Vec::with_capacity(args.len());
    let mut words = args.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--resume" && is_followed_by_two_words(&words) {
            let session = words.next().unwrap_or_default();
            joined.push(format!("--resume={}", session.to_string_lossy()).into());
            continue;
        }
        if word == "--" {
            joined.push(word);
            break;
        }
        let session = words.next_if(|next| word == "--resume" && next.to_str().is_some_and(is_reference));
        joined.push(match session.as_ref().and_then(|session| session.to_str()) {
            Some(session) => format!("--resume={session}").into(),
            None => word,
        });
    }
    joined.extend(words);
    joined
}

/// Returns `true` if neither of the next two words is an option: a session, even if mistyped, and a prompt.
fn is_followed_by_two_words(words: &(impl Iterator<Item = OsString> + Clone)) -> bool {
    let is_word =
        |word: &OsString| !word.to_string_lossy().starts_with('-') && !word.to_string_lossy().contains(' ');
    let mut next = words.clone();
    next.next().is_some_and(|session| is_word(&session))
        && next.next().is_some_and(|prompt| !prompt.to_string_lossy().starts_with('-'))
}

/// Inserts `run` before a prompt that has no command.
fn insert_default_command(mut args: Vec<OsString>) -> Vec<OsString> {
    let command = Cli::command();
    let is_command = |word: &str| word == "help" || command.find_subcommand(word).is_some();
    let takes_value = |word: &str| {
        let long = word.strip_prefix("--");
        command.get_arguments().any(|arg| {
            let matches = long.is_some_and(|name| arg.get_long() == Some(name))
                || word.strip_prefix('-').is_some_and(|name| {
                    arg.get_short().is_some_and(|short| name.len() == 1 && name.starts_with(short))
                });
            matches && arg.get_action().takes_values()
        })
    };
    let is_global = |word: &str| {
        let name = word.split('=').next().unwrap_or(word);
        takes_value(name) || ["--isolated", "--help", "-h", "--version", "-V"].contains(&name)
    };
    let mut index = 1;
    while let Some(word) = args.get(index).and_then(|word| word.to_str()) {
        if !is_global(word) {
            break;
        }
        index += if takes_value(word) { 2 } else { 1 };
    }
    let first = args.get(index).and_then(|word| word.to_str());
    if first.is_some_and(|word| !is_command(word)) {
        args.insert(index, "run".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(words: &[&str]) -> Vec<String> {
        let args = words.iter().map(OsString::from).collect();
        normalize(args).into_iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn prompt_without_command_inserts_run() {
        let cases: [(&[&str], &[&str]); 8] = [
            (&["rkat", "hello there"], &["rkat", "run", "hello there"]),
            (&["rkat", "run", "hello"], &["rkat", "run", "hello"]),
            (&["rkat", "session", "list"], &["rkat", "session", "list"]),
            (&["rkat", "-r", "team", "hello"], &["rkat", "-r", "team", "run", "hello"]),
            (&["rkat", "--realm=team", "hello"], &["rkat", "--realm=team", "run", "hello"]),
            (&["rkat", "--resume", "go on"], &["rkat", "run", "--resume", "go on"]),
            (&["rkat", "--help"], &["rkat", "--help"]),
            (&["rkat"], &["rkat"]),
        ];
        for (args, expected) in cases {
            assert_eq!(rewritten(args), expected, "{args:?}");
        }
    }

    #[test]
    fn session_after_resume_is_joined() {
        let cases: [(&[&str], &[&str]); 7] = [
            (&["rkat", "run", "--resume", "lst", "say hi"], &["rkat", "run", "--resume=lst", "say hi"]),
            (&["rkat", "run", "--resume", "go on", "twice"], &["rkat", "run", "--resume", "go on", "twice"]),
            (&["rkat", "run", "--resume", "last", "hi"], &["rkat", "run", "--resume=last", "hi"]),
            (&["rkat", "--resume", "01a1ee8a", "hi"], &["rkat", "run", "--resume=01a1ee8a", "hi"]),
            (&["rkat", "run", "hi", "--resume", "@1"], &["rkat", "run", "hi", "--resume=@1"]),
            (&["rkat", "run", "--resume", "go on"], &["rkat", "run", "--resume", "go on"]),
            (&["rkat", "run", "--", "--resume", "last"], &["rkat", "run", "--", "--resume", "last"]),
        ];
        for (args, expected) in cases {
            assert_eq!(rewritten(args), expected, "{args:?}");
        }
    }
}
