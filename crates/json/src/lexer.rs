//! A lexer for validated text: values are skipped by quotes and brackets alone, and nothing is
//! validated again.

use std::borrow::Cow;

use super::{byte_search, invisible_chars};

/// Iterates over the raw members of an object in order; empty for other kinds.
pub(super) struct MemberIter<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> MemberIter<'t> {
    /// Creates an iterator over validated `text`.
    pub(super) fn from_object(text: &'t str) -> Self {
        let open = skip_whitespace(text.as_bytes(), 0);
        let object = text.as_bytes().get(open) == Some(&b'{');
        Self { text, position: if object { open + 1 } else { text.len() } }
    }
}

/// A raw key between its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawKey<'t> {
    content: &'t str,
    /// True if it has escapes.
    has_escapes: bool,
}

impl RawKey<'_> {
    /// Returns true if it is the key `expected`.
    pub(super) fn matches_key(&self, expected: &str) -> bool {
        if self.has_escapes {
            return unescape(self.content).is_some_and(|key| *key == *expected);
        }
        self.content == expected
    }
}

impl<'t> Iterator for MemberIter<'t> {
    type Item = (Cow<'t, str>, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.next_raw()?;
        let text =
            if key.has_escapes { unescape(key.content)? } else { Cow::Borrowed(key.content) };
        Some((text, value))
    }
}

impl<'t> MemberIter<'t> {
    /// Returns the next member with its raw key.
    pub(super) fn next_raw(&mut self) -> Option<(RawKey<'t>, &'t str)> {
        let bytes = self.text.as_bytes();
        let mut key = skip_whitespace(bytes, self.position);
        if bytes.get(key) == Some(&b',') {
            key = skip_whitespace(bytes, key + 1);
        }
        if bytes.get(key) != Some(&b'"') {
            return None;
        }
        let (behind, escaped) = skip_string(bytes, key);
        let colon = skip_whitespace(bytes, behind);
        let value = skip_whitespace(bytes, colon + 1);
        self.position = skip_value(bytes, value);
        let inside = self.text.get(key + 1..behind - 1)?;
        Some((
            RawKey { content: inside, has_escapes: escaped },
            self.text.get(value..self.position)?,
        ))
    }
}

/// Returns the content of a string, borrowed if it has no escapes.
pub(super) fn unescape_string(string: &str) -> Option<Cow<'_, str>> {
    unescape(string.strip_prefix('"')?.strip_suffix('"')?)
}

/// Unescapes the text between quotes.
fn unescape(inside: &str) -> Option<Cow<'_, str>> {
    let first = find_escape(inside);
    if first == inside.len() {
        return Some(Cow::Borrowed(inside));
    }
    let mut text = String::with_capacity(inside.len());
    let (mut rest, mut plain) = (inside, first);
    loop {
        text.push_str(rest.get(..plain)?);
        rest = rest.get(plain..)?;
        if rest.is_empty() {
            return Some(Cow::Owned(text));
        }
        let (c, length) = invisible_chars::decode_escape(rest.as_bytes())?;
        text.push(c);
        rest = rest.get(length..)?;
        plain = find_escape(rest);
    }
}

fn find_escape(text: &str) -> usize {
    byte_search::find_first(text.as_bytes(), |word| byte_search::match_byte(word, b'\\'))
}

/// Skips whitespace and returns the position after it.
pub(super) fn skip_whitespace(text: &[u8], mut position: usize) -> usize {
    while matches!(text.get(position), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        position += 1;
    }
    position
}

/// Returns the position after the string that begins at `at`, and whether it has escapes.
fn skip_string(text: &[u8], mut at: usize) -> (usize, bool) {
    let mut escaped = false;
    at += 1;
    while let Some(rest) = text.get(at..) {
        at += find_quote_or_escape(rest);
        match text.get(at) {
            Some(b'"') => return (at + 1, escaped),
            Some(_) => (at, escaped) = (at + 2, true),
            None => break,
        }
    }
    (text.len(), escaped)
}

/// Returns the number of bytes before the next quote or escape.
fn find_quote_or_escape(text: &[u8]) -> usize {
    let (near, far) = text.split_at_checked(SHORT_STRING_BYTES).unwrap_or((text, &[]));
    match byte_search::find_first(near, |word| {
        byte_search::match_byte(word, b'"') | byte_search::match_byte(word, b'\\')
    }) {
        found if found < near.len() => found,
        all => all + memchr::memchr2(b'"', b'\\', far).unwrap_or(far.len()),
    }
}

