//! Fast parsing of an event by the shape of the previous one.
//!
//! A long response is the same event over and over with different text and counts. Once such an event has been
//! parsed in full, the next one is compared with it: if only the text and some numbers differ, the results for the
//! first apply to the second. Any other event is parsed in full again.

/// Number of consecutive misses after which no more shapes are learned.
const MAX_MISSES: u32 = 16;

/// The constant parts of an event and the positions of the variable ones.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pieces: Vec<Piece>,
    misses: u32,
}

#[derive(Debug)]
enum Piece {
    /// Bytes that stay the same.
    Same(String),
    /// A string without escapes, up to its closing quote.
    Text,
    /// An integer, the value of this key.
    Number(&'static str),
}

impl Shape {
    /// Parses an event of this shape: passes its numbers to `number` and returns its text.
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
                    let (content, after) = plain(rest)?;
                    text = Some(content);
                    after
                }
                Piece::Number(key) => {
                    let (value, after) = integer(rest)?;
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

    /// Stores the shape of an event that was parsed in full. The text must be a slice of it; the values of the keys
    /// may vary if they are numbers.
    ///
    /// These numbers were found only by the names of their keys, at any position: the shape is discarded unless the full
    /// parse found the same ones, which `is_right` decides.
    pub(crate) fn learn(
        &mut self,
        data: &str,
        text: &str,
        keys: &[&'static str],
        is_right: impl FnOnce(&[(&'static str, u64)]) -> bool,
    ) {
        self.pieces.clear();
        self.misses += 1;
        let start = (text.as_ptr() as usize).wrapping_sub(data.as_ptr() as usize);
        let is_slice = !text.is_empty() && data.get(start..start + text.len()) == Some(text);
        // A key may be written with escapes and would not be found.
        if self.misses > MAX_MISSES || !is_slice || data.contains('\\') {
            return;
        }
        let mut numbers = Vec::new();
        self.split(&data[..start], keys, &mut numbers);
        self.pieces.push(Piece::Text);
        self.split(&data[start + text.len()..], keys, &mut numbers);
        if !is_right(&numbers) {
            self.pieces.clear();
        }
    }

    /// Adds the pieces of what is before or after the text.
    fn split(&mut self, part: &str, keys: &[&'static str], numbers: &mut Vec<(&'static str, u64)>) {
        let mut rest = part;
        while let Some((at, key)) = keys.iter().filter_map(|key| Some((value(rest, key)?, *key))).min() {
            let Some((number, after)) = integer(&rest[at..]) else { break };
            self.pieces.push(Piece::Same(rest[..at].to_owned()));
            self.pieces.push(Piece::Number(key));
            numbers.push((key, number));
            rest = after;
        }
        self.pieces.push(Piece::Same(rest.to_owned()));
    }
}

/// Finds the value of a key, if it is an integer.
fn value(text: &str, key: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find(key)? + key.len();
        let is_key = text[..at - key.len()].ends_with('"');
        if is_key
            && let Some(rest) = text[at..].strip_prefix("\":")
            && integer(rest).is_some()
        {
            return Some(at + 2);
        }
        from = at;
    }
}

/// Splits off a string without escapes up to its closing quote.
fn plain(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
    text[end..].starts_with('"').then(|| text.split_at(end))
}

/// Splits off a JSON integer.
fn integer(text: &str) -> Option<(u64, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    let is_invalid = length > 1 && digits.starts_with('0') || rest.starts_with(['.', 'e', 'E']);
    (!is_invalid).then(|| Some((digits.parse().ok()?, rest)))?
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

    fn learned_shape() -> Shape {
        let mut shape = Shape::default();
        let at = FIRST.find("one").unwrap();
        shape.learn(FIRST, &FIRST[at..at + 3], &["n"], |numbers| numbers == [("n", 7), ("n", 1)]);
        assert!(!shape.pieces.is_empty());
        shape
    }

    #[test]
    fn event_of_same_shape_is_parsed() {
        let mut shape = learned_shape();
        assert_eq!(read(&mut shape, FIRST), Some(("one".to_owned(), vec![("n", 7), ("n", 1)])));
        let next = r#"{"id":"a","n":70,"list":[{"text":"Über ☔","m":0}],"n":0}"#;
        assert_eq!(read(&mut shape, next), Some(("Über ☔".to_owned(), vec![("n", 70), ("n", 0)])));
    }

    #[test]
    fn event_of_other_shape_is_not_parsed() {
        let mut shape = learned_shape();
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
    fn unused_shape_is_abandoned() {
        let mut shape = Shape::default();
        let at = FIRST.find("one").unwrap();
        for _ in 0..=super::MAX_MISSES {
            shape.learn(FIRST, &FIRST[at..at + 3], &[], |_| true);
        }
        assert_eq!(read(&mut shape, FIRST), None);
    }

    #[test]
    fn forgotten_and_escaped_shapes_do_not_match() {
        let mut shape = learned_shape();
        let at = FIRST.find("one").unwrap();
        shape.learn(FIRST, &FIRST[at..at + 3], &["n"], |_| false);
        assert_eq!(read(&mut shape, FIRST), None);
        let escaped = r#"{"id":"\u0061","text":"one"}"#;
        let at = escaped.find("one").unwrap();
        shape.learn(escaped, &escaped[at..at + 3], &[], |_| true);
        assert_eq!(read(&mut shape, escaped), None);
    }

    #[test]
    fn text_outside_the_event_is_not_learned() {
        let mut shape = Shape::default();
        shape.learn(FIRST, "one", &[], |_| true);
        assert_eq!(read(&mut shape, FIRST), None);
    }
}
