//! Fast path of the validator. It accepts only text that the serde path accepts; every doubtful
//! case goes to the serde path, which reports errors with locations.
//!
//! Accepted are texts without `\u` escapes, with short numbers and with few keys per object.

use std::ops::Range;

use crate::JsonLimits;
use crate::byte_search;

/// Maximum number of keys of one object that are compared.
const MAX_COMPARED_KEYS: usize = 12;
/// Maximum number of integer digits of a number that needs no range check; the fraction may have
/// any number.
const MAX_INTEGER_DIGITS: usize = 15;
/// Maximum number of exponent digits, with which no number is out of range.
const MAX_EXPONENT_DIGITS: usize = 2;

/// Returns true if `text` is certainly valid JSON within `limits`, without duplicate keys.
pub(super) fn is_valid(text: &str, limits: JsonLimits) -> bool {
    FastValidator::from_text(text, limits)
        .validate_document(|quick| quick.validate_value(limits.max_depth))
        .is_some()
}

/// Validates an object and returns the values of the members with these keys.
pub(crate) fn validate_and_pick<'t, const N: usize>(
    text: &'t str,
    limits: JsonLimits,
    keys: [&str; N],
) -> Option<[Option<&'t str>; N]> {
    let mut found = [None; N];
    FastValidator::from_text(text, limits).validate_document(|quick| {
        quick.validate_object(limits.max_depth.checked_sub(1)?, |key, value| {
            let at = keys.iter().position(|wanted| wanted.as_bytes() == key);
            if let Some(place) = at.and_then(|at| found.get_mut(at)) {
                *place = text.get(value);
            }
        })
    })?;
    Some(found)
}

struct FastValidator<'t> {
    text: &'t [u8],
    position: usize,
    remaining_nodes: usize,
}

impl<'t> FastValidator<'t> {
    fn from_text(text: &'t str, limits: JsonLimits) -> Self {
        Self { text: text.as_bytes(), position: 0, remaining_nodes: limits.max_nodes }
    }

    /// Validates one value and nothing after it.
    fn validate_document(mut self, value: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.skip_whitespace();
        value(&mut self)?;
        self.skip_whitespace();
        (self.position == self.text.len()).then_some(())
    }

    fn peek_byte(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek_byte() {
            self.position += 1;
        }
    }

    /// Consumes one byte if it is next.
    fn take_byte(&mut self, byte: u8) -> Option<()> {
        (self.peek_byte()? == byte).then(|| self.position += 1)
    }

    fn count_node(&mut self) -> Option<()> {
        self.remaining_nodes = self.remaining_nodes.checked_sub(1)?;
        Some(())
    }

    fn validate_value(&mut self, depth: usize) -> Option<()> {
        match self.peek_byte()? {
            b'"' => self.take_string().map(drop),
            b'{' => self.validate_object(depth.checked_sub(1)?, |_, _| {}),
            b'[' => self.validate_array(depth.checked_sub(1)?),
            b't' => self.take_literal(b"true"),
            b'f' => self.take_literal(b"false"),
            b'n' => self.take_literal(b"null"),
            _ => self.validate_number(),
        }
    }

    fn take_literal(&mut self, word: &[u8]) -> Option<()> {
        let here = self.text.get(self.position..)?.starts_with(word);
        here.then(|| self.position += word.len())
    }

    /// Consumes a string; returns its content, and whether it has escapes.
    fn take_string(&mut self) -> Option<(&'t [u8], bool)> {
        let odd = |word| {
            byte_search::match_byte(word, b'"')
                | byte_search::match_byte(word, b'\\')
                | byte_search::match_control(word)
        };
        self.take_byte(b'"')?;
        let (begin, mut escaped) = (self.position, false);
        loop {
            self.position += byte_search::find_first(self.text.get(self.position..)?, odd);
            match self.peek_byte()? {
                b'"' => break,
                b'\\' => {}
                _ => return None,
            }
            let after = self.text.get(self.position + 1)?;
            if !matches!(after, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
                return None;
            }
            escaped = true;
            self.position += 2;
        }
        let inside = self.text.get(begin..self.position)?;
        self.position += 1;
        Some((inside, escaped))
    }

