//! Conversion between JSON and BSON values.

use mongodb::bson::{Bson, Document};
use serde_json::{Map, Number, Value};

/// Converts JSON to BSON.
///
/// # Errors
/// Fails for values that BSON cannot represent.
pub(super) fn to_bson(value: Value) -> Result<Bson, String> {
    Ok(match value {
        Value::Null => Bson::Null,
        Value::Bool(value) => Bson::Boolean(value),
        Value::String(text) => Bson::String(text),
        Value::Number(number) => to_bson_number(&number)?,
        Value::Array(elements) => {
            Bson::Array(elements.into_iter().map(to_bson).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => Bson::Document(to_bson_document(members)?),
    })
}

pub(super) fn to_bson_document(members: Map<String, Value>) -> Result<Document, String> {
    let mut document = Document::new();
    for (key, value) in members {
        if key.contains('\0') {
            return Err("a key contains a NUL character, which MongoDB does not support".to_owned());
        }
        document.insert(key, to_bson(value)?);
    }
    Ok(document)
}

fn to_bson_number(number: &Number) -> Result<Bson, String> {
    if let Some(whole) = number.as_i64() {
        return Ok(i32::try_from(whole).map_or(Bson::Int64(whole), Bson::Int32));
    }
    match number.as_f64().filter(|_| !number.is_u64()) {
        Some(value) if value.is_finite() => Ok(Bson::Double(value)),
        _ => Err(format!("the number `{number}` is too large for MongoDB")),
    }
}

/// Converts BSON to JSON.
///
/// # Errors
/// Fails for types that JSON does not have.
pub(super) fn from_bson(value: &Bson) -> Result<Value, String> {
    Ok(match value {
        Bson::Null => Value::Null,
        Bson::Boolean(value) => Value::Bool(*value),
        Bson::String(text) => Value::String(text.clone()),
        Bson::Int32(value) => Value::from(*value),
        Bson::Int64(value) => Value::from(*value),
        Bson::Double(value) => {
            let number = Number::from_f64(*value);
            Value::Number(number.ok_or("it contains an infinite number or NaN")?)
        }
        Bson::Array(elements) => {
            Value::Array(elements.iter().map(from_bson).collect::<Result<_, _>>()?)
        }
        Bson::Document(document) => Value::Object(from_bson_document(document)?),
        other => return Err(format!("it contains a value of type {:?}", other.element_type())),
    })
}

pub(super) fn from_bson_document(document: &Document) -> Result<Map<String, Value>, String> {
    document.iter().map(|(key, value)| Ok((key.clone(), from_bson(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{from_bson, to_bson};

    #[test]
    fn what_is_kept_is_read_again() {
        let value = json!({
            "$schema": "x", "a.b": [1, -1, 2_147_483_648_i64, i64::MIN, 1.5, 1.0, true, null, "é\u{1f600}"],
            "": {"$ref": "#/$defs/a", "z": {}, "a": []},
        });
        let again = from_bson(&to_bson(value.clone()).unwrap()).unwrap();
        assert_eq!(again.to_string(), value.to_string(), "the order of keys too");
    }

    #[test]
    fn what_cannot_be_kept_says_so() {
        assert!(to_bson(json!(u64::MAX)).unwrap_err().contains("too large"));
        assert!(to_bson(json!({"a\u{0}": 1})).unwrap_err().contains("NUL"));
        let time = mongodb::bson::Bson::DateTime(mongodb::bson::DateTime::from_millis(0));
        assert!(from_bson(&time).unwrap_err().contains("DateTime"));
        assert!(from_bson(&mongodb::bson::Bson::Double(f64::NAN)).is_err());
    }
}
