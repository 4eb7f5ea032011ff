//! Parses a command line like a POSIX shell, to the extent possible without running it.
//!
//! Values that a shell only knows at run time (a variable, or the output of another command) cannot be checked in
//! advance. Such a line is rejected; so is one that is not certain to mean the same to every shell as it does here.

use std::iter::Peekable;
use std::str::Chars;

/// A program and its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    pub(super) words: Vec<Word>,
    /// The files that it reads or writes by redirection, except `/dev/null`.
    pub(super) files: Vec<Word>,
}

/// A word with its quotes removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) kind: WordKind,
}

/// Kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// A literal word.
    Plain,
    /// A pattern, which the shell replaces with file names.
    Pattern,
}

/// Reason a line cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandParseError {
    /// Its meaning depends on the state when it runs.
    #[error("`$`, backquotes, `~` and `{{` expand only when the command runs")]
    Expansion,
    /// The line has a control structure, a function, a group, or a here-document.
    #[error("groups, functions, loops, conditions, and here-documents are not supported")]
    Structure,
    /// A variable is set for a command.
    #[error("variables set before a command can change what it does")]
    Assignment,
    /// The line does not end where it should, or an operator lacks an operand.
    #[error("it is not a complete command line")]
    Incomplete,
    /// The line has characters that shells interpret differently.
    #[error("it has control characters")]
    Control,
}

/// Words that start a construct other than a command.
const RESERVED: [&str; 22] = [
    "!",
    "[[",
    "case",
    "coproc",
    "do",
    "done",
    "elif",
    "else",
    "esac",
    "fi",
    "for",
    "function",
    "if",
    "in",
    "namespace",
    "repeat",
    "select",
    "then",
    "time",
    "until",
    "while",
    "}",
];

