//! One page of a list, with its elements as received.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Maximum elements of one page. The limit of the whole list counts all pages and may be lower.
const MAX_ELEMENTS: usize = 100_000;

/// Kind of list that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UpstreamListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
    Skills,
    Events,
}

impl UpstreamListKind {
    /// Every kind, in the order of the requests.
    pub(super) const ALL: [Self; 6] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates, Self::Skills, Self::Events];

    /// Returns the MCP method of this list.
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Skills => "skills/list",
            Self::Events => "events/list",
        }
    }
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct ListPage<'a> {
    pub(super) items: Vec<&'a RawValue>,
    /// Cursor of the next page.
    pub next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct ListResultFields<'a> {
    #[serde(borrow)]
    tools: Option<BoundedArray<'a>>,
    #[serde(borrow)]
    prompts: Option<BoundedArray<'a>>,
    #[serde(borrow)]
    resources: Option<BoundedArray<'a>>,
    #[serde(rename = "resourceTemplates", borrow)]
    templates: Option<BoundedArray<'a>>,
    #[serde(borrow)]
    skills: Option<BoundedArray<'a>>,
    #[serde(borrow)]
    events: Option<BoundedArray<'a>>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

/// Array that stores at most [`MAX_ELEMENTS`] elements: a page of sixteen megabytes can hold eight
/// million.
struct BoundedArray<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for BoundedArray<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArrayVisitor;
        impl<'de> Visitor<'de> for ArrayVisitor {
            type Value = BoundedArray<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while items.len() < MAX_ELEMENTS {
                    let Some(item) = seq.next_element()? else { return Ok(BoundedArray(items)) };
                    items.push(item);
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(BoundedArray(items))
            }
        }
        deserializer.deserialize_seq(ArrayVisitor)
    }
}

/// Parses a list result of `kind`.
///
/// # Errors
/// Describes the reason if the result is invalid.
pub(super) fn parse_page(kind: UpstreamListKind, result: &[u8]) -> Result<ListPage<'_>, String> {
    let fields: ListResultFields<'_> =
        serde_json::from_slice(result).map_err(|error| error.to_string())?;
    let (items, field) = match kind {
        UpstreamListKind::Tools => (fields.tools, "tools"),
        UpstreamListKind::Prompts => (fields.prompts, "prompts"),
        UpstreamListKind::Resources => (fields.resources, "resources"),
        UpstreamListKind::Templates => (fields.templates, "resourceTemplates"),
        UpstreamListKind::Skills => (fields.skills, "skills"),
        UpstreamListKind::Events => (fields.events, "events"),
    };
    let BoundedArray(items) = items.ok_or_else(|| format!("the answer has no `{field}`"))?;
    Ok(ListPage { items, next_cursor: fields.next_cursor.filter(|next| !next.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::{UpstreamListKind, parse_page};

    #[test]
    fn elements_are_the_bytes_they_came_as() {
        let text = br#"{"tools":[{"name": "a", "x":1.0e2},7],"nextCursor":"2","_meta":{"y":1}}"#;
        let page = parse_page(UpstreamListKind::Tools, text).unwrap();
        let items: Vec<_> = page.items.iter().map(|raw| raw.get()).collect();
        assert_eq!(items, [r#"{"name": "a", "x":1.0e2}"#, "7"]);
        assert_eq!(page.next_cursor.as_deref(), Some("2"));
    }

    #[test]
    fn an_empty_cursor_is_the_end_and_a_missing_list_is_named() {
        assert_eq!(
            parse_page(UpstreamListKind::Tools, br#"{"tools":[],"nextCursor":""}"#)
                .unwrap()
                .next_cursor,
            None
        );
        let error = parse_page(UpstreamListKind::Templates, br#"{"tools":[]}"#).unwrap_err();
        assert_eq!(error, "the answer has no `resourceTemplates`");
    }
}
