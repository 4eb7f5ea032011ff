//! Policies for commands: word patterns, matched against every command that a line runs.

use meerkat_process::fits_pattern;

use super::builtins::is_opaque;
use super::command::{CommandParseError, SimpleCommand, Word, WordKind, parse};
use super::nested::{NestedCommands, joined, launch, sets_variables};

/// Commands that may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Policy {
    /// All commands.
    #[default]
    Any,
    /// Only commands that match one of these patterns.
    Allow(Vec<String>),
    /// All commands except those that match one of these patterns.
    Deny(Vec<String>),
}

/// Reason a line was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PolicyError {
    /// The line cannot be checked.
    #[error("cannot check this command against `shell.security_patterns`: {0}")]
    Unclear(#[from] CommandParseError),
    /// A command in the line is not allowed.
    #[error("`{0}` is not an allowed command (`shell.security_patterns`)")]
    NotAllowed(String),
    /// A command in the line is denied.
    #[error("`{0}` is a denied command (`shell.security_patterns`)")]
    Denied(String),
    /// A command in the line runs others, which cannot be determined.
    #[error(
        "cannot determine which commands `{0}` runs, and some commands are denied; run the command directly, or ask \
         the owner for an allow list (`shell.security_mode`)"
    )]
    Undeterminable(String),
    /// The same under an allow list, where the command must be allowed by name.
    #[error("cannot determine which commands `{0}` runs, and no allowed pattern names it")]
    Unnamed(String),
    /// A command in the line runs another one, but it is ambiguous which of its words that is.
    #[error("cannot determine from its options which command `{0}` runs; use fewer or shorter options")]
    Hidden(String),
    /// A command in the line is a builtin that can run code hidden in its arguments, or change what later commands
    /// mean.
    #[error(
        "commands are restricted, and `{0}` can set variables or run code in its arguments; only a pattern without \
         `*` allows it"
    )]
    Opaque(String),
    /// Commands are nested too deeply.
    #[error("commands that run other commands are nested too deeply to check")]
    TooDeep,
    /// The line writes or reads a file by redirection.
    #[error("redirection to `{0}` is not allowed when commands are restricted")]
    Redirection(String),
}

/// Maximum nesting of commands that run commands.
const MAX_DEPTH: usize = 16;

impl Policy {
    /// Returns an error if a line must not run.
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

/// Checks the commands that a wrapper runs in place of the wrapper, or in addition to it if it has an action of its
/// own.
fn allowed(patterns: &[String], command: &SimpleCommand, depth: usize) -> Result<(), PolicyError> {
    if let Some(file) = command.files.first() {
        return Err(PolicyError::Redirection(file.text.clone()));
    }
    let depth = depth.checked_sub(1).ok_or(PolicyError::TooDeep)?;
    // A name must be that of a program on the search path: any file can have the same name.
    let fits = |pattern: &&String| matches(pattern, command, glob);
    // Without a star, the owner has spelled out the command.
    if patterns.iter().filter(fits).any(|pattern| !pattern.contains('*')) {
        return Ok(());
    }
    if is_opaque(command) {
        return Err(PolicyError::Opaque(command.display()));
    }
    let own = || {
        let fits = patterns.iter().any(|pattern| fits(&pattern));
        if fits { Ok(()) } else { Err(PolicyError::NotAllowed(command.display())) }
    };
    let all =
        |inner: &[SimpleCommand]| inner.iter().try_for_each(|command| allowed(patterns, command, depth));
    match launch(command)? {
        NestedCommands::Nothing => own(),
        NestedCommands::Only(inner) => all(&inner),
        NestedCommands::Additional(inner) => {
            own()?;
            // A variable such as `PATH` determines which program a name refers to.
            if sets_variables(command) {
                return Err(CommandParseError::Assignment.into());
            }
            all(&inner)
        }
        NestedCommands::Hidden => own().and(Err(PolicyError::Hidden(command.name()))),
        NestedCommands::Unknown => {
            let names = |pattern: &&String| !pattern.split_whitespace().next().unwrap_or("*").contains('*');
            let named = patterns.iter().filter(fits).any(|pattern| names(&pattern));
            if named { Ok(()) } else { own().and(Err(PolicyError::Unnamed(command.name()))) }
        }
    }
}

fn not_denied(patterns: &[String], command: &SimpleCommand, depth: usize) -> Result<(), PolicyError> {
    let depth = depth.checked_sub(1).ok_or(PolicyError::TooDeep)?;
    let by_any_path = |wanted: &str, name: &str| glob(wanted, name) || glob(base(wanted), base(name));
    if patterns.iter().any(|pattern| matches(pattern, command, by_any_path)) {
        return Err(PolicyError::Denied(command.display()));
    }
    if is_opaque(command) {
        return Err(PolicyError::Opaque(command.display()));
    }
    let all =
        |inner: &[SimpleCommand]| inner.iter().try_for_each(|command| not_denied(patterns, command, depth));
    match launch(command)? {
        NestedCommands::Nothing => {}
        NestedCommands::Only(inner) | NestedCommands::Additional(inner) => all(&inner)?,
        NestedCommands::Unknown | NestedCommands::Hidden => {
            return Err(PolicyError::Undeterminable(command.name()));
        }
    }
    // If something is denied for the program, the shell's expansion of a word may be exactly that.
    let is_pattern = |word: &Word| word.kind == WordKind::Pattern && word.text != "[" && word.text != "]";
    let programs = patterns.iter().filter_map(|pattern| pattern.split_whitespace().next());
    let name = command.words.first().map_or("", |word| &word.text);
    if command.words.iter().any(is_pattern) && programs.into_iter().any(|wanted| by_any_path(wanted, name)) {
        return Err(CommandParseError::Expansion.into());
    }
    Ok(())
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Matches the words of a pattern and a command. `*` as the last word matches any number of words, including none.
fn matches(pattern: &str, command: &SimpleCommand, name: impl Fn(&str, &str) -> bool) -> bool {
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
        // The shell's expansion is unknown; only a pattern that matches everything matches it.
        WordKind::Pattern => *wanted == "*",
    };
    wanted.iter().zip(words).all(fits)
}

/// Matches a word; `*` matches any characters except `/`, unless it is the whole pattern.
fn glob(pattern: &str, text: &str) -> bool {
    pattern == "*" || fits_pattern(pattern, text)
}

impl SimpleCommand {
    fn name(&self) -> String {
        self.words.first().map_or("", |word| base(&word.text)).to_owned()
    }

    fn display(&self) -> String {
        joined(&self.words).chars().take(200).collect()
    }
}

#[cfg(test)]
mod tests;