/// Number of bytes from which a string counts as long.
const SHORT_STRING_BYTES: usize = 64;
/// Number of consecutive other bytes after which eight are searched at a time.
const BYTEWISE_RUN: usize = 16;

/// Returns the position after the value that begins at `position`.
pub(super) fn skip_value(text: &[u8], position: usize) -> usize {
    match text.get(position) {
        Some(b'"') => skip_string(text, position).0,
        Some(b'{') => skip_nested(text, position, (b'{', b'}')),
        Some(b'[') => skip_nested(text, position, (b'[', b']')),
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            let rest = text.get(position..).unwrap_or_default();
            position + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

/// Returns the position after an array or object. Its content is balanced, so only its own kind of
/// bracket is counted.
fn skip_nested(text: &[u8], mut at: usize, (open, close): (u8, u8)) -> usize {
    let mark = |word| {
        byte_search::match_byte(word, b'"')
            | byte_search::match_byte(word, open)
            | byte_search::match_byte(word, close)
    };
    let (mut depth, mut others) = (0_usize, 0);
    // Searches byte by byte, because long content is mostly in strings.
    while let Some(byte) = text.get(at) {
        others += 1;
        if *byte == b'"' {
            (at, others) = (skip_string(text, at).0, 0);
            continue;
        }
        at += 1;
        if *byte == open {
            (depth, others) = (depth + 1, 0);
        } else if *byte == close {
            (depth, others) = (depth.saturating_sub(1), 0);
            if depth == 0 {
                return at;
            }
        } else if others == BYTEWISE_RUN {
            at += byte_search::find_first(text.get(at..).unwrap_or_default(), mark);
            others = 0;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::MemberIter;

    fn walked(text: &str) -> Vec<(String, String)> {
        let own =
            |(key, value): (std::borrow::Cow<'_, str>, &str)| (key.into_owned(), value.to_owned());
        MemberIter::from_object(text).map(own).collect()
    }

    #[test]
    fn values_are_as_they_stand() {
        let text = r#" { "a" : 1.0e2 , "b\n":[ {"x":"}]\""} , 2 ],"é" :"\\","d":null } "#;
        let expected =
            [("a", "1.0e2"), ("b\n", r#"[ {"x":"}]\""} , 2 ]"#), ("é", r#""\\""#), ("d", "null")];
        assert_eq!(walked(text), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        for other in ["[1]", "{}", " {  } ", "7", "\"{\"", ""] {
            assert_eq!(walked(other), [], "{other}");
        }
    }

    proptest::proptest! {
        /// The text that the parser reads.
        #[test]
        fn strings_are_read_as_the_parser_reads_them(text in "([\\PC]|\\\\[\"\\\\/bfnrt]|\\\\u00[0-9a-fA-F]{2}|\\\\ud83d\\\\ude4[0-9a-f]){0,12}") {
            let string = format!("\"{}\"", text.replace('"', "'").replace("\\'", "\\\""));
            if let Ok(read) = serde_json::from_str::<String>(&string) {
                proptest::prop_assert_eq!(super::unescape_string(&string).unwrap(), read);
            }
        }

        /// The same members that the parser finds.
        #[test]
        fn agrees_with_the_parser(
            keys in proptest::collection::btree_set("\\PC{0,4}", 0..6),
            text in "\\PC{0,6}",
        ) {
            let numbers: Vec<_> = (1..40).collect();
            let inner = serde_json::json!([text, {"k": [text, 1.5, true, numbers], "\"": null}]);
            let object: serde_json::Map<_, _> =
                keys.into_iter().map(|key| (key, inner.clone())).collect();
            for text in [serde_json::to_string(&object).unwrap(), serde_json::to_string_pretty(&object).unwrap()] {
                let parsed: std::collections::BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text).unwrap();
                let parsed: Vec<_> = parsed.iter().map(|(k, v)| (k.clone(), v.get().to_owned())).collect();
                let mut walked = walked(&text);
                walked.sort();
                proptest::prop_assert_eq!(walked, parsed);
            }
        }
    }
}
