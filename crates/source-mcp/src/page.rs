//! One page of a list, its elements as received.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Elements kept of one page. The list's own bound is counted over all pages and may be lower.
const MOST: usize = 100_000;

/// The four kinds of lists of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    /// MCP's method.
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }
}

/// One page.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) items: Vec<&'a RawValue>,
    /// Where the next one begins.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    tools: Option<Items<'a>>,
    #[serde(borrow)]
    prompts: Option<Items<'a>>,
    #[serde(borrow)]
    resources: Option<Items<'a>>,
    #[serde(rename = "resourceTemplates", borrow)]
    templates: Option<Items<'a>>,
    #[serde(rename = "nextCursor")]
    next: Option<String>,
}

/// An array, of which no more than [`MOST`] elements are kept: a page of sixteen megabytes can hold
/// eight million.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Items<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while items.len() < MOST {
                    let Some(item) = seq.next_element()? else { return Ok(Items(items)) };
                    items.push(item);
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

/// Reads a result of `kind`.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn page(kind: Kind, result: &[u8]) -> Result<Page<'_>, String> {
    let fields: Fields<'_> = serde_json::from_slice(result).map_err(|error| error.to_string())?;
    let (items, field) = match kind {
        Kind::Tools => (fields.tools, "tools"),
        Kind::Prompts => (fields.prompts, "prompts"),
        Kind::Resources => (fields.resources, "resources"),
        Kind::Templates => (fields.templates, "resourceTemplates"),
    };
    let Items(items) = items.ok_or_else(|| format!("the answer has no `{field}`"))?;
    Ok(Page { items, next: fields.next.filter(|next| !next.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::{Kind, page};

    #[test]
    fn elements_are_the_bytes_they_came_as() {
        let text = br#"{"tools":[{"name": "a", "x":1.0e2},7],"nextCursor":"2","_meta":{"y":1}}"#;
        let page = page(Kind::Tools, text).unwrap();
        let items: Vec<_> = page.items.iter().map(|raw| raw.get()).collect();
        assert_eq!(items, [r#"{"name": "a", "x":1.0e2}"#, "7"]);
        assert_eq!(page.next.as_deref(), Some("2"));
    }

    #[test]
    fn an_empty_cursor_is_the_end_and_a_missing_list_is_named() {
        assert_eq!(page(Kind::Tools, br#"{"tools":[],"nextCursor":""}"#).unwrap().next, None);
        let error = page(Kind::Templates, br#"{"tools":[]}"#).unwrap_err();
        assert_eq!(error, "the answer has no `resourceTemplates`");
    }
}
