//! Splitting and joining of validated text without copying values or parsing numbers.
//!
//! A part of validated text is valid, and so is an array or object of valid parts: only their total
//! size and depth grow, which the next interface bounds again.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytestring::ByteString;
use serde_json::value::RawValue;

use super::{Json, JsonRef, byte_search, lexer};

impl Json {
    /// Returns an array of `items`, each unchanged.
    pub fn array_of<'a>(items: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::join_items("[", items, "]")
    }

    /// Returns an array with one object whose only field `key` is an array of `items`. The key is a
    /// constant of this program. Without items, the array is empty.
    pub fn wrapped_array<'a>(key: &'static str, items: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() {
            return Self::array_of([]);
        }
        let mut before = String::from("[{");
        write_quoted(&mut before, key);
        before.push_str(":[");
        Self::join_items(&before, items, "]}]")
    }

    /// Allocates once: a list may have a megabyte, and growing would copy it repeatedly.
    fn join_items<'a>(
        before: &str,
        items: impl IntoIterator<Item = &'a Self>,
        after: &'static str,
    ) -> Self {
        let items: Vec<_> = items.into_iter().collect();
        let room: usize = items.iter().map(|item| item.0.len() + 1).sum();
        let mut text = String::with_capacity(before.len() + room + after.len());
        text.push_str(before);
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&item.0);
        }
        text.push_str(after);
        Self(text.into())
    }

    /// Returns an object of `fields` in order, each value unchanged. The keys are distinct
    /// constants of this program.
    pub fn object_from<'a>(fields: impl IntoIterator<Item = (&'static str, &'a Self)>) -> Self {
        let mut text = String::with_capacity(128);
        text.push('{');
        for (key, value) in fields {
            // A value may have megabytes, and growing would copy it repeatedly.
            text.reserve(key.len() + value.0.len() + 8);
            if text.len() > 1 {
                text.push(',');
            }
            write_quoted(&mut text, key);
            text.push(':');
            text.push_str(&value.0);
        }
        text.push('}');
        Self(text.into())
    }

    /// Returns the members of an object in order, sharing its bytes; empty for other kinds.
    pub fn members(&self) -> Vec<(String, Self)> {
        self.iter_members().map(|(key, value)| (key.into_owned(), value)).collect()
    }

    /// Iterates over the members of an object; a key is copied only if it has escapes.
    pub fn iter_members(&self) -> impl Iterator<Item = (Cow<'_, str>, Self)> {
        lexer::MemberIter::from_object(&self.0).map(|(key, value)| (key, self.slice_ref(value)))
    }

    /// Returns the elements of an array in order, sharing its bytes; empty for other kinds.
    pub fn elements(&self) -> Vec<Self> {
        let elements: Vec<&RawValue> = serde_json::from_str(&self.0).unwrap_or_default();
        elements.into_iter().map(|raw| self.slice_ref(raw.get())).collect()
    }

    /// Returns one member of an object, sharing its bytes.
    pub fn get(&self, key: &str) -> Option<Self> {
        let mut members = lexer::MemberIter::from_object(&self.0);
        while let Some((name, value)) = members.next_raw() {
            if name.matches_key(key) {
                return Some(self.slice_ref(value));
            }
        }
        None
    }

    /// Returns some members of an object in one pass, sharing its bytes; none for other kinds.
    pub fn pick<const N: usize>(&self, keys: [&str; N]) -> [Option<Self>; N] {
        self.pick_refs(keys).map(|look| Some(self.slice_of(look?)))
    }

    /// Returns borrowed references to some members of an object.
    pub fn pick_refs<const N: usize>(&self, keys: [&str; N]) -> [Option<JsonRef<'_>>; N] {
        let mut found = [None; N];
        let mut members = lexer::MemberIter::from_object(&self.0);
        while let Some((key, value)) = members.next_raw() {
            let at = keys.iter().position(|wanted| key.matches_key(wanted));
            if let Some(place) = at.and_then(|at| found.get_mut(at)) {
                *place = Some(JsonRef(value));
            }
        }
        found
    }

    /// Returns the object with `key` set to `value`: replaced in place, or added at the end. All
    /// other bytes stay unchanged; other kinds are returned as they are.
    #[must_use]
    pub fn with_member(&self, key: &str, value: &Self) -> Self {
        if self.kind() != "object" {
            return self.clone();
        }
        let members: Vec<_> = lexer::MemberIter::from_object(&self.0).collect();
        let found = members.iter().find(|(name, _)| name == key).map(|(_, raw)| *raw);
        let (before, after, key) = if let Some(raw) = found {
            let start = raw.as_ptr().addr() - self.0.as_ptr().addr();
            (start, start + raw.len(), None)
        } else {
            let end = self.0.rfind('}').unwrap_or_default();
            (end, end, Some(Self::encode(key)))
        };
        let mut text = String::with_capacity(self.0.len() + value.0.len() + 8);
        text.push_str(self.0.get(..before).unwrap_or_default());
        if let Some(key) = key {
            text.push_str(if members.is_empty() { "" } else { "," });
            text.push_str(&key.0);
            text.push(':');
        }
        text.push_str(&value.0);
        text.push_str(self.0.get(after..).unwrap_or_default());
        Self(text.into())
    }

    /// Returns the text with `part`, which shares its bytes, replaced by `value`; unchanged if it
    /// does not share them.
    #[must_use]
    pub fn with_part_replaced(&self, part: &Self, value: &Self) -> Self {
        let start = part.0.as_ptr().addr().checked_sub(self.0.as_ptr().addr());
        let places = start.and_then(|start| {
            let end = start.checked_add(part.0.len())?;
            Some((self.0.get(..start)?, self.0.get(start..end)?, self.0.get(end..)?))
        });
        let Some((before, _, after)) = places else { return self.clone() };
        let mut text = String::with_capacity(before.len() + value.0.len() + after.len());
        text.push_str(before);
        text.push_str(&value.0);
        text.push_str(after);
        Self(text.into())
    }

    /// Returns the object without `key`. All other bytes stay unchanged; other kinds are returned
    /// as they are.
    #[must_use]
    pub fn without_member(&self, key: &str) -> Self {
        let members: Vec<_> = lexer::MemberIter::from_object(&self.0).collect();
        let Some(at) = members.iter().position(|(name, _)| name == key) else {
            return self.clone();
        };
        let span = |(_, raw): &(Cow<'_, str>, &str)| {
            let start = raw.as_ptr().addr() - self.0.as_ptr().addr();
            start..start + raw.len()
        };
        let open = self.0.find('{').unwrap_or_default() + 1;
        let end = members.get(at).map(span).map_or(open, |span| span.end);
        // Removes from the end of the previous member; the first member is removed with the comma
        // after it.
        let before = at.checked_sub(1).and_then(|at| members.get(at)).map(span);
        let after = self.0.get(end..).unwrap_or_default();
        let comma = after.find(',').filter(|_| members.len() > 1);
        let (from, to) = match (before, comma) {
            (Some(before), _) => (before.end, end),
            (None, Some(comma)) => (open, end + comma + 1),
            (None, None) => (open, end),
        };
        let mut text = String::with_capacity(self.0.len());
        text.push_str(self.0.get(..from).unwrap_or_default());
        text.push_str(self.0.get(to..).unwrap_or_default());
        Self(text.into())
    }

    /// Returns a part of this text as a value that shares its bytes. A part of another text is
    /// copied.
    #[must_use]
    pub fn slice_of(&self, value: JsonRef<'_>) -> Self {
        let (part, whole) = (value.as_str(), self.as_str());
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        let inside = start.checked_add(part.len()).is_some_and(|end| end <= whole.len());
        if inside { self.slice_ref(part) } else { Self(ByteString::from(part)) }
    }

    /// Appends a JSON string with the value as text: a string as it is, and the JSON text of any other
    /// value.
    pub fn write_as_text(&self, out: &mut String) {
        if self.kind() == "string" && !self.0.contains("\\u") {
            // Nothing in it is spelt by number, so that it is the same string as it stands.
            return out.push_str(self.0.trim_ascii());
        }
        match self.string_value() {
            Some(text) => write_quoted(out, &text),
            None => write_quoted(out, &self.0),
        }
    }

    /// Slices a part that was borrowed from this text, so that its bytes lie inside.
    fn slice_ref(&self, value: &str) -> Self {
        Self(self.0.slice_ref(value))
    }
}

