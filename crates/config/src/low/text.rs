//! A text that may be typed without quotes.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// A text in which a number or a truth value is taken as it is typed: `PORT: 8080`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Text(pub(crate) String);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(…)")
    }
}

impl JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
