//! Shell builtins that set variables or evaluate their arguments.
//!
//! A shell runs `$(…)` even in quoted words if a builtin interprets them as the name of an array element or as
//! arithmetic: `test -v 'a[$(id)]'`. Other builtins change what later commands mean: `read PATH`, `hash -p`, `alias`. A
//! line with one of these cannot be checked before it runs.

use super::command::{SimpleCommand, Word, WordKind, is_name};

/// Options of `set` that do not affect how a line is parsed.
const SET_LETTERS: &str = "Cefuvx";
const SET_NAMES: [&str; 7] = ["errexit", "noclobber", "noglob", "nounset", "pipefail", "verbose", "xtrace"];
/// Options of `shopt` that do not affect how a line is parsed.
const SHOPT_WORDS: [&str; 9] =
    ["-p", "-q", "-s", "-u", "dotglob", "failglob", "globstar", "nocaseglob", "nullglob"];
/// Operators of `test` that take variable names, and those that take numbers.
const TAKE_NAMES: [&str; 2] = ["-v", "-R"];
const TAKE_NUMBERS: [&str; 6] = ["-eq", "-ge", "-gt", "-le", "-lt", "-ne"];

/// Returns `true` if a command is a builtin that may set a variable, run code in its arguments, or change what later
/// commands mean.
pub(super) fn is_opaque(command: &SimpleCommand) -> bool {
    let Some((first, words)) = command.words.split_first() else { return false };
    let has_option = |letter: char| {
        words
            .iter()
            .any(|word| may_be_option(word) || word.text.starts_with('-') && word.text.contains(letter))
    };
    match first.text.as_str() {
        "bind" | "compgen" | "complete" | "compopt" | "enable" | "fc" | "float" | "getopts" | "hist"
        | "history" | "integer" | "let" | "mapfile" | "nameref" | "read" | "readarray" | "unset" => true,
        "alias" | "declare" | "export" | "local" | "readonly" | "typeset" => {
            !words.iter().all(|word| word.text == "-p")
        }
        "break" | "continue" | "exit" | "return" | "shift" => !words.iter().all(is_number),
        "hash" => {
            words.iter().any(|word| may_be_option(word) || word.text.starts_with('-') && word.text != "-r")
        }
        "jobs" => has_option('x'),
        "kill" | "ulimit" => words.iter().any(has_subscript),
        "printf" => printf_evaluates(words),
        "set" => !set_is_plain(words),
        "shopt" => !words.iter().all(|word| SHOPT_WORDS.contains(&word.text.as_str())),
        "test" => test_evaluates(words),
        "[" => test_evaluates(words.strip_suffix(&[closing()]).unwrap_or(words)),
        "wait" => has_option('p'),
        _ => false,
    }
}

/// Returns the word that ends `[`. It counts as a pattern if it is not quoted.
fn closing() -> Word {
    Word { text: "]".to_owned(), kind: WordKind::Pattern }
}

/// `printf -v` sets a variable, and some shells evaluate words used as numbers.
fn printf_evaluates(words: &[Word]) -> bool {
    let sets =
        words.first().is_some_and(|word| word.text.starts_with("-v") || word.kind == WordKind::Pattern);
    sets || words.iter().any(has_subscript)
}

fn test_evaluates(words: &[Word]) -> bool {
    let is_plain_name = |word: &Word| word.kind == WordKind::Plain && is_name(&word.text);
    words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        let after = words.get(at + 1);
        if TAKE_NAMES.contains(&word.text.as_str()) {
            return after.is_some_and(|word| !is_plain_name(word));
        }
        if TAKE_NUMBERS.contains(&word.text.as_str()) {
            return before.into_iter().chain(after).any(|word| !is_number(word));
        }
        may_be_option(word)
    })
}

fn set_is_plain(words: &[Word]) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(letters) = word.text.strip_prefix(['-', '+']) else { return false };
        let (letters, takes_name) = letters.strip_suffix('o').map_or((letters, false), |rest| (rest, true));
        if word.kind == WordKind::Pattern || !letters.chars().all(|letter| SET_LETTERS.contains(letter)) {
            return false;
        }
        let name = if takes_name { words.next() } else { None };
        if name.is_some_and(|name| !SET_NAMES.contains(&name.text.as_str())) {
            return false;
        }
    }
    true
}

/// Returns `true` if a file name that a pattern expands to may be an option or an operator.
pub(super) fn may_be_option(word: &Word) -> bool {
    let text = word.text.as_str();
    let starts = text.starts_with(['*', '?', '[', '-']) && !text.contains('/');
    let fixed = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '_');
    let is_bracket = text == "[" || text == "]";
    word.kind == WordKind::Pattern && !is_bracket && starts && (text.contains('[') || !text.contains(fixed))
}

fn is_number(word: &Word) -> bool {
    let digits = word.text.strip_prefix('-').unwrap_or(&word.text);
    word.kind == WordKind::Plain && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns `true` if a word has an array subscript in which a shell could run a command.
fn has_subscript(word: &Word) -> bool {
    word.text.contains('[') && word.text.contains(['$', '`'])
}