    /// Validates an object; `member` receives each key and the range of its value.
    fn validate_object(
        &mut self,
        depth: usize,
        mut member: impl FnMut(&'t [u8], Range<usize>),
    ) -> Option<()> {
        let mut keys: [&[u8]; MAX_COMPARED_KEYS] = [&[]; MAX_COMPARED_KEYS];
        let mut seen = 0;
        self.take_byte(b'{')?;
        self.skip_whitespace();
        if self.take_byte(b'}').is_some() {
            return Some(());
        }
        loop {
            let (key, escaped) = self.take_string()?;
            // Keys that are equal only after unescaping are left to the serde path.
            if escaped || keys.iter().take(seen).any(|other| *other == key) {
                return None;
            }
            *keys.get_mut(seen)? = key;
            seen += 1;
            self.count_node()?;
            self.skip_whitespace();
            self.take_byte(b':')?;
            self.skip_whitespace();
            let begin = self.position;
            self.validate_value(depth)?;
            member(key, begin..self.position);
            self.skip_whitespace();
            if self.take_byte(b',').is_none() {
                return self.take_byte(b'}');
            }
            self.skip_whitespace();
        }
    }

    fn validate_array(&mut self, depth: usize) -> Option<()> {
        self.take_byte(b'[')?;
        self.skip_whitespace();
        if self.take_byte(b']').is_some() {
            return Some(());
        }
        loop {
            self.validate_value(depth)?;
            self.count_node()?;
            self.skip_whitespace();
            if self.take_byte(b',').is_none() {
                return self.take_byte(b']');
            }
            self.skip_whitespace();
        }
    }

    fn validate_number(&mut self) -> Option<()> {
        self.take_byte(b'-').unwrap_or_default();
        let zero = self.peek_byte() == Some(b'0');
        if self.count_digits(MAX_INTEGER_DIGITS)? > 1 && zero {
            return None;
        }
        if self.take_byte(b'.').is_some() {
            self.count_digits(usize::MAX)?;
        }
        if matches!(self.peek_byte(), Some(b'e' | b'E')) {
            self.position += 1;
            self.position += usize::from(matches!(self.peek_byte(), Some(b'+' | b'-')));
            self.count_digits(MAX_EXPONENT_DIGITS)?;
        }
        Some(())
    }

    /// Counts digits: at least one, and at most `most`.
    fn count_digits(&mut self, most: usize) -> Option<usize> {
        let rest = self.text.get(self.position..)?;
        let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.position += count;
        (1..=most).contains(&count).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::is_valid;
    use crate::JsonLimits;
    use crate::validator::validate_with_serde;

    fn agrees(text: &str, limits: JsonLimits) -> bool {
        let quick = is_valid(text, limits);
        assert!(!quick || validate_with_serde(text.as_bytes(), limits).is_ok(), "{text:?}");
        quick
    }

    #[test]
    fn what_is_plain_takes_the_short_way() {
        for text in [
            "{}",
            " [ ] ",
            "null",
            "-0.5",
            "0.12345678901234567890123",
            "[1e5,-1.5E-07,2e+99,-0.0]",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a.b","arguments":{"text":"größe\n\"x\"","n":[1,2.25,true]}}}"#,
        ] {
            assert!(agrees(text, JsonLimits::DOCUMENT), "{text}");
        }
    }

    #[test]
    fn what_is_odd_is_left_to_the_long_way() {
        for text in [
            "",
            "{",
            "}",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{a:1}",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1e100",
            "1e-007",
            "1.e5",
            "1e5.0",
            "-e5",
            "+1",
            "\"\\u0041\"",
            "\"\\x\"",
            "\"a\nb\"",
            "\"",
            "nul",
            "truex",
            "1 2",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1}x",
            "1234567890123456",
            "\u{feff}1",
            "[1 2]",
            "{\"\\n\":1}",
            "[",
            "[[",
            "\"\\",
        ] {
            assert!(!agrees(text, JsonLimits::DOCUMENT), "{text}");
        }
    }

    #[test]
    fn bounds_are_the_same() {
        let tight = JsonLimits { max_bytes: 100, max_depth: 3, max_nodes: 4 };
        for (text, taken) in [
            ("[[[]]]", true),
            ("[[[[]]]]", false),
            ("[1,2,3,4]", true),
            ("[1,2,3,4,5]", false),
            (r#"{"a":{"b":{"c":1}}}"#, true),
            (r#"{"a":[1,2,3]}"#, true),
            (r#"{"a":[1,2,3,4]}"#, false),
        ] {
            assert_eq!(agrees(text, tight), taken, "{text}");
            assert_eq!(validate_with_serde(text.as_bytes(), tight).is_ok(), taken, "{text}");
        }
    }

    fn value() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec(("[a-c\"\\\\é]{0,2}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2_000))]

        /// Never a yes where the long way says no: JSON with one place spoiled, and bytes of JSON's own.
        #[test]
        fn a_yes_is_never_wrong(value in value(), at in 0_usize..200, byte in "[\"\\\\{}\\[\\],:0-9a-f.eE+ \\-\u{0}\n]") {
            let mut text = value.to_string();
            agrees(&text, JsonLimits::DOCUMENT);
            let at = text.floor_char_boundary(at % (text.len() + 1));
            text.insert_str(at, &byte);
            agrees(&text, JsonLimits::DOCUMENT);
            if at + 1 < text.len() {
                text.remove(at + 1);
                agrees(&text, JsonLimits::DOCUMENT);
            }
        }

        #[test]
        fn nor_for_text_of_jsons_own_signs(text in "[\"\\\\{}\\[\\],:01ntrue.eE+ \\-]{0,16}") {
            agrees(&text, JsonLimits { max_bytes: 100, max_depth: 3, max_nodes: 6 });
        }
    }
}
