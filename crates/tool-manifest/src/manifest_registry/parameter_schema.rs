//! Conversion of the research registry's parameter notation to JSON Schema.

use serde_json::{Map, Value, json};

/// Returns the schema of the arguments. Unknown names are rejected unless `allow_others` is true.
pub(super) fn parameters_schema(parameters: Map<String, Value>, allow_others: bool) -> Value {
    let (properties, required) = property_schemas(parameters, |fields| {
        fields.shift_remove("required").is_some_and(|word| word == true)
    });
    let mut schema = json!({ "type": "object", "properties": properties, "required": required });
    if let (false, Some(schema)) = (allow_others, schema.as_object_mut()) {
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
    schema
}

/// Returns the schema of one value. `any` is dropped, `fields` become properties that are required
/// unless `optional`; everything else is JSON Schema already.
pub(super) fn value_schema(value: Value) -> Value {
    let Value::Object(mut value) = value else { return value };
    if value.get("type").is_some_and(|kind| kind == "any") {
        value.shift_remove("type");
    }
    if let Some(items) = value.get_mut("items") {
        *items = value_schema(items.take());
    }
    if let Some(Value::Object(fields)) = value.shift_remove("fields") {
        let (properties, required) = property_schemas(fields, |fields| {
            fields.shift_remove("optional").is_none_or(|word| word != true)
        });
        value.insert("properties".to_owned(), Value::Object(properties));
        value.insert("required".to_owned(), json!(required));
    }
    Value::Object(value)
}

/// Returns each property's schema, and the names of required ones.
fn property_schemas(
    fields: Map<String, Value>,
    needed: impl Fn(&mut Map<String, Value>) -> bool,
) -> (Map<String, Value>, Vec<String>) {
    let mut required = Vec::new();
    let mut schema = |(name, mut value): (String, Value)| {
        if value.as_object_mut().is_some_and(&needed) {
            required.push(name.clone());
        }
        (name, value_schema(value))
    };
    let properties = fields.into_iter().map(&mut schema).collect();
    (properties, required)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{parameters_schema, value_schema};

    #[test]
    fn research_registry_parameters_become_a_schema() {
        let Value::Object(parameters) = json!({
            "url": { "type": "string", "required": true, "description": "d" },
            "data": { "type": "any", "required": false },
        }) else {
            panic!()
        };
        let properties = json!({ "url": { "type": "string", "description": "d" }, "data": {} });
        assert_eq!(
            parameters_schema(parameters.clone(), false),
            json!({ "type": "object", "properties": properties, "required": ["url"],
                "additionalProperties": false })
        );
        assert_eq!(parameters_schema(parameters, true).get("additionalProperties"), None);
    }

    #[test]
    fn fields_are_there_unless_they_are_optional() {
        let fields = json!({ "a": { "type": "any" }, "b": { "type": "string", "optional": true } });
        let schema =
            json!({ "properties": { "a": {}, "b": { "type": "string" } }, "required": ["a"] });
        let mut wanted = schema.clone();
        wanted["type"] = json!("object");
        assert_eq!(value_schema(json!({ "type": "object", "fields": fields })), wanted);
        let items = json!({ "type": "array", "items": { "fields": fields } });
        assert_eq!(value_schema(items), json!({ "type": "array", "items": schema }));
        assert_eq!(
            value_schema(json!({ "type": "any", "description": "d" })),
            json!({ "description": "d" })
        );
    }
}
