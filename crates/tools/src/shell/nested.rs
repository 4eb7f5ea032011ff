//! Commands that run other commands: which ones, where that can be determined in advance.

use super::builtins::may_be_option;
use super::command::{CommandParseError, SimpleCommand, Word, WordKind, parse};

/// The commands that a command runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NestedCommands {
    /// None that its arguments name.
    Nothing,
    /// Only these commands.
    Only(Vec<SimpleCommand>),
    /// These commands, in addition to its own action.
    Additional(Vec<SimpleCommand>),
    /// Commands that cannot be determined.
    Unknown,
    /// A command among its words, with an unclear start.
    Hidden,
}

/// A program whose last arguments are a command.
struct Wrapper {
    name: &'static str,
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options with a value, in the same word or the next.
    valued: &'static [&'static str],
    /// Number of arguments before the command.
    operands: usize,
}

const fn wrapper(
    name: &'static str,
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, flags, valued, operands }
}

/// An option that is not listed hides the command.
const WRAPPERS: [Wrapper; 14] = [
    wrapper("builtin", &["--"], &[], 0),
    wrapper("busybox", &[], &[], 0),
    wrapper("chroot", &["--"], &[], 1),
    wrapper("command", &["-p", "--"], &[], 0),
    wrapper("doas", &["-n", "--"], &["-u"], 0),
    wrapper("exec", &["-c", "-l", "--"], &["-a"], 0),
    wrapper("ionice", &["-t", "--"], &["-c", "-n"], 0),
    wrapper("nice", &["--"], &["-n"], 0),
    wrapper("nohup", &["--"], &[], 0),
    wrapper("setsid", &["-c", "-f", "-w", "--"], &[], 0),
    wrapper("stdbuf", &["--"], &["-i", "-o", "-e"], 0),
    wrapper("sudo", &["-A", "-b", "-E", "-H", "-k", "-n", "-S", "--"], &["-u", "-g", "-p"], 0),
    wrapper("taskset", &["-c", "-a", "--"], &[], 1),
    wrapper("timeout", &["-v", "--foreground", "--preserve-status", "--"], &["-s", "-k"], 1),
];

/// The wrapper for `xargs`, which adds arguments.
const XARGS: Wrapper = wrapper(
    "xargs",
    &["-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--"],
    &["-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"],
    0,
);
/// The wrapper for `env`, which sets variables.
const ENV: Wrapper = wrapper("env", &["-", "-i", "-v", "-0", "--"], &["-u", "-C"], 0);

/// Wrappers that also act themselves.
const ACTING: [&str; 4] = ["chroot", "doas", "env", "sudo"];

const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// Programs that run others in ways that are not analyzed.
const UNSEEN: [&str; 49] = [
    ".",
    "at",
    "batch",
    "chrt",
    "cpulimit",
    "csh",
    "dbus-run-session",
    "entr",
    "expect",
    "fakeroot",
    "fish",
    "flock",
    "gdb",
    "ld.so",
    "ltrace",
    "make",
    "nsenter",
    "nu",
    "numactl",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "run-parts",
    "runuser",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "sg",
    "source",
    "ssh",
    "ssh-agent",
    "start-stop-daemon",
    "strace",
    "su",
    "systemd-run",
    "tclsh",
    "tcsh",
    "time",
    "tmux",
    "toybox",
    "unbuffer",
    "unshare",
    "valgrind",
    "vim",
    "watch",
    "xvfb-run",
];

/// Interpreters, and the option letters for inline code. Without a file, they read code from stdin.
const INTERPRETERS: [(&str, &str); 9] = [
    ("bun", "ep"),
    ("deno", "e"),
    ("lua", "ei"),
    ("node", "epi"),
    ("perl", "eE"),
    ("php", "rRB"),
    ("pypy", "ci"),
    ("python", "ci"),
    ("ruby", "e"),
];

/// Returns the commands that a command runs.
pub(super) fn launch(command: &SimpleCommand) -> Result<NestedCommands, CommandParseError> {
    let Some((first, words)) = command.words.split_first() else { return Ok(NestedCommands::Nothing) };
    let name = first.text.rsplit('/').next().unwrap_or_default();
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        return wrapper.inspect(words);
    }
    Ok(match name {
        "env" => env(words),
        "xargs" => XARGS.runs(XARGS.command(words)),
        "find" => find(words),
        // The file names that a pattern expands to would be run as code.
        "eval" if words.iter().any(|word| word.kind == WordKind::Pattern) => {
            return Err(CommandParseError::Expansion);
        }
        "eval" => NestedCommands::Only(parse(&joined(words))?),
        "trap" => return trap(words),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => awk(words),
        _ if SHELLS.contains(&name) => return shell(words),
        _ if UNSEEN.contains(&name) || name.starts_with("ld-") => NestedCommands::Unknown,
        _ => interpreter(name, words),
    })
}

impl Wrapper {
    fn inspect(&self, words: &[Word]) -> Result<NestedCommands, CommandParseError> {
        match self.command(words) {
            // `sudo` accepts variables before the command.
            Some([first, ..]) if first.text.contains('=') => Err(CommandParseError::Assignment),
            inner => Ok(self.runs(inner)),
        }
    }

    fn runs(&self, inner: Option<&[Word]>) -> NestedCommands {
        let mut words = match inner {
            Some([]) => return NestedCommands::Nothing,
            Some([first, ..]) if is_unknown(first) => return NestedCommands::Hidden,
            Some(inner) => inner.to_vec(),
            None => return NestedCommands::Hidden,
        };
        if self.name == "xargs" {
            words.push(Word { text: "*".to_owned(), kind: WordKind::Pattern });
        }
        let inner = vec![SimpleCommand { words, files: Vec::new() }];
        if ACTING.contains(&self.name) {
            NestedCommands::Additional(inner)
        } else {
            NestedCommands::Only(inner)
        }
    }

