//! MongoDB-style filters: parsed once within limits, then matched against entries. Operators that
//! run code (`$where`, `$expr`, `$function`) and unknown ones are rejected.

use std::cmp::Ordering;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::MAX_REGEX_BYTES;

/// Maximum conditions, patterns and nesting depth of one filter.
const MAX_CONDITIONS: usize = 200;
const MAX_PATTERNS: usize = 16;
const MAX_DEPTH: usize = 16;

/// A parsed filter over whole entries.
#[derive(Debug)]
pub(super) enum MongoFilter {
    All(Vec<Self>),
    Any(Vec<Self>),
    Nor(Vec<Self>),
    Field(Vec<String>, FieldCondition),
}

#[derive(Debug)]
pub(super) enum FieldCondition {
    Equals(Value),
    In(Vec<Value>),
    Compare(&'static [Ordering], Value),
    Exists(bool),
    Matches(Regex),
    Size(u64),
    AnyElement(Box<Self>),
    Document(Box<MongoFilter>),
    Not(Box<Self>),
    All(Vec<Self>),
}

/// The conditions and patterns that may still be parsed.
struct ParseBudget {
    conditions: usize,
    patterns: usize,
}

impl MongoFilter {
    /// Parses a filter; `None` if it is invalid or exceeds the limits.
    pub(super) fn parse(filter: &Value) -> Option<Self> {
        let mut left = ParseBudget { conditions: MAX_CONDITIONS, patterns: MAX_PATTERNS };
        Self::parse_nested(filter, &mut left, MAX_DEPTH)
    }

    fn parse_nested(filter: &Value, left: &mut ParseBudget, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let mut all = Vec::new();
        for (key, value) in filter.as_object()? {
            left.conditions = left.conditions.checked_sub(1)?;
            let mut each = || {
                let parts = value.as_array().filter(|parts| !parts.is_empty())?;
                parts
                    .iter()
                    .map(|part| Self::parse_nested(part, left, depth))
                    .collect::<Option<Vec<_>>>()
            };
            all.push(match key.as_str() {
                "$and" => Self::All(each()?),
                "$or" => Self::Any(each()?),
                "$nor" => Self::Nor(each()?),
                key if key.starts_with('$') => return None,
                path => {
                    let path = path.split('.').map(str::to_owned).collect();
                    Self::Field(path, FieldCondition::parse_condition(value, left, depth)?)
                }
            });
        }
        Some(Self::All(all))
    }

    pub(super) fn matches(&self, entry: &Value) -> bool {
        match self {
            Self::All(all) => all.iter().all(|it| it.matches(entry)),
            Self::Any(any) => any.iter().any(|it| it.matches(entry)),
            Self::Nor(none) => !none.iter().any(|it| it.matches(entry)),
            Self::Field(path, test) => {
                let mut found = Vec::new();
                collect_values(entry, path, &mut found);
                test.matches_any(&found)
            }
        }
    }
}

/// Collects all values at a path, descending into lists.
fn collect_values<'a>(value: &'a Value, path: &[String], found: &mut Vec<&'a Value>) {
    let Some((first, rest)) = path.split_first() else {
        found.push(value);
        return;
    };
    match value {
        Value::Object(map) => {
            if let Some(value) = map.get(first) {
                collect_values(value, rest, found);
            }
        }
        Value::Array(all) => {
            if let Some(value) = first.parse().ok().and_then(|at: usize| all.get(at)) {
                collect_values(value, rest, found);
            }
            for value in all.iter().filter(|value| value.is_object()) {
                collect_values(value, path, found);
            }
        }
        _ => {}
    }
}

impl FieldCondition {
    fn parse_condition(value: &Value, left: &mut ParseBudget, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let operators = value.as_object().filter(|map| map.keys().any(|key| key.starts_with('$')));
        let Some(operators) = operators else { return Some(Self::Equals(value.clone())) };
        let mut all = Vec::new();
        for (key, value) in operators {
            left.conditions = left.conditions.checked_sub(1)?;
            if key != "$options" {
                all.push(Self::parse_operator((key, value), operators, left, depth)?);
            }
        }
        Some(Self::All(all))
    }

