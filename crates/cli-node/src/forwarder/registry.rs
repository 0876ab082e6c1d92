//! The local registry of a forwarder: rules for the functions that may be called, and definitions
//! of their inputs. The file is applied atomically.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use catalog::Schema;
use sdk::Described;
use serde::Deserialize;
use serde_json::{Map, Value};
use tool::{Json, Limits, ToolName};

/// Maximum size of the file, in bytes.
const FILE: u64 = 1 << 20;
/// Maximum number of definitions.
const MOST: usize = 1_000;
/// Maximum number of rules.
const RULES: usize = 1_000;

/// The error of an invalid registry: place and cause on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RegistryError(String);

/// The functions of a registry, and the rules for calling them.
#[derive(Debug)]
pub(crate) struct Registry {
    rules: Vec<Rule>,
    functions: BTreeMap<String, Function>,
}

#[derive(Debug)]
struct Function {
    described: Described,
    input: Schema,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    definitions: BTreeMap<String, Definition>,
}

/// A rule that allows or denies the named functions. The first matching rule decides; functions
/// without a rule are denied.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
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
struct Definition {
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

impl Registry {
    /// Reads a registry from a file.
    ///
    /// # Errors
    /// Returns a [`RegistryError`] with the place and the cause.
    pub(crate) fn read(path: &Path) -> Result<Self, RegistryError> {
        let named = |error: String| RegistryError(format!("`{}`: {error}", path.display()));
        let text = rooted_fs::files::read_text(path, FILE);
        let text = text.map_err(|error| named(error.to_string()))?;
        Self::parse(&text).map_err(|RegistryError(error)| named(error))
    }

    /// Parses a registry from YAML or JSON.
    ///
    /// # Errors
    /// Returns a [`RegistryError`] with the place and the cause.
    pub(crate) fn parse(text: &str) -> Result<Self, RegistryError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: 64, max_nodes: 100_000, max_documents: 1 },
            strict_booleans: true,
            with_snippet: false,
        };
        let document: Document = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| RegistryError(error.to_string().replace('\n', " ")))?;
        let Document { version, rules, definitions } = document;
        if version != 1 {
            return Err(RegistryError(format!("`version` is {version}; this reads 1")));
        }
        for (what, count, most) in
            [("rules", rules.len(), RULES), ("definitions", definitions.len(), MOST)]
        {
            if count > most {
                return Err(RegistryError(format!(
                    "`{what}` has {count} entries; {most} are allowed"
                )));
            }
        }
        for (at, rule) in rules.iter().enumerate() {
            if rule.allow.is_empty() == rule.deny.is_empty() {
                let told = format!("rule {} names either `allow` or `deny`", at + 1);
                return Err(RegistryError(told));
            }
        }
        let function = |(name, definition): (String, Definition)| {
            let read = function(&name, definition);
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
    pub(crate) fn check(&self, name: &str, input: &Bytes) -> Result<(), String> {
        let Some(function) = self.functions.get(name) else {
            return Err(format!("Tool '{}' not found.", shown(name)));
        };
        let rule = self.allowed(name)?;
        if let Some(most) = rule.max_input.filter(|most| input.len() > *most) {
            return Err(format!("the input has {} bytes; {most} are allowed", input.len()));
        }
        let input = if input.is_empty() { Bytes::from_static(b"{}") } else { input.clone() };
        let json = Json::check(input, Limits::arguments(proto::MAX_MESSAGE))
            .map_err(|error| format!("the input is not read: {error}"))?;
        if json.kind() != "object" {
            return Err(format!("the input is {}, not an object", json.kind()));
        }
        function.input.check(&json.value()).map_err(|faults| {
            let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
            format!("the input does not fit: {}", told.join("; "))
        })
    }

    fn allowed(&self, name: &str) -> Result<&Rule, String> {
        let names = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, name));
        let rule = self.rules.iter().find(|rule| names(&rule.allow) || names(&rule.deny));
        match rule {
            Some(rule) if !rule.allow.is_empty() => Ok(rule),
            Some(Rule { reason: Some(reason), .. }) => {
                Err(format!("the node's rules refuse `{name}`: {reason}"))
            }
            Some(_) => Err(format!("the node's rules refuse `{name}`")),
            None => Err(format!("no rule of the node allows `{name}`")),
        }
    }

    /// The callable functions, as registered at the server.
    pub(crate) fn described(&self) -> Vec<Described> {
        let allowed = self.functions.iter().filter(|(name, _)| self.allowed(name).is_ok());
        allowed.map(|(_, function)| function.described.clone()).collect()
    }
}

