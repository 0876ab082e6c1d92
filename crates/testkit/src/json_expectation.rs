//! Comparison of a JSON response with the expected members of an example.

use serde_json::Value;

/// Whether the response contains everything expected; it may have more members.
pub fn contains_json(answered: &Value, wanted: &Value) -> bool {
    contains_json_by(answered, wanted, &|answered, wanted| answered == wanted)
}

/// As [`contains_json`], with `is_same` comparing everything that is not an object or array on both sides.
pub fn contains_json_by(
    answered: &Value,
    wanted: &Value,
    is_same: &dyn Fn(&Value, &Value) -> bool,
) -> bool {
    let holds = |answered: &Value, wanted: &Value| contains_json_by(answered, wanted, is_same);
    match (answered, wanted) {
        (Value::Object(answered), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| answered.get(key).is_some_and(|it| holds(it, wanted)))
        }
        (Value::Array(answered), Value::Array(wanted)) => {
            let all = answered.iter().zip(wanted).all(|(answered, wanted)| holds(answered, wanted));
            answered.len() == wanted.len() && all
        }
        _ => is_same(answered, wanted),
    }
}