    fn parse_operator(
        (key, value): (&str, &Value),
        siblings: &Map<String, Value>,
        left: &mut ParseBudget,
        depth: usize,
    ) -> Option<Self> {
        use Ordering::{Equal, Greater, Less};
        let order = |which| Some(Self::Compare(which, value.clone()));
        let not = |test| Self::Not(Box::new(test));
        Some(match key {
            "$eq" => Self::Equals(value.clone()),
            "$ne" => not(Self::Equals(value.clone())),
            "$in" => Self::In(value.as_array()?.clone()),
            "$nin" => not(Self::In(value.as_array()?.clone())),
            "$gt" => order(&[Greater])?,
            "$gte" => order(&[Greater, Equal])?,
            "$lt" => order(&[Less])?,
            "$lte" => order(&[Less, Equal])?,
            "$exists" => Self::Exists(value.as_bool()?),
            "$size" => Self::Size(value.as_u64()?),
            "$all" => {
                let wanted = value.as_array().filter(|all| !all.is_empty())?;
                Self::All(wanted.iter().cloned().map(Self::Equals).collect())
            }
            "$not" => not(Self::parse_condition(value.is_object().then_some(value)?, left, depth)?),
            "$elemMatch" => {
                let operators = value.as_object()?.keys().all(|key| key.starts_with('$'));
                Self::AnyElement(Box::new(if operators {
                    Self::parse_condition(value, left, depth)?
                } else {
                    Self::Document(Box::new(MongoFilter::parse_nested(value, left, depth)?))
                }))
            }
            "$regex" => {
                Self::Matches(build_regex(value.as_str()?, siblings.get("$options"), left)?)
            }
            _ => return None,
        })
    }

    /// Matches all values at the path, directly or as list elements.
    fn matches_any(&self, found: &[&Value]) -> bool {
        let any = |fits: &dyn Fn(&Value) -> bool| {
            found.iter().any(|value| {
                fits(value) || value.as_array().is_some_and(|all| all.iter().any(fits))
            })
        };
        match self {
            // A missing value equals null.
            Self::Equals(wanted) => {
                any(&|value| is_equal(value, wanted)) || (wanted.is_null() && found.is_empty())
            }
            Self::In(wanted) => {
                any(&|value| wanted.iter().any(|it| is_equal(value, it)))
                    || (found.is_empty() && wanted.iter().any(Value::is_null))
            }
            Self::Compare(which, wanted) => any(&|value| {
                compare_values(value, wanted).is_some_and(|order| which.contains(&order))
            }),
            Self::Exists(there) => *there != found.is_empty(),
            Self::Matches(pattern) => {
                any(&|value| value.as_str().is_some_and(|text| pattern.is_match(text)))
            }
            Self::Size(size) => found.iter().any(|value| {
                value.as_array().is_some_and(|all| u64::try_from(all.len()).ok() == Some(*size))
            }),
            Self::AnyElement(test) => found.iter().any(|value| {
                value.as_array().is_some_and(|all| all.iter().any(|one| test.matches_any(&[one])))
            }),
            Self::Document(filter) => found.iter().any(|value| filter.matches(value)),
            Self::Not(test) => !test.matches_any(found),
            Self::All(all) => all.iter().all(|test| test.matches_any(found)),
        }
    }
}

fn build_regex(text: &str, options: Option<&Value>, left: &mut ParseBudget) -> Option<Regex> {
    left.patterns = left.patterns.checked_sub(1)?;
    let options = options.map_or(Some(""), Value::as_str)?;
    if options.chars().any(|c| !"imsx".contains(c)) {
        return None;
    }
    let has = |c| options.contains(c);
    let mut pattern = RegexBuilder::new(text);
    pattern.case_insensitive(has('i')).multi_line(has('m')).dot_matches_new_line(has('s'));
    pattern.ignore_whitespace(has('x')).size_limit(MAX_REGEX_BYTES).build().ok()
}

/// Whether two values are equal; numbers are compared by value.
fn is_equal(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && compare_values(one, other) == Some(Ordering::Equal))
}

