//! Looking at checked text without making a tree of it: for texts that are large.

use std::borrow::Cow;

use super::{Json, kind_of, walk};

/// A value within checked text, as it stands there.
#[derive(Debug, Clone, Copy)]
pub struct Look<'t>(&'t str);

impl Json {
    /// Its value, to be looked at.
    pub fn look(&self) -> Look<'_> {
        Look(self.0.trim_ascii())
    }
}

impl<'t> Look<'t> {
    /// As it stands.
    pub fn as_str(self) -> &'t str {
        self.0
    }

    /// `object`, `array`, `string`, `number`, `boolean` or `null`.
    pub fn kind(self) -> &'static str {
        kind_of(self.0)
    }

    /// What a string says; nothing for anything else.
    pub fn text(self) -> Option<Cow<'t, str>> {
        walk::unquoted(self.0)
    }

    /// The members of an object, in order; none for anything else.
    pub fn members(self) -> impl Iterator<Item = (Cow<'t, str>, Look<'t>)> {
        walk::Members::of(self.0).map(|(key, value)| (key, Look(value)))
    }

    /// The elements of an array, in order; none for anything else.
    pub fn elements(self) -> impl Iterator<Item = Look<'t>> {
        walk::Elements::of(self.0).map(Look)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Json, Limits};

    fn json(text: &str) -> Json {
        Json::check(text.to_owned(), Limits::DOCUMENT).unwrap()
    }

    #[test]
    fn parts_are_as_they_stand() {
        let text = json(r#" { "a" : [ 1.0 , "x,]" ,{"b":[]}, [] ] , "n" : null } "#);
        let members: Vec<_> = text.look().members().collect();
        assert_eq!((members[0].1.kind(), members[1].1.kind()), ("array", "null"));
        let elements: Vec<_> = members[0].1.elements().map(super::Look::as_str).collect();
        assert_eq!(elements, ["1.0", r#""x,]""#, r#"{"b":[]}"#, "[]"]);
        assert_eq!(members[0].1.elements().nth(1).unwrap().text().unwrap(), "x,]");
        for none in ["[]", " [ ] ", "{}", "7", r#""[1]""#] {
            assert_eq!(json(none).look().elements().count(), 0, "{none}");
        }
    }

    proptest::proptest! {
        /// The same elements that the parser finds.
        #[test]
        fn elements_agree_with_the_parser(texts in proptest::collection::vec("\\PC{0,6}", 0..6)) {
            let list: Vec<_> = texts.iter().map(|text| serde_json::json!([text, {"]": text}, 1.5])).collect();
            for text in [serde_json::to_string(&list).unwrap(), serde_json::to_string_pretty(&list).unwrap()] {
                let json = json(&text);
                let walked: Vec<serde_json::Value> =
                    json.look().elements().map(|it| serde_json::from_str(it.as_str()).unwrap()).collect();
                proptest::prop_assert_eq!(&walked, &list);
            }
        }
    }
}
