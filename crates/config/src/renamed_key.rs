//! Keys that earlier versions named otherwise.

use serde_json::Value;

use super::config_value::{ConfigValue, ValueParser};
use super::section::{SchemaDefinitions, SchemaProperties, SectionKeys};

/// Reads a key by its name, or else by its former one.
pub(crate) struct RenamedKeyParser<P> {
    former_name: &'static str,
    parser: P,
}

/// Accepts an optional key under its former name too.
pub(crate) fn renamed_from<P: ValueParser>(
    former_name: &'static str,
    parser: P,
) -> RenamedKeyParser<P> {
    RenamedKeyParser { former_name, parser }
}

impl<P: ValueParser> ValueParser for RenamedKeyParser<P> {
    type Output = P::Output;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<P::Output> {
        self.parser.parse_value(value)
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        self.parser.json_schema(definitions)
    }
    fn read_key<'a>(
        &self,
        keys: &SectionKeys<'a>,
        key: &'static str,
    ) -> Option<(ConfigValue<'a>, P::Output)> {
        let value = keys.find_renamed_value(key, self.former_name)?;
        Some((value, value.parse_with(&self.parser)?))
    }
    fn describe_key(
        &self,
        key: &'static str,
        description: &str,
        properties: &mut SchemaProperties<'_>,
    ) {
        properties.add_property(key, description, &self.parser);
        let former = format!("The former name of `{key}`.");
        properties.add_property(self.former_name, &former, &self.parser);
        if let Some(Value::Object(property)) = properties.by_key.get_mut(self.former_name) {
            property.insert("deprecated".to_owned(), true.into());
        }
    }
}
