//! Which commands may be run: patterns of words, matched against every command that a line runs.

use super::command::{Simple, Unclear, Word, WordKind, parse};

/// Which commands may be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Policy {
    /// Any.
    #[default]
    Any,
    /// Only those that fit one of these patterns.
    Allow(Vec<String>),
    /// All but those that fit one of these patterns.
    Deny(Vec<String>),
}

/// Why a line is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PolicyError {
    /// It cannot be judged.
    #[error("commands are restricted here, and this one cannot be judged: {0}")]
    Unclear(#[from] Unclear),
    /// A command in it is not allowed.
    #[error("`{0}` is not among the commands that are allowed here")]
    NotAllowed(String),
    /// A command in it is denied.
    #[error("`{0}` is denied here")]
    Denied(String),
    /// A command in it runs others, which cannot be seen.
    #[error("`{0}` runs other commands, and some are denied here")]
    Launcher(String),
    /// It writes or reads a file by redirection.
    #[error("redirection to `{0}` is not allowed where commands are restricted")]
    Redirection(String),
}

/// Programs whose arguments or input are themselves commands.
const LAUNCHERS: [&str; 44] = [
    ".", "ash", "at", "awk", "bash", "batch", "builtin", "busybox", "chroot", "command", "csh", "dash",
    "doas", "env", "eval", "exec", "expect", "find", "fish", "flock", "gawk", "ionice", "ksh", "make",
    "mawk", "nice", "nohup", "nu", "parallel", "perl", "script", "setsid", "sh", "source", "ssh", "stdbuf",
    "strace", "su", "sudo", "taskset", "tcsh", "timeout", "xargs", "zsh",
];

impl Policy {
    /// Says whether a line may be run.
    pub(super) fn check(&self, line: &str) -> Result<(), PolicyError> {
        match self {
            Self::Any => Ok(()),
            Self::Allow(patterns) => parse(line)?.iter().try_for_each(|command| allowed(patterns, command)),
            Self::Deny(patterns) if patterns.is_empty() => Ok(()),
            Self::Deny(patterns) => parse(line)?.iter().try_for_each(|command| not_denied(patterns, command)),
        }
    }
}

fn allowed(patterns: &[String], command: &Simple) -> Result<(), PolicyError> {
    if let Some(file) = command.files.first() {
        return Err(PolicyError::Redirection(file.text.clone()));
    }
    // A name must be that of a program on the search path: any file can be called like one.
    let fits = |pattern: &String| matches(pattern, command, glob);
    if patterns.iter().any(fits) { Ok(()) } else { Err(PolicyError::NotAllowed(command.shown())) }
}

fn not_denied(patterns: &[String], command: &Simple) -> Result<(), PolicyError> {
    let name = command.words.first().map_or("", |word| base(&word.text));
    let by_any_path = |wanted: &str, name: &str| glob(wanted, name) || glob(base(wanted), base(name));
    if patterns.iter().any(|pattern| matches(pattern, command, by_any_path)) {
        return Err(PolicyError::Denied(command.shown()));
    }
    if LAUNCHERS.contains(&name) {
        return Err(PolicyError::Launcher(name.to_owned()));
    }
    match command
        .words
        .iter()
        .find(|word| word.kind == WordKind::Pattern && word.text != "[" && word.text != "]")
    {
        Some(_) => Err(Unclear::Expansion.into()),
        None => Ok(()),
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Matches a pattern's words with a command's. `*` as the last word stands for any words, none included.
fn matches(pattern: &str, command: &Simple, name: impl Fn(&str, &str) -> bool) -> bool {
    let wanted: Vec<&str> = pattern.split_whitespace().collect();
    let Some((program, wanted)) = wanted.split_first() else { return false };
    let Some((first, words)) = command.words.split_first() else { return false };
    if !name(program, &first.text) {
        return false;
    }
    match wanted.split_last() {
        Some((&"*", leading)) => words.len() >= leading.len() && all_fit(leading, words),
        _ => words.len() == wanted.len() && all_fit(wanted, words),
    }
}

fn all_fit(wanted: &[&str], words: &[Word]) -> bool {
    let fits = |(wanted, word): (&&str, &Word)| match word.kind {
        WordKind::Plain => glob(wanted, &word.text),
        // What the shell makes of it is not known; only a pattern that takes anything takes it.
        WordKind::Pattern => *wanted == "*",
    };
    wanted.iter().zip(words).all(fits)
}

/// Matches a word; `*` stands for any letters but `/`, unless it is the whole pattern.
fn glob(pattern: &str, text: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let reach = rest.find('/').unwrap_or(rest.len());
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).take_while(|at| *at <= reach);
    ends.into_iter().any(|at| glob_tail(tail, &rest[at..]))
}

fn glob_tail(pattern: &str, text: &str) -> bool {
    // A star inside a word is never the whole pattern.
    if pattern == "*" { !text.contains('/') } else { glob(pattern, text) }
}

impl Simple {
    fn shown(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ").chars().take(200).collect()
    }
}

#[cfg(test)]
mod tests;
