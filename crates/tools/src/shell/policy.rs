//! Which commands may be run: patterns of words, matched against every command that a line runs.

use super::builtins::is_opaque;
use super::command::{Simple, Unclear, Word, WordKind, parse};
use super::launch::{Launch, launch, sets_variables};

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
    #[error(
        "what `{0}` runs cannot be seen, and some commands are denied here; run the command itself, or ask the owner for \
         an allow list (`shell.security_mode`)"
    )]
    Unseen(String),
    /// Under an allow list, the same must be allowed by its name.
    #[error("what `{0}` runs cannot be seen, and no pattern that is allowed here names it")]
    Unnamed(String),
    /// A command in it runs another, and it is not clear which of its words that is.
    #[error("the command that `{0}` runs cannot be told from its options; use fewer or shorter options")]
    Hidden(String),
    /// A command in it is a builtin that can run code hidden in its arguments, or change what later commands mean.
    #[error(
        "commands are restricted here, and `{0}` can set variables or run code in its arguments; only a pattern without \
         `*` allows it"
    )]
    Opaque(String),
    /// Commands are hidden in too many others.
    #[error("a command that runs a command that runs a command, and so on, is not judged")]
    TooDeep,
    /// It writes or reads a file by redirection.
    #[error("redirection to `{0}` is not allowed where commands are restricted")]
    Redirection(String),
}

/// How many commands may run one another.
const MAX_DEPTH: usize = 16;

impl Policy {
    /// Says whether a line may be run.
    pub(super) fn check(&self, line: &str) -> Result<(), PolicyError> {
        let judge = match self {
            Self::Any => return Ok(()),
            Self::Deny(patterns) if patterns.is_empty() => return Ok(()),
            Self::Allow(_) => allowed,
            Self::Deny(_) => not_denied,
        };
        let (Self::Allow(patterns) | Self::Deny(patterns)) = self else { return Ok(()) };
        parse(line)?.iter().try_for_each(|command| judge(patterns, command, MAX_DEPTH))
    }
}

/// What a wrapper runs is looked at in place of the wrapper, or besides it where it does something by itself.
fn allowed(patterns: &[String], command: &Simple, depth: usize) -> Result<(), PolicyError> {
    if let Some(file) = command.files.first() {
        return Err(PolicyError::Redirection(file.text.clone()));
    }
    let depth = depth.checked_sub(1).ok_or(PolicyError::TooDeep)?;
    // A name must be that of a program on the search path: any file can be called like one.
    let fits = |pattern: &&String| matches(pattern, command, glob);
    // Without a star, the owner has spelled out what is run.
    if patterns.iter().filter(fits).any(|pattern| !pattern.contains('*')) {
        return Ok(());
    }
    if is_opaque(command) {
        return Err(PolicyError::Opaque(command.shown()));
    }
    let own = || {
        let fits = patterns.iter().any(|pattern| fits(&pattern));
        if fits { Ok(()) } else { Err(PolicyError::NotAllowed(command.shown())) }
    };
    let all = |inner: &[Simple]| inner.iter().try_for_each(|command| allowed(patterns, command, depth));
    match launch(command)? {
        Launch::Nothing => own(),
        Launch::Only(inner) => all(&inner),
        Launch::Also(inner) => {
            own()?;
            // A variable such as `PATH` decides which program a name stands for.
            if sets_variables(command) {
                return Err(Unclear::Assignment.into());
            }
            all(&inner)
        }
        Launch::Hidden => own().and(Err(PolicyError::Hidden(command.name()))),
        Launch::Unseen => {
            let names = |pattern: &&String| !pattern.split_whitespace().next().unwrap_or("*").contains('*');
            let named = patterns.iter().filter(fits).any(|pattern| names(&pattern));
            if named { Ok(()) } else { own().and(Err(PolicyError::Unnamed(command.name()))) }
        }
    }
}

fn not_denied(patterns: &[String], command: &Simple, depth: usize) -> Result<(), PolicyError> {
    let depth = depth.checked_sub(1).ok_or(PolicyError::TooDeep)?;
    let by_any_path = |wanted: &str, name: &str| glob(wanted, name) || glob(base(wanted), base(name));
    if patterns.iter().any(|pattern| matches(pattern, command, by_any_path)) {
        return Err(PolicyError::Denied(command.shown()));
    }
    if is_opaque(command) {
        return Err(PolicyError::Opaque(command.shown()));
    }
    let all = |inner: &[Simple]| inner.iter().try_for_each(|command| not_denied(patterns, command, depth));
    match launch(command)? {
        Launch::Nothing => {}
        Launch::Only(inner) | Launch::Also(inner) => all(&inner)?,
        Launch::Unseen | Launch::Hidden => return Err(PolicyError::Unseen(command.name())),
    }
    // What the shell makes of a word may be what is denied, where the program is one of which something is.
    let is_pattern = |word: &Word| word.kind == WordKind::Pattern && word.text != "[" && word.text != "]";
    let programs = patterns.iter().filter_map(|pattern| pattern.split_whitespace().next());
    let name = command.words.first().map_or("", |word| &word.text);
    if command.words.iter().any(is_pattern) && programs.into_iter().any(|wanted| by_any_path(wanted, name)) {
        return Err(Unclear::Expansion.into());
    }
    Ok(())
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
    fn name(&self) -> String {
        self.words.first().map_or("", |word| base(&word.text)).to_owned()
    }

    fn shown(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ").chars().take(200).collect()
    }
}

#[cfg(test)]
mod tests;
