//! Fast path of the validator: accepts only text that the serde path accepts too, and leaves every
//! doubtful case to it, which reports errors with locations.
//!
//! Accepted are texts without `\u` escapes, with short numbers and with few keys per object.

use std::ops::Range;

use crate::Limits;
use crate::find;

/// Maximum number of keys of one object that are compared.
const FEW: usize = 12;
/// Maximum number of integer digits of a number that needs no range check; the fraction may have
/// any number.
const DIGITS: usize = 15;
/// Maximum number of exponent digits, with which no number is out of range.
const EXPONENT: usize = 2;

/// Returns true if `text` is certainly valid JSON within `limits`, without duplicate keys.
pub(super) fn plain(text: &str, limits: Limits) -> bool {
    Quick::over(text, limits).whole(|quick| quick.value(limits.depth)).is_some()
}

/// Validates an object and returns the values of the members with these keys.
pub(crate) fn picked<'t, const N: usize>(
    text: &'t str,
    limits: Limits,
    keys: [&str; N],
) -> Option<[Option<&'t str>; N]> {
    let mut found = [None; N];
    Quick::over(text, limits).whole(|quick| {
        quick.object(limits.depth.checked_sub(1)?, |key, value| {
            let at = keys.iter().position(|wanted| wanted.as_bytes() == key);
            if let Some(place) = at.and_then(|at| found.get_mut(at)) {
                *place = text.get(value);
            }
        })
    })?;
    Some(found)
}

struct Quick<'t> {
    text: &'t [u8],
    at: usize,
    nodes: usize,
}

impl<'t> Quick<'t> {
    fn over(text: &'t str, limits: Limits) -> Self {
        Self { text: text.as_bytes(), at: 0, nodes: limits.nodes }
    }

    /// Validates one value and nothing after it.
    fn whole(mut self, value: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.space();
        value(&mut self)?;
        self.space();
        (self.at == self.text.len()).then_some(())
    }

    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.next() {
            self.at += 1;
        }
    }

    /// Consumes one byte if it is next.
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.at += 1)
    }

    fn count(&mut self) -> Option<()> {
        self.nodes = self.nodes.checked_sub(1)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.next()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(depth.checked_sub(1)?, |_, _| {}),
            b'[' => self.array(depth.checked_sub(1)?),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let here = self.text.get(self.at..)?.starts_with(word);
        here.then(|| self.at += word.len())
    }

    /// Consumes a string; returns its content, and whether it has escapes.
    fn string(&mut self) -> Option<(&'t [u8], bool)> {
        let odd = |word| find::is(word, b'"') | find::is(word, b'\\') | find::is_control(word);
        self.take(b'"')?;
        let (begin, mut escaped) = (self.at, false);
        loop {
            self.at += find::before(self.text.get(self.at..)?, odd);
            match self.next()? {
                b'"' => break,
                b'\\' => {}
                _ => return None,
            }
            let after = self.text.get(self.at + 1)?;
            if !matches!(after, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
                return None;
            }
            escaped = true;
            self.at += 2;
        }
        let inside = self.text.get(begin..self.at)?;
        self.at += 1;
        Some((inside, escaped))
    }

    /// Validates an object; `member` receives each key and the range of its value.
    fn object(
        &mut self,
        depth: usize,
        mut member: impl FnMut(&'t [u8], Range<usize>),
    ) -> Option<()> {
        let mut keys: [&[u8]; FEW] = [&[]; FEW];
        let mut seen = 0;
        self.take(b'{')?;
        self.space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let (key, escaped) = self.string()?;
            // Keys that are equal only after unescaping are left to the serde path.
            if escaped || keys.iter().take(seen).any(|other| *other == key) {
                return None;
            }
            *keys.get_mut(seen)? = key;
            seen += 1;
            self.count()?;
            self.space();
            self.take(b':')?;
            self.space();
            let begin = self.at;
            self.value(depth)?;
            member(key, begin..self.at);
            self.space();
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.take(b'[')?;
        self.space();
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(depth)?;
            self.count()?;
            self.space();
            if self.take(b',').is_none() {
                return self.take(b']');
            }
            self.space();
        }
    }

    fn number(&mut self) -> Option<()> {
        self.take(b'-').unwrap_or_default();
        let zero = self.next() == Some(b'0');
        if self.digits(DIGITS)? > 1 && zero {
            return None;
        }
        if self.take(b'.').is_some() {
            self.digits(usize::MAX)?;
        }
        if matches!(self.next(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.next(), Some(b'+' | b'-')));
            self.digits(EXPONENT)?;
        }
        Some(())
    }

    /// Counts digits: at least one, and at most `most`.
    fn digits(&mut self, most: usize) -> Option<usize> {
        let rest = self.text.get(self.at..)?;
        let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += count;
        (1..=most).contains(&count).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::plain;
    use crate::Limits;
    use crate::scan::long;

    fn agrees(text: &str, limits: Limits) -> bool {
        let quick = plain(text, limits);
        assert!(!quick || long(text.as_bytes(), limits).is_ok(), "{text:?}");
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
            assert!(agrees(text, Limits::DOCUMENT), "{text}");
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
            assert!(!agrees(text, Limits::DOCUMENT), "{text}");
        }
    }

    #[test]
    fn bounds_are_the_same() {
        let tight = Limits { bytes: 100, depth: 3, nodes: 4 };
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
            assert_eq!(long(text.as_bytes(), tight).is_ok(), taken, "{text}");
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
            agrees(&text, Limits::DOCUMENT);
            let at = text.floor_char_boundary(at % (text.len() + 1));
            text.insert_str(at, &byte);
            agrees(&text, Limits::DOCUMENT);
            if at + 1 < text.len() {
                text.remove(at + 1);
                agrees(&text, Limits::DOCUMENT);
            }
        }

        #[test]
        fn nor_for_text_of_jsons_own_signs(text in "[\"\\\\{}\\[\\],:01ntrue.eE+ \\-]{0,16}") {
            agrees(&text, Limits { bytes: 100, depth: 3, nodes: 6 });
        }
    }
}