fn function(name: &str, definition: Definition) -> Result<Function, String> {
    ToolName::new(name).map_err(|error| error.to_string())?;
    let Definition { description, input_spec, output_spec, metadata } = definition;
    let read = nodes::schema(&Json::of(&input_spec));
    if let Some(unknown) = read.unknown.first() {
        // A schema that accepts everything would make the check useless.
        return Err(format!("`input_spec`: {unknown}").replace("; anything is taken", ""));
    }
    let input = Schema::compile(&read.schema)?;
    let mut metadata = metadata;
    if !output_spec.is_empty() {
        metadata.entry("output_spec").or_insert(Value::Object(output_spec));
    }
    let described = Described {
        name: name.to_owned(),
        description,
        input_spec: read.schema.value(),
        metadata: Value::Object(metadata),
    };
    Ok(Function { described, input })
}

/// Matches a name against a pattern, in which a final `*` matches anything.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => pattern == name,
    }
}

fn shown(name: &str) -> String {
    name.chars().take(128).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Registry;

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
        Registry::parse(FILE).unwrap().check(name, &Bytes::copy_from_slice(input.as_bytes()))
    }

    #[test]
    fn what_is_defined_allowed_and_fits_goes_on_and_all_else_is_told_why_not() {
        assert_eq!(check("disk_free", r#"{"path":"/"}"#), Ok(()));
        assert_eq!(check("disk_free", ""), Ok(()));
        let refused = |name, input: &str| check(name, input).unwrap_err();
        assert_eq!(refused("shell", "{}"), "Tool 'shell' not found.");
        assert_eq!(
            refused("disk_wipe", r#"{"path":"/"}"#),
            "the node's rules refuse `disk_wipe`: disks stay as they are"
        );
        assert_eq!(refused("reboot", "{}"), "no rule of the node allows `reboot`");
        let unfit = refused("disk_free", r#"{"path":5}"#);
        assert!(unfit.starts_with("the input does not fit: `/path`: "), "{unfit}");
        assert!(refused("disk_free", "[]").contains("not an object"));
        assert!(refused("disk_free", "{").starts_with("the input is not read: "));
        let long = format!(r#"{{"path":"{}"}}"#, "x".repeat(40));
        assert_eq!(refused("disk_free", &long), "the input has 51 bytes; 40 are allowed");
    }

    #[test]
    fn only_what_may_be_called_is_told_to_the_server() {
        let names: Vec<_> = Registry::parse(FILE).unwrap().described();
        let names: Vec<_> = names.into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["disk_free"]);
    }

    #[test]
    fn a_file_with_a_slip_is_refused_whole_with_the_place() {
        let refused = |text: &str| Registry::parse(text).unwrap_err().to_string();
        assert!(refused("version: 2").contains("this reads 1"));
        assert!(refused("version: 1\nrulez: []").contains("rulez"));
        assert!(refused("version: 1\nrules: [{}]").contains("rule 1 names either"));
        let both = "version: 1\nrules: [{ allow: [a], deny: [b] }]";
        assert!(refused(both).contains("rule 1 names either"));
        let unknown = "version: 1\ndefinitions: { f: { input_spec: { at: datetime } } }";
        assert_eq!(
            refused(unknown),
            "definition `f`: `input_spec`: `at`: `datetime` is no type that is known"
        );
        assert!(refused("version: 1\ndefinitions: { 'a b': {} }").contains("definition `a b`"));
    }
}