/// Writes a quoted JSON string.
pub fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    write_escaped(out, text);
    out.push('"');
}

/// Writes the content of a JSON string, escaped.
pub fn write_escaped(out: &mut String, mut text: &str) {
    loop {
        let plain = byte_search::find_first(text.as_bytes(), match_escaped);
        out.push_str(text.get(..plain).unwrap_or_default());
        let mut rest = text.get(plain..).unwrap_or_default().chars();
        match rest.next() {
            None => return,
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            // Writing to a string never fails.
            Some(other) => write!(out, "\\u{:04x}", u32::from(other)).unwrap_or_default(),
        }
        text = rest.as_str();
    }
}

/// Marks bytes that need an escape in a JSON string.
fn match_escaped(word: u64) -> u64 {
    byte_search::match_byte(word, b'"')
        | byte_search::match_byte(word, b'\\')
        | byte_search::match_control(word)
}

#[cfg(test)]
mod tests {
    use super::Json;
    use crate::JsonLimits;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap()
    }

    #[test]
    fn parts_are_the_bytes_as_they_came() {
        let text = json(r#" { "a" : 1.0e2 , "b\n": [ 1 , {"x":12345678901234567890123} ] } "#);
        assert_eq!(text.get("a").unwrap().as_str(), "1.0e2");
        let elements = text.get("b\n").unwrap().elements();
        assert_eq!(elements[1].as_str(), r#"{"x":12345678901234567890123}"#);
        let [b, c, a] = text.pick(["b\n", "c", "a"]);
        assert_eq!((b, c, a), (text.get("b\n"), None, text.get("a")));
        assert_eq!(json("[1]").pick(["a"]), [None]);
        assert_eq!(text.members().len(), 2);
        assert_eq!(text.get("c"), None);
        assert!(json("[1]").members().is_empty() && json("{}").elements().is_empty());
    }

    #[test]
    fn joining_adds_nothing_of_its_own() {
        let (a, b) = (json(" 1.0 "), json(r#""é""#));
        assert_eq!(Json::array_of([&a, &b]).as_str(), r#"[ 1.0 ,"é"]"#);
        assert_eq!(Json::array_of([]).as_str(), "[]");
        assert_eq!(Json::wrapped_array("k", [&a, &b]).as_str(), r#"[{"k":[ 1.0 ,"é"]}]"#);
        assert_eq!(Json::wrapped_array("k", []).as_str(), "[]");
        assert_eq!(Json::object_from([("x", &a), ("y", &b)]).as_str(), r#"{"x": 1.0 ,"y":"é"}"#);
        assert_eq!(Json::object_from([]).as_str(), "{}");
    }

    #[test]
    fn one_member_is_replaced_and_the_rest_stays() {
        let text = json(r#"{ "name" : "a", "x": {"name": 1.0} }"#);
        let with = |key: &str| text.with_member(key, &json("null"));
        assert_eq!(with("name").as_str(), r#"{ "name" : null, "x": {"name": 1.0} }"#);
        assert_eq!(with("y").as_str(), r#"{ "name" : "a", "x": {"name": 1.0} ,"y":null}"#);
        assert_eq!(json(" {} ").with_member("a", &json("1")).as_str(), r#" {"a":1} "#);
        assert_eq!(json("[]").with_member("a", &json("1")).as_str(), "[]");
    }

    #[test]
    fn a_part_is_replaced_where_it_stands_and_nowhere_else() {
        let text = json(r#"{ "a" : [1, [1]], "b":[1] }"#);
        let part = text.get("b").unwrap();
        assert_eq!(
            text.with_part_replaced(&part, &json("null")).as_str(),
            r#"{ "a" : [1, [1]], "b":null }"#
        );
        assert_eq!(text.with_part_replaced(&json("[1]"), &json("null")).as_str(), text.as_str());
    }

    #[test]
    fn one_member_goes_and_the_rest_stays() {
        let text = json(r#" { "a" : {"b":1} , "b": 1.0,"c" :[] } "#);
        assert_eq!(text.without_member("a").as_str(), r#" { "b": 1.0,"c" :[] } "#);
        assert_eq!(text.without_member("b").as_str(), r#" { "a" : {"b":1},"c" :[] } "#);
        assert_eq!(text.without_member("c").as_str(), r#" { "a" : {"b":1} , "b": 1.0 } "#);
        assert_eq!(text.without_member("d").as_str(), text.as_str());
        assert_eq!(json(r#"{"a":1 }"#).without_member("a").as_str(), "{ }");
        assert_eq!(json("[]").without_member("a").as_str(), "[]");
    }

    proptest::proptest! {
        /// The text that serde writes.
        #[test]
        fn a_string_is_written_as_ever(text in "[\\PC\\x00-\\x1f\"\\\\/é]{0,24}") {
            let mut out = String::new();
            super::write_quoted(&mut out, &text);
            proptest::prop_assert_eq!(out, serde_json::to_string(&text).unwrap());
        }

        /// What is taken out leaves text that passes the check again.
        #[test]
        fn stays_checked_without(keys in proptest::collection::btree_set("[a-c\"\\\\é]{0,2}", 0..5), key in "[a-c\"]{0,1}") {
            let mut object: serde_json::Map<_, _> =
                keys.into_iter().map(|key| (key, serde_json::json!([1, ",}{"]))).collect();
            let without = Json::encode(&object).without_member(&key);
            object.shift_remove(&key);
            proptest::prop_assert_eq!(json(without.as_str()).to_value(), serde_json::Value::Object(object));
        }

        /// What is put together or changed passes the check again, and reads as it should.
        #[test]
        fn stays_checked(keys in proptest::collection::btree_set("[a-z\"\\\\é]{0,3}", 0..5), key in "[a-z\"]{0,2}") {
            let object: serde_json::Map<_, _> =
                keys.into_iter().map(|key| (key, serde_json::json!([1, "}"]))).collect();
            let mut expected = object.clone();
            expected.insert(key.clone(), serde_json::Value::Null);
            let with = Json::encode(&object).with_member(&key, &Json::encode(&()));
            proptest::prop_assert_eq!(json(with.as_str()).to_value(), serde_json::Value::Object(expected));
        }
    }
}
