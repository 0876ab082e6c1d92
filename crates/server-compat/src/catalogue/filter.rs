//! MongoDB-style filters: parsed once within limits, then matched against entries. Operators that
//! run code (`$where`, `$expr`, `$function`) and unknown ones are rejected.

use std::cmp::Ordering;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::PATTERN;

/// Maximum conditions, patterns and nesting depth of one filter.
const CONDITIONS: usize = 200;
const PATTERNS: usize = 16;
const DEPTH: usize = 16;

/// A parsed filter over whole entries.
#[derive(Debug)]
pub(super) enum Filter {
    All(Vec<Self>),
    Any(Vec<Self>),
    None(Vec<Self>),
    At(Vec<String>, Test),
}

#[derive(Debug)]
pub(super) enum Test {
    Is(Value),
    In(Vec<Value>),
    Order(&'static [Ordering], Value),
    There(bool),
    Like(Regex),
    Size(u64),
    Element(Box<Self>),
    Fits(Box<Filter>),
    Not(Box<Self>),
    All(Vec<Self>),
}

/// The conditions and patterns that may still be parsed.
struct Left {
    conditions: usize,
    patterns: usize,
}

impl Filter {
    /// Parses a filter; `None` if it is invalid or exceeds the limits.
    pub(super) fn read(filter: &Value) -> Option<Self> {
        let mut left = Left { conditions: CONDITIONS, patterns: PATTERNS };
        Self::within(filter, &mut left, DEPTH)
    }

    fn within(filter: &Value, left: &mut Left, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let mut all = Vec::new();
        for (key, value) in filter.as_object()? {
            left.conditions = left.conditions.checked_sub(1)?;
            let mut each = || {
                let parts = value.as_array().filter(|parts| !parts.is_empty())?;
                parts.iter().map(|part| Self::within(part, left, depth)).collect::<Option<Vec<_>>>()
            };
            all.push(match key.as_str() {
                "$and" => Self::All(each()?),
                "$or" => Self::Any(each()?),
                "$nor" => Self::None(each()?),
                key if key.starts_with('$') => return None,
                path => {
                    let path = path.split('.').map(str::to_owned).collect();
                    Self::At(path, Test::read(value, left, depth)?)
                }
            });
        }
        Some(Self::All(all))
    }

    pub(super) fn fits(&self, entry: &Value) -> bool {
        match self {
            Self::All(all) => all.iter().all(|it| it.fits(entry)),
            Self::Any(any) => any.iter().any(|it| it.fits(entry)),
            Self::None(none) => !none.iter().any(|it| it.fits(entry)),
            Self::At(path, test) => {
                let mut found = Vec::new();
                gather(entry, path, &mut found);
                test.fits(&found)
            }
        }
    }
}

/// Collects all values at a path, descending into lists.
fn gather<'a>(value: &'a Value, path: &[String], found: &mut Vec<&'a Value>) {
    let Some((first, rest)) = path.split_first() else {
        found.push(value);
        return;
    };
    match value {
        Value::Object(map) => {
            if let Some(value) = map.get(first) {
                gather(value, rest, found);
            }
        }
        Value::Array(all) => {
            if let Some(value) = first.parse().ok().and_then(|at: usize| all.get(at)) {
                gather(value, rest, found);
            }
            for value in all.iter().filter(|value| value.is_object()) {
                gather(value, path, found);
            }
        }
        _ => {}
    }
}

impl Test {
    fn read(value: &Value, left: &mut Left, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let operators = value.as_object().filter(|map| map.keys().any(|key| key.starts_with('$')));
        let Some(operators) = operators else { return Some(Self::Is(value.clone())) };
        let mut all = Vec::new();
        for (key, value) in operators {
            left.conditions = left.conditions.checked_sub(1)?;
            if key != "$options" {
                all.push(Self::one((key, value), operators, left, depth)?);
            }
        }
        Some(Self::All(all))
    }

