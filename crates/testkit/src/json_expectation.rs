//! Comparison of a JSON response with the expected members of an example.

use serde_json::Value;

/// Whether the response contains everything expected; it may have more members.
pub fn contains_json(response: &Value, expected: &Value) -> bool {
    contains_json_by(response, expected, &|response, expected| response == expected)
}

/// Compares like [`contains_json`], with `is_same` for values that are not objects or arrays on
/// both sides.
pub fn contains_json_by(
    response: &Value,
    expected: &Value,
    is_same: &dyn Fn(&Value, &Value) -> bool,
) -> bool {
    let holds = |response: &Value, expected: &Value| contains_json_by(response, expected, is_same);
    match (response, expected) {
        (Value::Object(response), Value::Object(expected)) => expected
            .iter()
            .all(|(key, expected)| response.get(key).is_some_and(|it| holds(it, expected))),
        (Value::Array(response), Value::Array(expected)) => {
            let all =
                response.iter().zip(expected).all(|(response, expected)| holds(response, expected));
            response.len() == expected.len() && all
        }
        _ => is_same(response, expected),
    }
}
