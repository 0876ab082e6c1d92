//! Conversion of the module API's parameters to JSON Schema: type, description, enum and required
//! names.

use std::collections::HashSet;

use serde_json::{Map, Value};
use tool::Json;

/// Maximum parameters of one tool; more are an error.
pub(super) const MAX_PARAMETERS: usize = 256;
const PARAMETER_TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// Converts the parameters, or describes the invalid one.
pub(super) fn schema_from_parameters(parameters: &Json) -> Result<Json, String> {
    if parameters.kind() != "array" {
        return Err(format!("`parameters` is {}; expected a list", parameters.kind()));
    }
    let parameters = parameters.elements();
    if parameters.len() > MAX_PARAMETERS {
        return Err(format!(
            "{} parameters are too many; the maximum is \
            {MAX_PARAMETERS}",
            parameters.len()
        ));
    }
    let (mut properties, mut required, mut names) = (Map::new(), Vec::new(), HashSet::new());
    for (index, parameter) in parameters.iter().enumerate() {
        let text = |key: &str| {
            let found = parameter.get(key);
            let text = found.as_ref().and_then(|json| json.decode::<String>().ok());
            text.ok_or_else(|| {
                let found = found.as_ref().map_or("missing", Json::kind);
                format!("`parameters[{index}].{key}` is {found}; expected a string")
            })
        };
        let (name, kind, description) = (text("name")?, text("type")?, text("description")?);
        if !names.insert(name.clone()) {
            return Err(format!("parameter `{}` occurs twice", name.escape_debug()));
        }
        let Some(kind) = PARAMETER_TYPES.into_iter().find(|known| **known == kind) else {
            let kinds = PARAMETER_TYPES.join(", ");
            return Err(format!(
                "parameter `{}` has the unknown type `{}`; use one of {kinds}",
                name.escape_debug(),
                kind.escape_debug()
            ));
        };
        let mut property = Map::new();
        property.insert("type".into(), kind.into());
        property.insert("description".into(), description.into());
        if let Some(values) = convert_enum(parameter, kind, &name)? {
            property.insert("enum".into(), values);
        }
        if is_required(parameter, &name)? {
            required.push(Value::from(name.clone()));
        }
        properties.insert(name, Value::Object(property));
    }
    let schema = [
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), Value::Array(required)),
    ];
    Ok(Json::encode(&Map::from_iter(schema)))
}

/// Returns whether a parameter is required; the module API's default is true.
fn is_required(parameter: &Json, name: &str) -> Result<bool, String> {
    match parameter.get("required") {
        None => Ok(true),
        Some(json) => json.decode().map_err(|_| {
            let (name, kind) = (name.escape_debug(), json.kind());
            format!("`required` of parameter `{name}` is {kind}; expected true or false")
        }),
    }
}

/// Converts the enum of a parameter.
///
/// The module API has strings only; modules also send values of the parameter's type. For other
/// types strings are converted, because a string would never equal a typed argument.
fn convert_enum(parameter: &Json, kind: &str, name: &str) -> Result<Option<Value>, String> {
    let Some(values_json) = parameter.get("enum").filter(|json| json.kind() != "null") else {
        return Ok(None);
    };
    let enum_error = |what: &str| format!("`enum` of parameter `{}` {what}", name.escape_debug());
    if values_json.kind() != "array" {
        return Err(enum_error(&format!("is {}; expected a list of {kind}s", values_json.kind())));
    }
    let given = values_json.elements();
    if given.is_empty() {
        return Ok(None);
    }
    let values: Option<Vec<Value>> =
        given.iter().map(|given| convert_enum_value(&given.to_value(), kind)).collect();
    let type_error = || enum_error(&format!("contains a value that is not of the type `{kind}`"));
    values.map(|values| Some(Value::Array(values))).ok_or_else(type_error)
}