    fn one(
        (key, value): (&str, &Value),
        beside: &Map<String, Value>,
        left: &mut Left,
        depth: usize,
    ) -> Option<Self> {
        use Ordering::{Equal, Greater, Less};
        let order = |which| Some(Self::Order(which, value.clone()));
        let not = |test| Self::Not(Box::new(test));
        Some(match key {
            "$eq" => Self::Is(value.clone()),
            "$ne" => not(Self::Is(value.clone())),
            "$in" => Self::In(value.as_array()?.clone()),
            "$nin" => not(Self::In(value.as_array()?.clone())),
            "$gt" => order(&[Greater])?,
            "$gte" => order(&[Greater, Equal])?,
            "$lt" => order(&[Less])?,
            "$lte" => order(&[Less, Equal])?,
            "$exists" => Self::There(value.as_bool()?),
            "$size" => Self::Size(value.as_u64()?),
            "$all" => {
                let wanted = value.as_array().filter(|all| !all.is_empty())?;
                Self::All(wanted.iter().cloned().map(Self::Is).collect())
            }
            "$not" => not(Self::read(value.is_object().then_some(value)?, left, depth)?),
            "$elemMatch" => {
                let operators = value.as_object()?.keys().all(|key| key.starts_with('$'));
                Self::Element(Box::new(if operators {
                    Self::read(value, left, depth)?
                } else {
                    Self::Fits(Box::new(Filter::within(value, left, depth)?))
                }))
            }
            "$regex" => Self::Like(pattern(value.as_str()?, beside.get("$options"), left)?),
            _ => return None,
        })
    }

    /// Matches all values at the path, directly or as list elements.
    fn fits(&self, found: &[&Value]) -> bool {
        let any = |fits: &dyn Fn(&Value) -> bool| {
            found.iter().any(|value| {
                fits(value) || value.as_array().is_some_and(|all| all.iter().any(fits))
            })
        };
        match self {
            // A missing value equals null.
            Self::Is(wanted) => {
                any(&|value| same(value, wanted)) || (wanted.is_null() && found.is_empty())
            }
            Self::In(wanted) => {
                any(&|value| wanted.iter().any(|it| same(value, it)))
                    || (found.is_empty() && wanted.iter().any(Value::is_null))
            }
            Self::Order(which, wanted) => {
                any(&|value| order(value, wanted).is_some_and(|order| which.contains(&order)))
            }
            Self::There(there) => *there != found.is_empty(),
            Self::Like(pattern) => {
                any(&|value| value.as_str().is_some_and(|text| pattern.is_match(text)))
            }
            Self::Size(size) => found.iter().any(|value| {
                value.as_array().is_some_and(|all| u64::try_from(all.len()).ok() == Some(*size))
            }),
            Self::Element(test) => found.iter().any(|value| {
                value.as_array().is_some_and(|all| all.iter().any(|one| test.fits(&[one])))
            }),
            Self::Fits(filter) => found.iter().any(|value| filter.fits(value)),
            Self::Not(test) => !test.fits(found),
            Self::All(all) => all.iter().all(|test| test.fits(found)),
        }
    }
}

fn pattern(text: &str, options: Option<&Value>, left: &mut Left) -> Option<Regex> {
    left.patterns = left.patterns.checked_sub(1)?;
    let options = options.map_or(Some(""), Value::as_str)?;
    if options.chars().any(|c| !"imsx".contains(c)) {
        return None;
    }
    let has = |c| options.contains(c);
    let mut pattern = RegexBuilder::new(text);
    pattern.case_insensitive(has('i')).multi_line(has('m')).dot_matches_new_line(has('s'));
    pattern.ignore_whitespace(has('x')).size_limit(PATTERN).build().ok()
}

/// Whether two values are equal; numbers are compared by value.
fn same(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && order(one, other) == Some(Ordering::Equal))
}

fn order(one: &Value, other: &Value) -> Option<Ordering> {
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

    use super::Filter;

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
            assert_eq!(Filter::read(&filter).unwrap().fits(&entry()), fits, "{filter}");
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
            assert!(Filter::read(&filter).is_none(), "{filter}");
        }
    }
}
