//! A tool's compiled input schema, and validation errors that a model can act on.
//!
//! A tool with an invalid schema is rejected when it is listed. A schema that certainly compiles is
//! compiled at the tool's first call: of ten thousand tools few are ever called.

mod schema_precheck;
mod streaming_validator;
mod validation_cost;

use std::fmt;
use std::sync::OnceLock;

use json::{JsonCursor, json_pointer};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use tool::{CallArguments, Json, JsonLimits};

use self::validation_cost::CostModel;

/// Maximum number of subschemas of a tool; a schema bomb has more.
const MAX_SUBSCHEMAS: usize = 2_000;
/// Maximum number of subschema evaluations of one validation.
const MAX_EVALUATIONS: u64 = 1_000_000;
/// Number of evaluations from which errors are not detailed: each error of a choice includes those
/// of all its branches.
const MAX_DETAILED_EVALUATIONS: u64 = 50_000;
/// Maximum number of errors per call, and of characters per error.
const MAX_ERRORS: usize = 5;
const MAX_ERROR_CHARS: usize = 240;

/// A JSON Schema that is compiled on first use.
pub struct InputSchema {
    json: Json,
    /// Compiled validator, once it is needed.
    compiled: OnceLock<Box<Result<Validator, String>>>,
    /// Cost model of a validation, once it is needed; `None` if a reference cannot be resolved.
    cost: OnceLock<Option<Box<CostModel>>>,
    /// Maximum number of subschemas per value, if their number bounds it.
    max_subschemas_per_value: Option<u64>,
}

impl InputSchema {
    /// Returns an uncompiled copy.
    pub(crate) fn clone_uncompiled(&self) -> Self {
        let (compiled, cost) = (OnceLock::new(), OnceLock::new());
        Self {
            json: self.json.clone(),
            compiled,
            cost,
            max_subschemas_per_value: self.max_subschemas_per_value,
        }
    }
}

/// One error of the validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError {
    /// JSON pointer into the arguments; empty for the whole.
    pub pointer: String,
    /// Message about the error.
    pub message: String,
}

impl ArgumentError {
    /// Returns the name of the argument that is invalid as a whole; `None` for a nested value or
    /// all arguments.
    pub fn member_name(&self) -> Option<String> {
        let name = self.pointer.strip_prefix('/').filter(|name| !name.contains('/'))?;
        Some(json_pointer::unescape_segment(name))
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "`{}`: {}", self.pointer, self.message)
    }
}

impl InputSchema {
    /// Checks `schema`: draft 2020-12 unless it names another. Nothing is fetched, and patterns run
    /// on the linear engine, so look-around is rejected here rather than slow later.
    ///
    /// # Errors
    /// A message with the location in the schema.
    pub fn compile_schema(schema: &Json) -> Result<Self, String> {
        let value = schema.to_value();
        let Value::Object(root) = &value else {
            return Err(format!("the input schema is {}, not an object", schema.kind()));
        };
        if let Some(kind) = root.get("type").filter(|kind| *kind != "object") {
            return Err(format!("the input schema's `type` is {kind}, not \"object\""));
        }
        let found = count_objects(&value);
        if found > MAX_SUBSCHEMAS {
            return Err(format!(
                "the input schema has {found} objects; the maximum is {MAX_SUBSCHEMAS}"
            ));
        }
        let (compiled, cost) = (OnceLock::new(), OnceLock::new());
        let is_bounded = !validation_cost::is_unbounded(root);
        if !schema_precheck::is_known_valid(root) {
            // The cells are empty, so this sets them.
            let _first = compiled.set(Box::new(Ok(compile_validator(&value)?)));
            if !is_bounded {
                let _first = cost.set(Some(Box::new(CostModel::from_schema(&value)?)));
            }
        }
        let most = u64::try_from(found + schema.bytes().len() / 16).ok().filter(|_| is_bounded);
        Ok(Self { json: schema.clone(), compiled, cost, max_subschemas_per_value: most })
    }

    /// Validates call arguments and returns the first few errors. For large arguments and a simple
    /// schema, no tree is built.
    ///
    /// # Errors
    /// [`ArgumentError`]s, at least one.
    pub fn validate_arguments(&self, args: &CallArguments) -> Result<(), Vec<ArgumentError>> {
        if args.as_json().bytes().len() > JsonLimits::ARGUMENTS.max_bytes {
            match streaming_validator::validate_next(
                &self.json.to_value(),
                &mut JsonCursor::from_json(args.as_json()),
                "",
            ) {
                Ok(()) => return Ok(()),
                Err(streaming_validator::StreamingError::Invalid(fault)) => {
                    return Err(vec![fault]);
                }
                Err(streaming_validator::StreamingError::Unsupported) => {}
            }
        }
        self.validate_sized(args.as_value(), args.as_json().bytes().len())
    }

    /// Validates a parsed value.
    ///
    /// # Errors
    /// [`ArgumentError`]s, at least one.
    pub fn validate_value(&self, args: &Value) -> Result<(), Vec<ArgumentError>> {
        self.validate_sized(args, usize::MAX)
    }

    /// Returns the maximum number of evaluations of a validation.
    fn max_evaluations(&self, args: &Value, bytes: usize) -> Option<u64> {
        // A value takes at least two bytes.
        let values = u64::try_from(bytes / 2 + 1).unwrap_or(u64::MAX);
        let bound =
            self.max_subschemas_per_value.map_or(u64::MAX, |most| most.saturating_mul(values));
        if bound <= MAX_DETAILED_EVALUATIONS {
            return Some(bound);
        }
        let model = self
            .cost
            .get_or_init(|| CostModel::from_schema(&self.json.to_value()).ok().map(Box::new));
        model.as_ref()?.count_evaluations(args, MAX_EVALUATIONS)
    }