    /// Returns the words of the command; `None` if they are ambiguous.
    fn command<'a>(&self, mut words: &'a [Word]) -> Option<&'a [Word]> {
        while let Some((first, rest)) = words.split_first() {
            let option = first.text.as_str();
            if may_be_option(first) {
                return None;
            }
            if !option.starts_with('-') {
                break;
            }
            if self.flags.contains(&option) {
                words = rest;
            } else if self.valued.contains(&option) {
                words = rest.get(1..)?;
            } else if self.name == "nice" && option[1..].bytes().all(|byte| byte.is_ascii_digit())
                || self.valued.iter().any(|known| option.starts_with(known))
            {
                words = rest;
            } else {
                return None;
            }
        }
        let (operands, inner) = words.split_at(self.operands.min(words.len()));
        (!operands.iter().any(is_unknown)).then_some(inner)
    }
}

fn env(words: &[Word]) -> NestedCommands {
    let set = |rest: &[Word]| rest.iter().take_while(|word| word.text.contains('=')).count();
    ENV.runs(ENV.command(words).map(|rest| &rest[set(rest)..]))
}

/// Returns `true` if a command is `env` with variables to set.
pub(super) fn sets_variables(command: &SimpleCommand) -> bool {
    let Some((first, words)) = command.words.split_first() else { return false };
    let is_env = first.text.rsplit('/').next() == Some("env");
    let sets = |rest: &[Word]| rest.first().is_some_and(|word| word.text.contains('='));
    is_env && ENV.command(words).is_some_and(sets)
}

/// `trap` runs its first argument later, unless it only resets or lists signals.
fn trap(words: &[Word]) -> Result<NestedCommands, CommandParseError> {
    let words = words.strip_prefix(&[Word { text: "--".to_owned(), kind: WordKind::Plain }]).unwrap_or(words);
    match words {
        [] | [_] => Ok(NestedCommands::Nothing),
        [code, ..] if code.kind == WordKind::Pattern => Ok(NestedCommands::Unknown),
        [code, ..] if ["-", "-l", "-p"].contains(&code.text.as_str()) => Ok(NestedCommands::Nothing),
        [code, ..] => Ok(NestedCommands::Additional(parse(&code.text)?)),
    }
}

fn find(words: &[Word]) -> NestedCommands {
    const RUN: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
    let mut inner = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| RUN.contains(&word.text.as_str())) {
        let ends = |word: &&Word| word.text != ";" && word.text != "+";
        let words: Vec<_> = words[at + 1..].iter().take_while(ends).cloned().collect();
        inner.push(SimpleCommand { words, files: Vec::new() });
    }
    let starts = inner.iter().filter_map(|command| command.words.first());
    if words.iter().any(may_be_option) || starts.into_iter().any(is_unknown) {
        return NestedCommands::Hidden;
    }
    if inner.is_empty() { NestedCommands::Nothing } else { NestedCommands::Additional(inner) }
}

/// Returns `true` if a shell, `find`, or `xargs` replaces a word.
fn is_unknown(word: &Word) -> bool {
    word.kind == WordKind::Pattern && word.text != "["
}

/// Handles a shell with commands in `-c`; other shells read them from a file or stdin.
fn shell(words: &[Word]) -> Result<NestedCommands, CommandParseError> {
    let is_flags = |word: &Word| {
        let letters = word.text.strip_prefix('-').unwrap_or_default();
        letters.contains('c') && letters.bytes().all(|letter| b"ceuxl".contains(&letter))
    };
    match words {
        [flags, line, ..] if is_flags(flags) => Ok(NestedCommands::Only(parse(&line.text)?)),
        [version] if version.text == "--version" => Ok(NestedCommands::Nothing),
        _ => Ok(NestedCommands::Unknown),
    }
}

/// Code without side effects is common and harmless.
fn awk(words: &[Word]) -> NestedCommands {
    let runs = |word: &Word| {
        let text = word.text.as_str();
        let is_option = text.starts_with('-') && !text.starts_with("-F") && !text.starts_with("-v");
        is_option || ["system", "|", "getline", "@"].iter().any(|part| text.contains(part))
    };
    if words.iter().any(runs) { NestedCommands::Unknown } else { NestedCommands::Nothing }
}

fn interpreter(name: &str, words: &[Word]) -> NestedCommands {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let bare = if bare == "nodejs" { "node" } else { bare };
    let Some((_, letters)) = INTERPRETERS.iter().find(|(known, _)| *known == bare) else {
        return NestedCommands::Nothing;
    };
    let is_code = |word: &Word| match word.text.strip_prefix('-') {
        Some("") => true,
        Some(long) if long.starts_with('-') => long.starts_with("-eval") || long.starts_with("-print"),
        Some(flags) => flags.contains(|letter| letters.contains(letter)),
        None => word.text == "eval" || word.text == "repl",
    };
    let asks = |word: &Word| ["--version", "-V", "-v", "--help", "-h"].contains(&word.text.as_str());
    let has_file = words.iter().any(|word| !word.text.starts_with('-'));
    let is_unseen = words.iter().any(is_code) || !(has_file || words.iter().any(asks));
    if is_unseen { NestedCommands::Unknown } else { NestedCommands::Nothing }
}

pub(super) fn joined(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