fn compare_values(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64()?.partial_cmp(&other.as_f64()?),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::MongoFilter;

    fn entry() -> Value {
        json!({
            "tool_id": "t", "tool_type": "local", "tool_tags": ["a", "b"],
            "tool_metadata": { "stars": 3, "by": { "team": "x" } },
            "tool_parameters": { "list": [{ "n": 1 }, { "n": 5 }] },
        })
    }

    #[test]
    fn a_filter_fits_as_mongodb_has_it() {
        for (filter, fits) in [
            (json!({}), true),
            (json!({ "tool_type": "local" }), true),
            (json!({ "tool_type": "remote" }), false),
            (json!({ "tool_tags": "a" }), true),
            (json!({ "tool_tags": ["a", "b"] }), true),
            (json!({ "tool_tags": ["b", "a"] }), false),
            (json!({ "tool_tags": { "$all": ["b", "a"] } }), true),
            (json!({ "tool_tags": { "$in": ["z", "b"] } }), true),
            (json!({ "tool_tags": { "$nin": ["z", "b"] } }), false),
            (json!({ "tool_tags": { "$size": 2 } }), true),
            (json!({ "tool_metadata.stars": { "$gte": 3, "$lt": 4.5 } }), true),
            (json!({ "tool_metadata.stars": 3.0 }), true),
            (json!({ "tool_metadata.stars": { "$gt": 3 } }), false),
            (json!({ "tool_metadata.stars": { "$gt": "2" } }), false),
            (json!({ "tool_metadata.by.team": "x" }), true),
            (json!({ "tool_metadata.by": { "team": "x" } }), true),
            (json!({ "tool_parameters.list.n": 5 }), true),
            (json!({ "tool_parameters.list.1.n": 5 }), true),
            (json!({ "tool_parameters.list": { "$elemMatch": { "n": { "$gt": 4 } } } }), true),
            (json!({ "tool_parameters.list": { "$elemMatch": { "n": { "$gt": 5 } } } }), false),
            (json!({ "tool_tags": { "$elemMatch": { "$gt": "a" } } }), true),
            (json!({ "none": null, "tool_id": { "$exists": true } }), true),
            (json!({ "none": { "$exists": true } }), false),
            (json!({ "tool_id": { "$ne": "t" } }), false),
            (json!({ "tool_id": { "$not": { "$eq": "u" } } }), true),
            (json!({ "tool_type": { "$regex": "^LO", "$options": "i" } }), true),
            (json!({ "tool_type": { "$regex": "^LO" } }), false),
            (json!({ "$or": [{ "tool_id": "x" }, { "tool_id": "t" }] }), true),
            (json!({ "$and": [{ "tool_id": "x" }, { "tool_id": "t" }] }), false),
            (json!({ "$nor": [{ "tool_id": "x" }] }), true),
        ] {
            assert_eq!(MongoFilter::parse(&filter).unwrap().matches(&entry()), fits, "{filter}");
        }
    }

    #[test]
    fn what_runs_code_is_unknown_or_too_much_is_no_filter() {
        let deep = (0..40).fold(json!({}), |inner, _| json!({ "$and": [inner] }));
        let wide: Vec<Value> = (0..300).map(|n| json!({ "a": n })).collect();
        let patterns: Vec<Value> = (0..20).map(|_| json!({ "a": { "$regex": "x" } })).collect();
        for filter in [
            json!([]),
            json!("x"),
            json!({ "$where": "sleep(10000)" }),
            json!({ "$expr": { "$function": { "body": "x" } } }),
            json!({ "a": { "$where": "1" } }),
            json!({ "a": { "$in": 5 } }),
            json!({ "$or": [] }),
            json!({ "a": { "$regex": "(" } }),
            json!({ "a": { "$regex": "x{1000}{1000}" } }),
            json!({ "a": { "$regex": "x", "$options": "e" } }),
            json!({ "$and": wide }),
            json!({ "$and": patterns }),
            deep,
        ] {
            assert!(MongoFilter::parse(&filter).is_none(), "{filter}");
        }
    }
}