    fn validate_sized(&self, args: &Value, bytes: usize) -> Result<(), Vec<ArgumentError>> {
        let whole =
            |message: &str| ArgumentError { pointer: String::new(), message: message.to_owned() };
        let Some(evaluations) = self.max_evaluations(args, bytes) else {
            let message = "checking these arguments against the tool's schema takes too long; send \
                           fewer or less nested values";
            return Err(vec![whole(message)]);
        };
        let compiled: &Result<Validator, String> =
            self.compiled.get_or_init(|| Box::new(compile_validator(&self.json.to_value())));
        let validator = Result::as_ref(compiled).map_err(|message| {
            vec![ArgumentError { pointer: String::new(), message: message.clone() }]
        })?;
        if validator.is_valid(args) {
            return Ok(());
        }
        if evaluations > MAX_DETAILED_EVALUATIONS {
            return Err(vec![whole("the arguments do not match the tool's schema")]);
        }
        let fault = |error: jsonschema::ValidationError<'_>| ArgumentError {
            pointer: error.instance_path().as_str().to_owned(),
            message: truncate_message(&error.to_string()),
        };
        Err(validator.iter_errors(args).take(MAX_ERRORS).map(fault).collect())
    }
}

fn compile_validator(schema: &Value) -> Result<Validator, String> {
    let options =
        jsonschema::options().with_pattern_options(PatternOptions::regex().size_limit(1 << 20));
    options.build(schema).map_err(|error| {
        let place = error.instance_path().as_str();
        truncate_message(&format!("invalid input schema: {error} (at `{place}`)"))
    })
}

/// Counts the objects in a schema as a measure of its size; its depth was bounded by validation.
fn count_objects(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(count_objects).sum::<usize>(),
        Value::Array(list) => list.iter().map(count_objects).sum(),
        _ => 0,
    }
}

fn truncate_message(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text.to_owned(),
    }
}

impl fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::InputSchema;

    fn compile(schema: &serde_json::Value) -> Result<InputSchema, String> {
        InputSchema::compile_schema(&Json::encode(schema))
    }

    #[test]
    fn says_what_does_not_fit_and_where() {
        let schema = compile(&json!({"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer", "maximum": 10}}}))
        .unwrap();
        schema.validate_value(&json!({"n": 3, "more": true})).unwrap();
        let told = |args| {
            schema
                .validate_value(&args)
                .unwrap_err()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(json!({"n": 12})), ["`/n`: 12 is greater than the maximum of 10"]);
        assert_eq!(told(json!({})), ["\"n\" is a required property"]);
    }

    #[test]
    fn refuses_schemas_that_cannot_be_used() {
        let error = |schema: serde_json::Value| compile(&schema).unwrap_err();
        assert_eq!(
            error(json!({"type": "dict"})),
            "the input schema's `type` is \"dict\", not \"object\""
        );
        assert!(
            error(json!({"properties": {"a": {"type": "nonsense"}}}))
                .starts_with("invalid input schema: ")
        );
        assert!(
            error(json!({"$ref": "http://127.0.0.1:9/x"})).starts_with("invalid input schema: ")
        );
        assert!(error(json!({"$ref": "file:///etc/passwd"})).starts_with("invalid input schema: "));
        assert!(
            error(json!({"properties": {"a": {"pattern": "(?=x)y"}}}))
                .starts_with("invalid input schema: ")
        );
        let many = json!({"anyOf": (0..2_001).map(|_| json!({})).collect::<Vec<_>>()});
        assert!(error(many).contains("the maximum is 2000"));
    }

    #[test]
    fn a_schema_that_branches_without_end_delays_nobody() {
        let any = |at| json!({"anyOf": [{"$ref": format!("#/$defs/d{at}")}, {"$ref": format!("#/$defs/d{at}")}]});
        let of = |levels: usize| {
            let mut defs: serde_json::Map<_, _> =
                (0..levels).map(|at| (format!("d{at}"), any(at + 1))).collect();
            defs.insert(format!("d{levels}"), json!({"type": "integer"}));
            compile(&json!({"properties": {"s": {"$ref": "#/$defs/d0"}}, "$defs": defs})).unwrap()
        };
        let told = |levels, args| of(levels).validate_value(&args).map_err(|it| it[0].to_string());
        told(60, json!({})).unwrap();
        let slow = told(60, json!({"s": "x"})).unwrap_err();
        assert!(slow.starts_with("checking these arguments"), "{slow}");
        // The control: what is told of a schema that branches less grows with each level, so that it is
        // not told at some level, and is not checked at all at a later one.
        assert!(told(4, json!({"s": "x"})).unwrap_err().starts_with("`/s`: "));
        let whole = "the arguments do not match the tool's schema";
        assert_eq!(told(15, json!({"s": "x"})).unwrap_err(), whole);
        told(15, json!({"s": 1})).unwrap();
    }

    #[test]
    fn faults_are_bounded() {
        let schema = compile(&json!({"additionalProperties": {"maxLength": 1}})).unwrap();
        let long = "x".repeat(10_000);
        let args: serde_json::Map<_, _> = (0..50).map(|i| (i.to_string(), json!(long))).collect();
        let faults = schema.validate_value(&args.into()).unwrap_err();
        assert_eq!(faults.len(), 5);
        assert!(faults.iter().all(|f| f.message.chars().count() <= 241));
    }
}
