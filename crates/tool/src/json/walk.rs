//! Walking over text that was checked: nothing is judged again, so a value is passed over by its
//! quotes and brackets alone.

use std::borrow::Cow;

/// The members of an object, in order: key and value, each as it stands. Nothing for anything else.
pub(super) struct Members<'t> {
    rest: &'t str,
}

impl<'t> Members<'t> {
    /// `text` was checked.
    pub(super) fn of(text: &'t str) -> Self {
        let rest = text.trim_ascii_start();
        Self { rest: rest.strip_prefix('{').unwrap_or_default() }
    }
}

impl<'t> Iterator for Members<'t> {
    type Item = (Cow<'t, str>, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.trim_ascii_start();
        let rest = rest.strip_prefix(',').unwrap_or(rest).trim_ascii_start();
        if !rest.starts_with('"') {
            return None;
        }
        let (key, rest) = rest.split_at_checked(string(rest.as_bytes()))?;
        let rest = rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
        let (value, rest) = rest.split_at_checked(value(rest.as_bytes()))?;
        self.rest = rest;
        Some((unquoted(key)?, value))
    }
}

/// What stands between the quotes of a string; borrowed, where nothing is escaped.
pub(super) fn unquoted(string: &str) -> Option<Cow<'_, str>> {
    let inside = string.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inside.as_bytes()).is_some() {
        return serde_json::from_str(string).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inside))
}

/// Bytes of the string that begins here, quotes included.
fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(quote_or_escape) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

fn quote_or_escape(text: &[u8]) -> Option<usize> {
    memchr::memchr2(b'"', b'\\', text)
}

/// Bytes of the value that begins here.
fn value(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string(text),
        Some(b'{') => nested(text, (b'{', b'}')),
        Some(b'[') => nested(text, (b'[', b']')),
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            text.iter().position(ends).unwrap_or(text.len())
        }
    }
}

/// An array or object. What it holds is balanced too, so only its own kind of bracket is counted.
fn nested(text: &[u8], (open, close): (u8, u8)) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr3(b'"', open, close, rest))
    {
        at += found;
        match text.get(at) {
            Some(b'"') => {
                at += string(text.get(at..).unwrap_or_default());
                continue;
            }
            Some(byte) if *byte == open => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::Members;

    fn walked(text: &str) -> Vec<(String, String)> {
        let own =
            |(key, value): (std::borrow::Cow<'_, str>, &str)| (key.into_owned(), value.to_owned());
        Members::of(text).map(own).collect()
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
        /// The same members that the parser finds.
        #[test]
        fn agrees_with_the_parser(
            keys in proptest::collection::btree_set("\\PC{0,4}", 0..6),
            text in "\\PC{0,6}",
        ) {
            let inner = serde_json::json!([text, {"k": [text, 1.5, true], "\"": null}]);
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
