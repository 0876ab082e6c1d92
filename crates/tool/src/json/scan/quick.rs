//! The short way for plain texts: it says yes only to what the long way would take too, and leaves
//! everything it has doubts about to that one, which knows what is wrong and where.
//!
//! Plain is: no `\u` escapes, numbers that fit without thought, objects with few keys.

use crate::Limits;

/// Keys of one object that are compared with each other.
const FEW: usize = 12;
/// Digits of a number that is surely no problem for anyone.
const DIGITS: usize = 15;

/// Whether `text` is surely JSON within `limits`, with no key twice in one object.
pub(super) fn plain(text: &str, limits: Limits) -> bool {
    let mut quick = Quick { rest: text.as_bytes(), nodes: limits.nodes };
    quick.space();
    quick.value(limits.depth).is_some() && {
        quick.space();
        quick.rest.is_empty()
    }
}

struct Quick<'t> {
    rest: &'t [u8],
    nodes: usize,
}

impl<'t> Quick<'t> {
    fn space(&mut self) {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes one byte, where it is the next.
    fn take(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        (*first == byte).then(|| self.rest = rest)
    }

    fn count(&mut self) -> Option<()> {
        self.nodes = self.nodes.checked_sub(1)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.rest.first()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.array(depth.checked_sub(1)?),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    /// What stands between the quotes.
    fn string(&mut self) -> Option<&'t [u8]> {
        let inside = self.rest.split_first()?.1;
        let mut rest = inside;
        loop {
            let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
            let at = rest.iter().position(ends)?;
            let (_, tail) = rest.split_at_checked(at)?;
            match tail {
                [b'"', after @ ..] => {
                    self.rest = after;
                    let length = inside.len() - tail.len();
                    return inside.get(..length);
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => {
                    rest = after;
                }
                _ => return None,
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        let mut keys: [&[u8]; FEW] = [&[]; FEW];
        let mut seen = 0;
        self.take(b'{')?;
        self.space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = if self.rest.first()? == &b'"' { self.string()? } else { return None };
            // Two ways to write one key are for the long way to see.
            if key.contains(&b'\\') || keys.iter().take(seen).any(|other| *other == key) {
                return None;
            }
            *keys.get_mut(seen)? = key;
            seen += 1;
            self.count()?;
            self.space();
            self.take(b':')?;
            self.space();
            self.value(depth)?;
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
        let whole = self.digits()?;
        if whole.len() > 1 && whole.first() == Some(&b'0') {
            return None;
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        // An exponent is for the long way.
        (!matches!(self.rest.first(), Some(b'e' | b'E'))).then_some(())
    }

    fn digits(&mut self) -> Option<&'t [u8]> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        (1..=DIGITS).contains(&length).then_some(digits)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::plain;
    use crate::Limits;
    use crate::json::scan::long;

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
            "1e5",
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
