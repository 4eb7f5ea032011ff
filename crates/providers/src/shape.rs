//! Reading an event by the shape of the one before it.
//!
//! A long answer is the same event over and over with another piece of text and other counts. Once such an event
//! has been read in full, the next one is compared with it: where only the text and some numbers differ, what
//! was found out about the first holds for the second. Anything else is read in full again.

/// How often in a row a shape may be of no use before none is looked for any more.
const PATIENCE: u32 = 16;

/// What an event looks like besides what changes.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pieces: Vec<Piece>,
    misses: u32,
}

#[derive(Debug)]
enum Piece {
    /// Bytes that stay.
    Same(String),
    /// A text without escapes, up to its closing quote.
    Text,
    /// A whole number, the value of this key.
    Number(&'static str),
}

impl Shape {
    /// Reads an event that has this shape: gives its numbers and returns its text.
    pub(crate) fn read<'a>(
        &mut self,
        data: &'a str,
        mut number: impl FnMut(&'static str, u64),
    ) -> Option<&'a str> {
        let mut rest = data;
        let mut text = None;
        let mut numbers = [("", 0); 8];
        let mut count = 0;
        for piece in &self.pieces {
            rest = match piece {
                Piece::Same(same) => rest.strip_prefix(same.as_str())?,
                Piece::Text => {
                    let (found, after) = plain(rest)?;
                    text = Some(found);
                    after
                }
                Piece::Number(key) => {
                    let (value, after) = whole(rest)?;
                    *numbers.get_mut(count)? = (key, value);
                    count += 1;
                    after
                }
            };
        }
        let text = text.filter(|_| rest.is_empty())?;
        self.misses = 0;
        numbers[..count].iter().for_each(|(key, value)| number(key, *value));
        Some(text)
    }

    /// Remembers the shape of an event that was read in full. The text must be a slice of it; the values of the
    /// keys may change where they are numbers.
    ///
    /// Returns these numbers. They were found by the names of their keys, wherever those stand: who found others by
    /// reading the event in full has to forget the shape.
    pub(crate) fn learn(
        &mut self,
        data: &str,
        text: &str,
        keys: &[&'static str],
    ) -> Vec<(&'static str, u64)> {
        self.pieces.clear();
        self.misses += 1;
        let mut numbers = Vec::new();
        let start = (text.as_ptr() as usize).wrapping_sub(data.as_ptr() as usize);
        let is_slice = !text.is_empty() && data.get(start..start + text.len()) == Some(text);
        // A key may be written with escapes and would not be found.
        if self.misses > PATIENCE || !is_slice || data.contains('\\') {
            return numbers;
        }
        self.split(&data[..start], keys, &mut numbers);
        self.pieces.push(Piece::Text);
        self.split(&data[start + text.len()..], keys, &mut numbers);
        numbers
    }

    /// Reads the next event in full.
    pub(crate) fn forget(&mut self) {
        self.pieces.clear();
    }

    /// Adds the pieces of what is before or after the text.
    fn split(&mut self, part: &str, keys: &[&'static str], numbers: &mut Vec<(&'static str, u64)>) {
        let mut rest = part;
        while let Some((at, key)) = keys.iter().filter_map(|key| Some((value(rest, key)?, *key))).min() {
            let Some((number, after)) = whole(&rest[at..]) else { break };
            self.pieces.push(Piece::Same(rest[..at].to_owned()));
            self.pieces.push(Piece::Number(key));
            numbers.push((key, number));
            rest = after;
        }
        self.pieces.push(Piece::Same(rest.to_owned()));
    }
}

/// Finds where the value of a key begins, if it is a whole number.
fn value(text: &str, key: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find(key)? + key.len();
        let is_key = text[..at - key.len()].ends_with('"');
        if is_key
            && let Some(rest) = text[at..].strip_prefix("\":")
            && whole(rest).is_some()
        {
            return Some(at + 2);
        }
        from = at;
    }
}

/// Takes a text without escapes up to its closing quote.
fn plain(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
    text[end..].starts_with('"').then(|| text.split_at(end))
}

