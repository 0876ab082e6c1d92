//! A borrowed JSON value and a forward-only cursor over validated text, for documents too large for
//! a tree.

use std::borrow::Cow;

use super::{Json, kind_of, lexer};

/// A borrowed value within validated text.
#[derive(Debug, Clone, Copy)]
pub struct JsonRef<'t>(pub(super) &'t str);

impl<'t> JsonRef<'t> {
    /// Returns the raw text of the value.
    pub fn as_str(self) -> &'t str {
        self.0
    }

    /// Returns `object`, `array`, `string`, `number`, `boolean` or `null`.
    pub fn kind(self) -> &'static str {
        kind_of(self.0)
    }

    /// Returns the content of a string; `None` for other kinds.
    pub fn string_value(self) -> Option<Cow<'t, str>> {
        lexer::unescape_string(self.0)
    }
}

/// A forward-only cursor over validated text, which visits each value once.
#[derive(Debug, Clone)]
pub struct JsonCursor<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> JsonCursor<'t> {
    /// Creates a cursor before the value of `json`.
    pub fn from_json(json: &'t Json) -> Self {
        let text = json.as_str();
        Self { text, position: lexer::skip_whitespace(text.as_bytes(), 0) }
    }

    /// Returns the kind of the next value.
    pub fn kind(&self) -> &'static str {
        kind_of(self.text.get(self.position..).unwrap_or_default())
    }

    /// Returns the next value and advances past it.
    pub fn next_value(&mut self) -> JsonRef<'t> {
        let begin = self.position;
        self.position = lexer::skip_value(self.text.as_bytes(), begin);
        JsonRef(self.text.get(begin..self.position).unwrap_or_default())
    }

    /// Visits the members of the next object; `member` receives each key before its value, which it
    /// may consume or leave.
    ///
    /// # Errors
    /// The first error of `member`.
    pub fn for_each_member<E>(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'t, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit_parts(b'}', |pass| {
            let key = pass.next_value().string_value().unwrap_or_default();
            let colon = lexer::skip_whitespace(pass.text.as_bytes(), pass.position);
            pass.position = lexer::skip_whitespace(pass.text.as_bytes(), colon + 1);
            pass.visit_one(|pass| member(pass, key))
        })
    }

    /// Visits the elements of the next array, each with its index.
    ///
    /// # Errors
    /// The first error of `element`.
    pub fn for_each_element<E>(
        &mut self,
        mut element: impl FnMut(&mut Self, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut place = 0;
        self.visit_parts(b']', |pass| {
            pass.visit_one(|pass| element(pass, place))?;
            place += 1;
            Ok(())
        })
    }

    /// Visits one value and advances past it if the visitor did not.
    fn visit_one<E>(&mut self, look: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let begin = self.position;
        look(self)?;
        if self.position == begin {
            self.next_value();
        }
        Ok(())
    }

    fn visit_parts<E>(
        &mut self,
        close: u8,
        mut part: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = self.text.as_bytes();
        self.position = lexer::skip_whitespace(bytes, self.position + 1);
        while bytes.get(self.position).is_some_and(|byte| *byte != close) {
            part(self)?;
            self.position = lexer::skip_whitespace(bytes, self.position);
            if bytes.get(self.position) == Some(&b',') {
                self.position = lexer::skip_whitespace(bytes, self.position + 1);
            }
        }
        self.position += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::JsonCursor;
    use crate::{Json, JsonLimits};

    /// The value as a tree, put together on one pass.
    fn tree(pass: &mut JsonCursor<'_>) -> serde_json::Value {
        use serde_json::{Map, Value};
        match pass.kind() {
            "object" => {
                let mut all = Map::new();
                let gone = pass.for_each_member(|pass, key| {
                    all.insert(key.into_owned(), tree(pass));
                    Ok::<_, ()>(())
                });
                gone.unwrap();
                Value::Object(all)
            }
            "array" => {
                let mut all = Vec::new();
                let gone = pass.for_each_element(|pass, place| {
                    assert_eq!(place, all.len());
                    all.push(tree(pass));
                    Ok::<_, ()>(())
                });
                gone.unwrap();
                Value::Array(all)
            }
            _ => serde_json::from_str(pass.next_value().as_str()).unwrap(),
        }
    }

    #[test]
    fn what_is_left_alone_is_passed_over() {
        let text = json(r#" { "a" : [ 1 , {"]":2} ] , "b" : {} , "c":[[ ]] , "d" : "x" } "#);
        let (mut keys, mut pass) = (Vec::new(), JsonCursor::from_json(&text));
        let gone = pass.for_each_member(|pass, key| {
            keys.push(format!("{key} {}", pass.kind()));
            Ok::<_, ()>(())
        });
        gone.unwrap();
        assert_eq!(keys, ["a array", "b object", "c array", "d string"]);
        let stopped = JsonCursor::from_json(&text)
            .for_each_member(|_, key| if key == "b" { Err(key) } else { Ok(()) });
        assert_eq!(stopped.unwrap_err(), "b");
    }

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap()
    }

    proptest::proptest! {
        #[test]
        fn a_pass_finds_what_the_parser_finds(
            keys in proptest::collection::btree_set("[a-c\"\\\\é]{0,2}", 0..5), text in "\\PC{0,6}"
        ) {
            let inner = serde_json::json!([text, {"]": [text, []], "}": {}}, 1.5, null]);
            let object: serde_json::Map<_, _> = keys.into_iter().map(|key| (key, inner.clone())).collect();
            for text in [serde_json::to_string(&object).unwrap(), serde_json::to_string_pretty(&object).unwrap()] {
                proptest::prop_assert_eq!(tree(&mut JsonCursor::from_json(&json(&text))), serde_json::Value::Object(object.clone()));
            }
        }
    }
}
