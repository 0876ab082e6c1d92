//! Expands `${VAR}` and `${VAR:-default}` in scalars after parsing, so that a value never becomes another key. `$${`
//! stands for the characters `${`.

use super::ConfigPosition;
use super::environment::Environment;
use super::error_collector::ErrorCollector;
use super::yaml_tree::{NodeKind, YamlNode, YamlScalar, shorten_text};

/// The longest text after expansion, in bytes.
const MAX_EXPANDED_BYTES: usize = 64 << 10;

const SYNTAX_HELP: &str =
    "use `${NAME}` or `${NAME:-default}`; `$${` stands for the characters `${`";

/// Expands the variables of one file.
pub(crate) struct VariableExpander<'a> {
    environment: &'a Environment,
    /// Variables of other programs, such as `workspaceFolder`, with their values.
    predefined: Vec<(&'static str, String)>,
    /// Whether `${env:NAME}` is accepted.
    allows_env_prefix: bool,
}

/// A reference that cannot be expanded.
#[derive(Debug)]
struct ExpansionError {
    /// The byte of the text at which the reference begins.
    offset: usize,
    message: String,
    help: String,
}

impl<'a> VariableExpander<'a> {
    /// Makes an expander of environment variables.
    pub(crate) fn for_config_file(environment: &'a Environment) -> Self {
        Self { environment, predefined: Vec::new(), allows_env_prefix: false }
    }

    /// Makes an expander of environment variables, `${env:NAME}`, and the variables of other programs.
    pub(crate) fn for_mcp_servers_file(
        environment: &'a Environment,
        predefined: Vec<(&'static str, String)>,
    ) -> Self {
        Self { environment, predefined, allows_env_prefix: true }
    }

    /// Expands every scalar of the tree. A scalar that cannot be expanded is reported and becomes invalid.
    pub(crate) fn expand_tree(&self, node: &mut YamlNode, errors: &ErrorCollector<'_>) {
        let position = node.position;
        match &mut node.kind {
            NodeKind::List(nodes) => {
                for node in nodes {
                    self.expand_tree(node, errors);
                }
            }
            NodeKind::Map(entries) => {
                for (_, node) in entries {
                    self.expand_tree(node, errors);
                }
            }
            NodeKind::Scalar(scalar) if scalar.text.contains("${") => {
                match self.expand_text(&scalar.text) {
                    Ok(text) if text.is_empty() => node.kind = NodeKind::Null,
                    // The value of a variable may be a number or a boolean, even within quotes.
                    Ok(text) => *scalar = YamlScalar { text, is_plain: true },
                    Err(ExpansionError { offset, message, help }) => {
                        let position = position_in_scalar(position, scalar, offset);
                        node.kind = NodeKind::Invalid;
                        if node.is_secret {
                            errors.report_redacted(position, message, &help);
                        } else {
                            errors.report(position, message, &help);
                        }
                    }
                }
            }
            NodeKind::Scalar(_) | NodeKind::Null | NodeKind::Invalid => {}
        }
    }

    /// Expands the references of a text.
    fn expand_text(&self, text: &str) -> Result<String, ExpansionError> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str("${");
                rest = after;
                continue;
            }
            expanded.push_str(before);
            let offset = text.len() - after.len() - 2;
            let error = |(message, help)| ExpansionError { offset, message, help };
            let (reference, after) =
                after.split_once('}').ok_or_else(|| error(unclosed_reference()))?;
            expanded.push_str(&self.resolve_reference(reference).map_err(error)?);
            if expanded.len() > MAX_EXPANDED_BYTES {
                let message =
                    format!("the text is longer than {MAX_EXPANDED_BYTES} bytes after expansion");
                return Err(error((message, "use a shorter value".to_owned())));
            }
            rest = after;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// Returns the value of the reference between braces; an error is a message and a fix.
    fn resolve_reference(&self, reference: &str) -> Result<String, (String, String)> {
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        if default.is_some_and(|default| default.contains("${")) {
            let message = format!("the default of `{}` contains a variable", shorten_text(name));
            return Err((message, "write a plain default".to_owned()));
        }
        if let Some((_, text)) = self.predefined.iter().find(|(known, _)| *known == name) {
            return Ok(text.clone());
        }
        let name = match name.strip_prefix("env:") {
            Some(name) if self.allows_env_prefix => name,
            _ => name,
        };
        if !is_variable_name(name) {
            let message = format!("invalid variable reference `${{{}}}`", shorten_text(reference));
            return Err((message, SYNTAX_HELP.to_owned()));
        }
        match (self.environment.get(name), default) {
            (Some("") | None, Some(default)) => Ok(default.to_owned()),
            (Some(value), _) => Ok(value.to_owned()),
            (None, None) => Err((
                format!("the environment variable `{name}` is not set"),
                format!("set it, or give a default: `${{{name}:-…}}`"),
            )),
        }
    }
}

/// Finds the variables that a text references: `${NAME}` and `${env:NAME}`.
pub(crate) fn find_variable_names(text: &str) -> Vec<String> {
    let references = text.split("${").skip(1).filter_map(|after| after.split_once('}'));
    let names = references
        .map(|(reference, _)| reference.split_once(":-").map_or(reference, |(name, _)| name));
    let names = names.map(|name| name.strip_prefix("env:").unwrap_or(name));
    names.filter(|name| is_variable_name(name)).map(str::to_owned).collect()
}

/// The message and the fix for a reference without its closing brace.
fn unclosed_reference() -> (String, String) {
    let help = "close it with `}`; `$${` stands for the characters `${`".to_owned();
    ("`${` is not closed".to_owned(), help)
}

fn is_variable_name(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= 128 && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The position within a scalar: exact in an unquoted one on one line, otherwise its start.
fn position_in_scalar(
    position: ConfigPosition,
    scalar: &YamlScalar,
    offset: usize,
) -> ConfigPosition {
    let before = if scalar.is_plain { scalar.text.get(..offset).unwrap_or_default() } else { "" };
    ConfigPosition { column: position.column + before.chars().count(), ..position }
}

#[cfg(test)]
mod tests;