/// Takes a number as JSON writes whole ones.
fn whole(text: &str) -> Option<(u64, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    let is_odd = length > 1 && digits.starts_with('0') || rest.starts_with(['.', 'e', 'E']);
    (!is_odd).then(|| Some((digits.parse().ok()?, rest)))?
}

#[cfg(test)]
mod tests {
    use super::Shape;

    const FIRST: &str = r#"{"id":"a","n":7,"list":[{"text":"one","m":0}],"n":1}"#;

    fn read(shape: &mut Shape, data: &str) -> Option<(String, Vec<(&'static str, u64)>)> {
        let mut numbers = Vec::new();
        let text = shape.read(data, |key, value| numbers.push((key, value)))?;
        Some((text.to_owned(), numbers))
    }

    fn learnt() -> Shape {
        let mut shape = Shape::default();
        let at = FIRST.find("one").unwrap();
        assert_eq!(shape.learn(FIRST, &FIRST[at..at + 3], &["n"]), [("n", 7), ("n", 1)]);
        shape
    }

    #[test]
    fn an_event_of_the_same_shape_is_read() {
        let mut shape = learnt();
        assert_eq!(read(&mut shape, FIRST), Some(("one".to_owned(), vec![("n", 7), ("n", 1)])));
        let next = r#"{"id":"a","n":70,"list":[{"text":"Über ☔","m":0}],"n":0}"#;
        assert_eq!(read(&mut shape, next), Some(("Über ☔".to_owned(), vec![("n", 70), ("n", 0)])));
    }

    #[test]
    fn an_event_of_another_shape_is_not() {
        let mut shape = learnt();
        for other in [
            r#"{"id":"b","n":7,"list":[{"text":"one","m":0}],"n":1}"#,
            r#"{"id":"a","n":7,"list":[{"text":"one","m":1}],"n":1}"#,
            r#"{"id":"a","n":07,"list":[{"text":"one","m":0}],"n":1}"#,
            r#"{"id":"a","n":7.5,"list":[{"text":"one","m":0}],"n":1}"#,
            r#"{"id":"a","n":-7,"list":[{"text":"one","m":0}],"n":1}"#,
            r#"{"id":"a","n":99999999999999999999,"list":[{"text":"one","m":0}],"n":1}"#,
            r#"{"id":"a","n":7,"list":[{"text":"o\ne","m":0}],"n":1}"#,
            "{\"id\":\"a\",\"n\":7,\"list\":[{\"text\":\"o\u{1}e\",\"m\":0}],\"n\":1}",
            r#"{"id":"a","n":7,"list":[{"text":"one","m":0}],"n":1} "#,
            r#"{"id":"a","n":7,"list":[{"text":"one","m":0}],"n":1"#,
            r#"{"id":"a","n":7,"list":[{"text":"one"#,
            "",
        ] {
            assert_eq!(read(&mut shape, other), None, "{other}");
        }
    }

    #[test]
    fn a_shape_that_is_never_met_again_is_given_up() {
        let mut shape = Shape::default();
        let at = FIRST.find("one").unwrap();
        for _ in 0..=super::PATIENCE {
            shape.learn(FIRST, &FIRST[at..at + 3], &[]);
        }
        assert_eq!(read(&mut shape, FIRST), None);
    }

    #[test]
    fn a_forgotten_shape_and_one_with_escapes_are_not_met_again() {
        let mut shape = learnt();
        shape.forget();
        assert_eq!(read(&mut shape, FIRST), None);
        let escaped = r#"{"id":"\u0061","text":"one"}"#;
        let at = escaped.find("one").unwrap();
        shape.learn(escaped, &escaped[at..at + 3], &[]);
        assert_eq!(read(&mut shape, escaped), None);
    }

    #[test]
    fn what_is_no_part_of_the_event_teaches_nothing() {
        let mut shape = Shape::default();
        shape.learn(FIRST, "one", &[]);
        assert_eq!(read(&mut shape, FIRST), None);
    }
}