/// Converts one enum value to the parameter's type.
fn convert_enum_value(given: &Value, kind: &str) -> Option<Value> {
    let text = given.as_str();
    match kind {
        "string" => text.map(Value::from),
        "integer" => {
            let number = given.as_i64().or_else(|| text?.parse().ok());
            number.map(Value::from)
        }
        "number" => {
            let number = given.as_f64().or_else(|| text?.parse().ok());
            number.filter(|number| number.is_finite()).map(Value::from)
        }
        "boolean" => {
            let flag = given.as_bool().or_else(|| text?.parse().ok());
            flag.map(Value::from)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::Json;

    use super::schema_from_parameters;

    fn schema(parameters: &Value) -> Result<Value, String> {
        schema_from_parameters(&Json::encode(parameters)).map(|schema| schema.to_value())
    }

    /// The module API's example, in its order of keys.
    #[test]
    fn parameters_become_a_schema() {
        let parameters = json!([
            { "name": "query", "type": "string", "description": "Search query", "required": true },
            { "name": "max_results", "type": "integer", "description": "Max results", "required": false },
        ]);
        assert_eq!(
            schema_from_parameters(&Json::encode(&parameters)).unwrap().as_str(),
            concat!(
                r#"{"type":"object","properties":{"#,
                r#""query":{"type":"string","description":"Search query"},"#,
                r#""max_results":{"type":"integer","description":"Max results"}},"#,
                r#""required":["query"]}"#
            )
        );
        let empty = json!({ "type": "object", "properties": {}, "required": [] });
        assert_eq!(schema(&json!([])).unwrap(), empty);
    }

    #[test]
    fn a_parameter_that_does_not_say_is_required() {
        let parameters = json!([{ "name": "a", "type": "object", "description": "" }]);
        assert_eq!(schema(&parameters).unwrap()["required"], json!(["a"]));
    }

    #[test]
    fn enums_are_of_the_parameters_type() {
        let one = |kind: &str, values: &Value| {
            let parameter = json!({ "name": "a", "type": kind, "description": "", "enum": values });
            schema(&json!([parameter])).map(|schema| schema["properties"]["a"]["enum"].clone())
        };
        assert_eq!(one("string", &json!(["1", "2"])).unwrap(), json!(["1", "2"]));
        assert_eq!(one("integer", &json!(["1", "2"])).unwrap(), json!([1, 2]));
        assert_eq!(one("boolean", &json!(["true"])).unwrap(), json!([true]));
        assert_eq!(one("number", &json!(["0.5"])).unwrap(), json!([0.5]));
        assert_eq!(one("string", &Value::Null).unwrap(), Value::Null);
        assert_eq!(one("string", &json!([])).unwrap(), Value::Null);
        assert_eq!(
            one("integer", &json!(["x"])).unwrap_err(),
            "`enum` of parameter `a` contains a value that is not of the type `integer`"
        );
        assert_eq!(
            one("integer", &json!("1")).unwrap_err(),
            "`enum` of parameter `a` is string; expected a list of integers"
        );
        assert!(one("string", &json!([1])).is_err() && one("array", &json!(["a"])).is_err());
        // Values of its own type, which modules send too.
        assert_eq!(one("integer", &json!([1, 2])).unwrap(), json!([1, 2]));
        assert_eq!(one("number", &json!([0.5, 2])).unwrap(), json!([0.5, 2.0]));
        assert_eq!(one("boolean", &json!([true])).unwrap(), json!([true]));
        assert!(one("integer", &json!([1.5])).is_err() && one("boolean", &json!([1])).is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let told = |parameters: &Value| schema(parameters).unwrap_err();
        let good = json!({ "name": "a", "type": "string", "description": "" });
        assert_eq!(told(&json!({})), "`parameters` is object; expected a list");
        assert_eq!(told(&json!([good, good])), "parameter `a` occurs twice");
        assert_eq!(
            told(&json!([good, { "name": 5 }])),
            "`parameters[1].name` is number; expected a string"
        );
        assert_eq!(told(&json!([5])), "`parameters[0].name` is missing; expected a string");
        assert_eq!(
            told(&json!([{ "name": "a", "type": "str", "description": "" }])),
            "parameter `a` has the unknown type `str`; use one of string, integer, number, \
             boolean, array, object"
        );
        let mut odd = good;
        odd["required"] = json!("yes");
        assert_eq!(
            told(&json!([odd])),
            "`required` of parameter `a` is string; expected true or false"
        );
        let many: Vec<Value> = (0..257)
            .map(|n| json!({ "name": n.to_string(), "type": "string", "description": "" }))
            .collect();
        assert_eq!(told(&json!(many)), "257 parameters are too many; the maximum is 256");
    }
}
