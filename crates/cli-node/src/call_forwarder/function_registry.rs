//! The local registry of a forwarder: rules for the functions that may be called, and definitions
//! of their inputs. The file is applied atomically.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use catalog::InputSchema;
use sdk::ToolDefinition;
use serde::Deserialize;
use serde_json::{Map, Value};
use tool::display_text::truncate_and_escape_debug;
use tool::{Json, JsonLimits, ToolName};

use crate::node_args::matches_pattern;

/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of definitions.
const MAX_DEFINITIONS: usize = 1_000;
/// Maximum number of rules.
const MAX_RULES: usize = 1_000;

/// The error of an invalid registry: place and cause on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RegistryError(String);

/// The functions of a registry, and the rules for calling them.
#[derive(Debug)]
pub(crate) struct FunctionRegistry {
    rules: Vec<CallRule>,
    functions: BTreeMap<String, RegisteredFunction>,
}

#[derive(Debug)]
struct RegisteredFunction {
    descriptor: ToolDefinition,
    input: InputSchema,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryFile {
    version: u32,
    #[serde(default)]
    rules: Vec<CallRule>,
    #[serde(default)]
    definitions: BTreeMap<String, FunctionDefinition>,
}

/// A rule that allows or denies the named functions. The first matching rule decides; functions
/// without a rule are denied.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallRule {
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    /// The reason reported for a call that this rule denies.
    #[serde(default)]
    reason: Option<String>,
    /// Maximum size of the input, in bytes.
    #[serde(default)]
    max_input: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionDefinition {
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_spec: Map<String, Value>,
    /// For people only; the runtime's result is not checked against it.
    #[serde(default)]
    output_spec: Map<String, Value>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

impl FunctionRegistry {
    /// Reads a registry from a file.
    ///
    /// # Errors
    /// Returns a [`RegistryError`] with the place and the cause.
    pub(crate) fn from_file(path: &Path) -> Result<Self, RegistryError> {
        let named = |error: String| RegistryError(format!("`{}`: {error}", path.display()));
        let text = rooted_fs::regular_file::read_text(path, MAX_FILE_BYTES);
        let text = text.map_err(|error| named(error.to_string()))?;
        Self::from_text(&text).map_err(|RegistryError(error)| named(error))
    }

    /// Parses a registry from YAML or JSON.
    ///
    /// # Errors
    /// Returns a [`RegistryError`] with the place and the cause.
    pub(crate) fn from_text(text: &str) -> Result<Self, RegistryError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: 64, max_nodes: 100_000, max_documents: 1 },
            strict_booleans: true,
            with_snippet: false,
        };
        let document: RegistryFile = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| RegistryError(error.to_string().replace('\n', " ")))?;
        let RegistryFile { version, rules, definitions } = document;
        if version != 1 {
            return Err(RegistryError(format!(
                "unsupported `version` {version}; only 1 is supported"
            )));
        }
        for (what, count, most) in
            [("rules", rules.len(), MAX_RULES), ("definitions", definitions.len(), MAX_DEFINITIONS)]
        {
            if count > most {
                return Err(RegistryError(format!(
                    "`{what}` has {count} entries; the maximum is {most}"
                )));
            }
        }
        for (at, rule) in rules.iter().enumerate() {
            if rule.allow.is_empty() == rule.deny.is_empty() {
                let message = format!("rule {} must have either `allow` or `deny`", at + 1);
                return Err(RegistryError(message));
            }
        }
        let function = |(name, definition): (String, FunctionDefinition)| {
            let read = compile_function(&name, definition);
            let read = read.map_err(|error| RegistryError(format!("definition `{name}`: {error}")));
            Ok((name, read?))
        };
        let functions = definitions.into_iter().map(function).collect::<Result<_, _>>()?;
        Ok(Self { rules, functions })
    }

    /// Checks whether a call is allowed and its input is valid.
    ///
    /// # Errors
    /// Returns the reason for the caller if it is rejected.
    pub(crate) fn check_call(&self, name: &str, input: &Bytes) -> Result<(), String> {
        let Some(function) = self.functions.get(name) else {
            let name = truncate_and_escape_debug(name, 128);
            return Err(format!("Tool '{name}' not found."));
        };
        let rule = self.matching_rule(name)?;
        if let Some(most) = rule.max_input.filter(|most| input.len() > *most) {
            return Err(format!("the input has {} bytes; the maximum is {most}", input.len()));
        }
        let input = if input.is_empty() { Bytes::from_static(b"{}") } else { input.clone() };
        let json = Json::parse(input, JsonLimits::for_arguments(proto::MAX_MESSAGE_BYTES))
            .map_err(|error| format!("cannot parse the input: {error}"))?;
        if json.kind() != "object" {
            return Err(format!("the input is {}, not an object", json.kind()));
        }
        function.input.validate_value(&json.to_value()).map_err(|faults| {
            let message: Vec<_> = faults.iter().map(ToString::to_string).collect();
            format!("invalid input: {}", message.join("; "))
        })
    }

    fn matching_rule(&self, name: &str) -> Result<&CallRule, String> {
        let names =
            |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
        let rule = self.rules.iter().find(|rule| names(&rule.allow) || names(&rule.deny));
        match rule {
            Some(rule) if !rule.allow.is_empty() => Ok(rule),
            Some(CallRule { reason: Some(reason), .. }) => {
                Err(format!("the node's rules deny `{name}`: {reason}"))
            }
            Some(_) => Err(format!("the node's rules deny `{name}`")),
            None => Err(format!("no rule of the node allows `{name}`")),
        }
    }

    /// The callable functions, as registered at the server.
    pub(crate) fn allowed_tools(&self) -> Vec<ToolDefinition> {
        let allowed = self.functions.iter().filter(|(name, _)| self.matching_rule(name).is_ok());
        allowed.map(|(_, function)| function.descriptor.clone()).collect()
    }
}