/// Parses a line into the commands that it runs.
pub(super) fn parse(line: &str) -> Result<Vec<SimpleCommand>, CommandParseError> {
    let is_disallowed = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if line.contains(is_disallowed) {
        return Err(CommandParseError::Control);
    }
    let mut reader =
        Reader { rest: line.chars().peekable(), commands: Vec::new(), current: SimpleCommand::default() };
    reader.read()?;
    Ok(reader.commands)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<SimpleCommand>,
    current: SimpleCommand,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), CommandParseError> {
        let mut owed = false;
        loop {
            self.skip_blanks();
            let Some(letter) = self.rest.peek().copied() else { break };
            match letter {
                '#' => while self.rest.next_if(|letter| *letter != '\n').is_some() {},
                '\n' => {
                    self.rest.next();
                    // After `&&` and similar operators, the line continues.
                    if !owed {
                        self.end_command(Empty::Fine)?;
                    }
                }
                ';' | '&' | '|' => owed = self.operator(letter)?,
                '<' | '>' => self.redirection()?,
                '(' | ')' => return Err(CommandParseError::Structure),
                _ => {
                    let word = self.word()?;
                    // A number right before a redirection is a file descriptor.
                    let is_stream = word.text.bytes().all(|byte| byte.is_ascii_digit());
                    if is_stream && matches!(self.rest.peek(), Some('<' | '>')) {
                        continue;
                    }
                    self.current.words.push(word);
                    owed = false;
                }
            }
        }
        if owed {
            return Err(CommandParseError::Incomplete);
        }
        self.end_command(Empty::Fine)
    }

    fn skip_blanks(&mut self) {
        loop {
            if self.rest.next_if(|letter| matches!(letter, ' ' | '\t')).is_some() {
                continue;
            }
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('\\') && ahead.next() == Some('\n') {
                self.rest = ahead;
                continue;
            }
            return;
        }
    }

    /// Parses an operator between commands, and returns whether another command must follow.
    fn operator(&mut self, first: char) -> Result<bool, CommandParseError> {
        self.rest.next();
        let pair = (first, self.rest.peek().copied());
        if matches!(pair, (';', Some(';' | '&')) | ('&' | '|', Some('>'))) {
            return Err(CommandParseError::Structure);
        }
        let is_double = matches!(pair, ('&', Some('&')) | ('|', Some('|' | '&')));
        if is_double {
            self.rest.next();
        }
        self.end_command(Empty::Wrong)?;
        Ok(is_double || first == '|')
    }

    fn redirection(&mut self) -> Result<(), CommandParseError> {
        let first = self.rest.next();
        match (first, self.rest.peek().copied()) {
            (Some('<'), Some('<' | '(')) | (Some('>'), Some('(')) => {
                return Err(CommandParseError::Structure);
            }
            (_, Some('&')) => {
                self.rest.next();
                let word = self.word()?;
                let is_stream = !word.text.is_empty() && word.text.bytes().all(|byte| byte.is_ascii_digit());
                return if is_stream || word.text == "-" {
                    Ok(())
                } else {
                    Err(CommandParseError::Structure)
                };
            }
            (Some('>'), Some('>' | '|')) | (Some('<'), Some('>')) => {
                self.rest.next();
            }
            _ => {}
        }
        self.skip_blanks();
        let word = self.word()?;
        if word.text.is_empty() {
            return Err(CommandParseError::Incomplete);
        }
        if word.text != "/dev/null" || word.kind != WordKind::Plain {
            self.current.files.push(word);
        }
        Ok(())
    }

    /// Parses one word, up to a blank or an operator.
    fn word(&mut self) -> Result<Word, CommandParseError> {
        let mut word = Word { text: String::new(), kind: WordKind::Plain };
        let mut begun = false;
        while let Some(letter) = self.rest.peek().copied() {
            if self.empty_braces() {
                // The shell leaves them unchanged; `find` and `xargs` substitute them.
                word = Word { text: word.text + "{}", kind: WordKind::Pattern };
                begun = true;
                continue;
            }
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' => break,
                '(' | ')' => return Err(CommandParseError::Structure),
                '$' | '`' | '{' | '}' => return Err(CommandParseError::Expansion),
                // A shell expands a home directory only in these positions; being strict costs little.
                '~' => return Err(CommandParseError::Expansion),
                _ => {}
            }
            self.rest.next();
            match letter {
                '\'' => self.single_quoted(&mut word.text)?,
                '"' => self.double_quoted(&mut word.text)?,
                '\\' => match self.rest.next() {
                    Some('\n') => continue,
                    Some(letter) => word.text.push(letter),
                    None => return Err(CommandParseError::Incomplete),
                },
                '*' | '?' | '[' | ']' => {
                    word.kind = WordKind::Pattern;
                    word.text.push(letter);
                }
                letter => {
                    let name = word.text.strip_suffix('+').unwrap_or(&word.text);
                    if letter == '=' && self.is_first() && is_name(name) && word.kind == WordKind::Plain {
                        return Err(CommandParseError::Assignment);
                    }
                    word.text.push(letter);
                }
            }
            begun = true;
        }
        if begun { Ok(word) } else { Err(CommandParseError::Incomplete) }
    }

    /// Consumes `{}`, which has no other meaning.
    fn empty_braces(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        let found = ahead.next() == Some('{') && ahead.next() == Some('}');
        if found {
            self.rest = ahead;
        }
        found
    }

    fn is_first(&self) -> bool {
        self.current.words.is_empty()
    }

    fn single_quoted(&mut self, text: &mut String) -> Result<(), CommandParseError> {
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some(letter) => text.push(letter),
                None => return Err(CommandParseError::Incomplete),
            }
        }
    }

    fn double_quoted(&mut self, text: &mut String) -> Result<(), CommandParseError> {
        loop {
            match self.rest.next() {
                Some('"') => return Ok(()),
                Some('$' | '`') => return Err(CommandParseError::Expansion),
                Some('\\') => match self.rest.next() {
                    Some('\n') => {}
                    Some(letter @ ('"' | '\\' | '$' | '`')) => text.push(letter),
                    Some(letter) => text.extend(['\\', letter]),
                    None => return Err(CommandParseError::Incomplete),
                },
                Some(letter) => text.push(letter),
                None => return Err(CommandParseError::Incomplete),
            }
        }
    }

    fn end_command(&mut self, empty: Empty) -> Result<(), CommandParseError> {
        let command = std::mem::take(&mut self.current);
        let Some(first) = command.words.first() else {
            // A redirection alone creates or truncates a file.
            return match empty {
                Empty::Fine if command.files.is_empty() => Ok(()),
                _ => Err(CommandParseError::Incomplete),
            };
        };
        if RESERVED.contains(&first.text.as_str()) {
            return Err(CommandParseError::Structure);
        }
        // The name of the program must be literal.
        if first.kind == WordKind::Pattern && first.text != "[" {
            return Err(CommandParseError::Expansion);
        }
        self.commands.push(command);
        Ok(())
    }
}

/// Whether an operator may have no command before it.
#[derive(Clone, Copy)]
enum Empty {
    Fine,
    Wrong,
}

/// Returns `true` if a text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
