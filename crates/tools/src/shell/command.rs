//! Reading a command line as a POSIX shell does, as far as it can be read without running it.
//!
//! What a shell would only know at run time (the value of a variable, the output of another command) cannot be judged
//! beforehand. Such a line is not read at all; neither is one that is not certain to mean to every shell what it means
//! here.

use std::iter::Peekable;
use std::str::Chars;

/// A program and its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// The files that it reads or writes by redirection, other than `/dev/null`.
    pub(super) files: Vec<Word>,
}

/// A word with its quotes taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) kind: WordKind,
}

/// Whether a word is what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// It is.
    Plain,
    /// It is a pattern, in place of which the shell puts the names of files.
    Pattern,
}

/// Why a line cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unclear {
    /// Its meaning depends on what happens when it runs.
    #[error("`$`, backquotes, `~` and `{{` stand for something that is only known when the command runs")]
    Expansion,
    /// It has a control structure, a function, a group or a here-document.
    #[error("groups, functions, loops, conditions and here-documents are not judged")]
    Structure,
    /// A variable is set for a command.
    #[error("variables set before a command can change what it does")]
    Assignment,
    /// It does not end where it should, or an operator has nothing to work on.
    #[error("it is not a complete command line")]
    Incomplete,
    /// It has characters that shells read differently.
    #[error("it has control characters")]
    Control,
}

/// Words that begin something other than a program.
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

/// Reads a line into the commands it runs.
pub(super) fn parse(line: &str) -> Result<Vec<Simple>, Unclear> {
    let odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if line.contains(odd) {
        return Err(Unclear::Control);
    }
    let mut reader =
        Reader { rest: line.chars().peekable(), commands: Vec::new(), current: Simple::default() };
    reader.read()?;
    Ok(reader.commands)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Simple>,
    current: Simple,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Unclear> {
        let mut owed = false;
        loop {
            self.skip_blanks();
            let Some(letter) = self.rest.peek().copied() else { break };
            match letter {
                '#' => while self.rest.next_if(|letter| *letter != '\n').is_some() {},
                '\n' => {
                    self.rest.next();
                    // After `&&` and its like, the line goes on.
                    if !owed {
                        self.end_command(Empty::Fine)?;
                    }
                }
                ';' | '&' | '|' => owed = self.operator(letter)?,
                '<' | '>' => self.redirection()?,
                '(' | ')' => return Err(Unclear::Structure),
                _ => {
                    let word = self.word()?;
                    // A number right before a redirection says which stream it is about.
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
            return Err(Unclear::Incomplete);
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

    /// Reads what separates commands, and says whether another must follow.
    fn operator(&mut self, first: char) -> Result<bool, Unclear> {
        self.rest.next();
        let second = self.rest.peek().copied();
        match (first, second) {
            (';', Some(';' | '&')) | ('&' | '|', Some('>')) => Err(Unclear::Structure),
            ('&', Some('&')) | ('|', Some('|' | '&')) => {
                self.rest.next();
                self.end_command(Empty::Wrong)?;
                Ok(true)
            }
            ('|', _) => {
                self.end_command(Empty::Wrong)?;
                Ok(true)
            }
            _ => {
                self.end_command(Empty::Wrong)?;
                Ok(false)
            }
        }
    }

    fn redirection(&mut self) -> Result<(), Unclear> {
        let first = self.rest.next();
        match (first, self.rest.peek().copied()) {
            (Some('<'), Some('<' | '(')) | (Some('>'), Some('(')) => return Err(Unclear::Structure),
            (_, Some('&')) => {
                self.rest.next();
                let word = self.word()?;
                let is_stream = !word.text.is_empty() && word.text.bytes().all(|byte| byte.is_ascii_digit());
                return if is_stream || word.text == "-" { Ok(()) } else { Err(Unclear::Structure) };
            }
            (Some('>'), Some('>' | '|')) | (Some('<'), Some('>')) => {
                self.rest.next();
            }
            _ => {}
        }
        self.skip_blanks();
        let word = self.word()?;
        if word.text.is_empty() {
            return Err(Unclear::Incomplete);
        }
        if word.text != "/dev/null" || word.kind != WordKind::Plain {
            self.current.files.push(word);
        }
        Ok(())
    }

    /// Reads one word, up to a blank or an operator.
    fn word(&mut self) -> Result<Word, Unclear> {
        let mut word = Word { text: String::new(), kind: WordKind::Plain };
        let mut begun = false;
        while let Some(letter) = self.rest.peek().copied() {
            if self.empty_braces() {
                // They stay as they are; `find` and `xargs` put something in their place.
                word = Word { text: word.text + "{}", kind: WordKind::Pattern };
                begun = true;
                continue;
            }
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' => break,
                '(' | ')' => return Err(Unclear::Structure),
                '$' | '`' | '{' | '}' => return Err(Unclear::Expansion),
                // A shell looks for a home directory at these places only; being strict costs little.
                '~' => return Err(Unclear::Expansion),
                _ => {}
            }
            self.rest.next();
            match letter {
                '\'' => self.single_quoted(&mut word.text)?,
                '"' => self.double_quoted(&mut word.text)?,
                '\\' => match self.rest.next() {
                    Some('\n') => continue,
                    Some(letter) => word.text.push(letter),
                    None => return Err(Unclear::Incomplete),
                },
                '*' | '?' | '[' | ']' => {
                    word.kind = WordKind::Pattern;
                    word.text.push(letter);
                }
                letter => {
                    let name = word.text.strip_suffix('+').unwrap_or(&word.text);
                    if letter == '=' && self.is_first() && is_name(name) && word.kind == WordKind::Plain {
                        return Err(Unclear::Assignment);
                    }
                    word.text.push(letter);
                }
            }
            begun = true;
        }
        if begun { Ok(word) } else { Err(Unclear::Incomplete) }
    }

    /// Takes `{}`, which stands for nothing else.
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

    fn single_quoted(&mut self, text: &mut String) -> Result<(), Unclear> {
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some(letter) => text.push(letter),
                None => return Err(Unclear::Incomplete),
            }
        }
    }

    fn double_quoted(&mut self, text: &mut String) -> Result<(), Unclear> {
        loop {
            match self.rest.next() {
                Some('"') => return Ok(()),
                Some('$' | '`') => return Err(Unclear::Expansion),
                Some('\\') => match self.rest.next() {
                    Some('\n') => {}
                    Some(letter @ ('"' | '\\' | '$' | '`')) => text.push(letter),
                    Some(letter) => text.extend(['\\', letter]),
                    None => return Err(Unclear::Incomplete),
                },
                Some(letter) => text.push(letter),
                None => return Err(Unclear::Incomplete),
            }
        }
    }

    fn end_command(&mut self, empty: Empty) -> Result<(), Unclear> {
        let command = std::mem::take(&mut self.current);
        let Some(first) = command.words.first() else {
            // A redirection alone makes a file, or empties it.
            return match empty {
                Empty::Fine if command.files.is_empty() => Ok(()),
                _ => Err(Unclear::Incomplete),
            };
        };
        if RESERVED.contains(&first.text.as_str()) {
            return Err(Unclear::Structure);
        }
        // The name of the program must be what it says.
        if first.kind == WordKind::Pattern && first.text != "[" {
            return Err(Unclear::Expansion);
        }
        self.commands.push(command);
        Ok(())
    }
}

/// Whether there may be no command before an operator.
#[derive(Clone, Copy)]
enum Empty {
    Fine,
    Wrong,
}

/// Returns true if a text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