fn compile_function(
    name: &str,
    definition: FunctionDefinition,
) -> Result<RegisteredFunction, String> {
    ToolName::new(name).map_err(|error| error.to_string())?;
    let FunctionDefinition { description, input_spec, output_spec, metadata } = definition;
    let read = nodes::to_json_schema(&Json::encode(&input_spec));
    if let Some(unknown) = read.warnings.first() {
        // A schema that accepts everything would make the check useless.
        return Err(format!("`input_spec`: {unknown}"));
    }
    let input = InputSchema::compile_schema(&read.schema)?;
    let mut metadata = metadata;
    if !output_spec.is_empty() {
        metadata.entry("output_spec").or_insert(Value::Object(output_spec));
    }
    let described = ToolDefinition {
        name: name.to_owned(),
        description,
        input_spec: read.schema.to_value(),
        metadata: Value::Object(metadata),
    };
    Ok(RegisteredFunction { descriptor: described, input })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::FunctionRegistry;

    const FILE: &str = "
version: 1
rules:
  - deny: [disk_wipe]
    reason: disks stay as they are
  - allow: ['disk_*']
    max_input: 40
definitions:
  disk_free: { description: What is left, input_spec: { path: string } }
  disk_wipe: { input_spec: { path: string } }
  reboot: {}
";

    fn check(name: &str, input: &str) -> Result<(), String> {
        FunctionRegistry::from_text(FILE)
            .unwrap()
            .check_call(name, &Bytes::copy_from_slice(input.as_bytes()))
    }

    #[test]
    fn what_is_defined_allowed_and_fits_goes_on_and_all_else_is_told_why_not() {
        assert_eq!(check("disk_free", r#"{"path":"/"}"#), Ok(()));
        assert_eq!(check("disk_free", ""), Ok(()));
        let refused = |name, input: &str| check(name, input).unwrap_err();
        assert_eq!(refused("shell", "{}"), "Tool 'shell' not found.");
        assert_eq!(
            refused("disk_wipe", r#"{"path":"/"}"#),
            "the node's rules deny `disk_wipe`: disks stay as they are"
        );
        assert_eq!(refused("reboot", "{}"), "no rule of the node allows `reboot`");
        let unfit = refused("disk_free", r#"{"path":5}"#);
        assert!(unfit.starts_with("invalid input: `/path`: "), "{unfit}");
        assert!(refused("disk_free", "[]").contains("not an object"));
        assert!(refused("disk_free", "{").starts_with("cannot parse the input: "));
        let long = format!(r#"{{"path":"{}"}}"#, "x".repeat(40));
        assert_eq!(refused("disk_free", &long), "the input has 51 bytes; the maximum is 40");
    }

    #[test]
    fn only_what_may_be_called_is_told_to_the_server() {
        let names: Vec<_> = FunctionRegistry::from_text(FILE).unwrap().allowed_tools();
        let names: Vec<_> = names.into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["disk_free"]);
    }

    #[test]
    fn a_file_with_a_slip_is_refused_whole_with_the_place() {
        let refused = |text: &str| FunctionRegistry::from_text(text).unwrap_err().to_string();
        assert!(refused("version: 2").contains("only 1 is supported"));
        assert!(refused("version: 1\nrulez: []").contains("rulez"));
        assert!(refused("version: 1\nrules: [{}]").contains("rule 1 must have either"));
        let both = "version: 1\nrules: [{ allow: [a], deny: [b] }]";
        assert!(refused(both).contains("rule 1 must have either"));
        let unknown = "version: 1\ndefinitions: { f: { input_spec: { at: datetime } } }";
        assert_eq!(refused(unknown), "definition `f`: `input_spec`: `at`: unknown type `datetime`");
        assert!(refused("version: 1\ndefinitions: { 'a b': {} }").contains("definition `a b`"));
    }
}
