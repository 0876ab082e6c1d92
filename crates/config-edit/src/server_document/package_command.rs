//! The command that runs a package of a server document.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::document_input::{Input, InputAnswers, InputScope, KeyedInput, escape_variables};
use super::{ImportError, ServerVariant, insert_values, quote_text};

/// A package of a server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerPackage {
    registry_type: String,
    #[serde(default)]
    registry_base_url: Option<String>,
    identifier: String,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    file_sha256: Option<String>,
    #[serde(default)]
    runtime_hint: Option<String>,
    transport: Transport,
    #[serde(default)]
    runtime_arguments: Vec<Argument>,
    #[serde(default)]
    package_arguments: Vec<Argument>,
    #[serde(default)]
    environment_variables: Vec<KeyedInput>,
}

#[derive(Debug, Deserialize)]
struct Transport {
    #[serde(rename = "type")]
    kind: String,
}

/// An argument of a command.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    #[serde(rename = "type")]
    kind: ArgumentKind,
    /// The flag of a named argument.
    #[serde(default)]
    name: String,
    /// The key of a positional argument.
    #[serde(default)]
    value_hint: String,
    #[serde(default)]
    is_repeated: bool,
    #[serde(flatten)]
    input: Input,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ArgumentKind {
    Positional,
    Named,
}

/// What runs the packages of one registry.
struct PackageRunner {
    program: &'static str,
    /// The address of the registry, which the runner uses by itself.
    registry: &'static str,
    is_identifier: fn(&str) -> bool,
}

const NPX: PackageRunner = PackageRunner {
    program: "npx",
    registry: "https://registry.npmjs.org",
    is_identifier: is_npm_name,
};
const UVX: PackageRunner =
    PackageRunner { program: "uvx", registry: "https://pypi.org", is_identifier: is_pypi_name };

impl ServerPackage {
    pub(super) fn registry_type(&self) -> &str {
        &self.registry_type
    }

    pub(super) fn is_of_registry(&self, registry: &str) -> bool {
        self.registry_type == registry
    }

    /// The image of a container, if it can stand in a command.
    pub(super) fn container_image(&self) -> Option<&str> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "./:@_-".contains(c);
        let image = self.identifier.as_str();
        (image.starts_with(|c: char| c.is_ascii_alphanumeric()) && image.chars().all(is_allowed))
            .then_some(image)
    }

    /// Checks that the package can be run as the document says.
    pub(super) fn check(&self) -> Result<(), ImportError> {
        let runner = if self.is_of_registry("npm") { NPX } else { UVX };
        let quoted = quote_text(&self.identifier);
        if !(runner.is_identifier)(&self.identifier) {
            let message = format!("`{quoted}` is no name of a package of {}", runner.registry);
            return Err(ImportError::invalid(message)
                .with_help("addresses, paths and options are not accepted as names"));
        }
        let version = self.version.as_deref().unwrap_or_default();
        if !is_exact_version(version) {
            let message =
                format!("the package `{quoted}` has no exact version: `{}`", quote_text(version));
            return Err(ImportError::invalid(message)
                .with_help("a version is a number such as `1.0.2`, no range and not `latest`"));
        }
        let base = self.registry_base_url.as_deref().map(|url| url.trim_end_matches('/'));
        if let Some(base) = base.filter(|base| *base != runner.registry) {
            let message =
                format!("the package `{quoted}` is in the registry `{}`", quote_text(base));
            return Err(ImportError::unsupported(message)
                .with_help(format!("`{}` takes it from {}", runner.program, runner.registry)));
        }
        if self.file_sha256.is_some() {
            let message = format!("the package `{quoted}` has a checksum");
            return Err(ImportError::unsupported(message).with_help(format!(
                "`{}` does not check it; add the command by hand",
                runner.program
            )));
        }
        if self.transport.kind != "stdio" {
            let transport = quote_text(&self.transport.kind);
            let message = format!("the package `{quoted}` uses the transport `{transport}`");
            return Err(ImportError::unsupported(message)
                .with_help("start the server yourself, and add its address: `--mcp URL`"));
        }
        let hint = self.runtime_hint.as_deref().filter(|_| !self.runtime_arguments.is_empty());
        if let Some(hint) = hint.filter(|hint| *hint != runner.program) {
            let message =
                format!("the package `{quoted}` has arguments for `{}`", quote_text(hint));
            return Err(ImportError::unsupported(message).with_help(format!(
                "Toolkeep runs it with `{}`; add the command by hand",
                runner.program
            )));
        }
        Ok(())
    }

    pub(super) fn add_inputs(&self, scope: &mut InputScope) {
        for argument in self.runtime_arguments.iter().chain(&self.package_arguments) {
            scope.add(argument.key(), &argument.input);
        }
        self.environment_variables.iter().for_each(|variable| scope.add_keyed(variable));
    }

    /// Builds the keys `command`, `args` and `env` of the configuration.
    pub(super) fn command_entry(
        &self,
        variant: ServerVariant,
        answers: &InputAnswers,
    ) -> Result<Map<String, Value>, ImportError> {
        self.check()?;
        let runner = if variant == ServerVariant::Npm { NPX } else { UVX };
        let mut args = Vec::new();
        for argument in &self.runtime_arguments {
            args.extend(argument.render(answers)?);
        }
        if variant == ServerVariant::Npm && !args.iter().any(|arg| arg == "-y" || arg == "--yes") {
            args.insert(0, "-y".to_owned());
        }
        let version = self.version.as_deref().unwrap_or_default();
        args.push(format!("{}@{version}", self.identifier));
        for argument in &self.package_arguments {
            args.extend(argument.render(answers)?);
        }
        let mut entry = Map::from_iter([
            ("command".to_owned(), json!(runner.program)),
            ("args".to_owned(), json!(args)),
        ]);
        insert_values(&mut entry, "env", answers.render_keyed(&self.environment_variables)?);
        Ok(entry)
    }
}

impl Argument {
    /// The key by which its value is supplied.
    fn key(&self) -> &str {
        match self.kind {
            ArgumentKind::Positional => &self.value_hint,
            ArgumentKind::Named => self.name.trim_start_matches('-'),
        }
    }

    /// Renders the arguments of the command: `--flag=value`, `-f value`, or the value.
    fn render(&self, answers: &InputAnswers) -> Result<Vec<String>, ImportError> {
        let values = answers.render_values(self.key(), &self.input, self.is_repeated)?;
        let flag = escape_variables(&self.name);
        let rendered = values.into_iter().flat_map(|value| match self.kind {
            ArgumentKind::Positional => vec![value],
            ArgumentKind::Named if value.is_empty() => vec![flag.clone()],
            ArgumentKind::Named if flag.starts_with("--") => vec![format!("{flag}={value}")],
            ArgumentKind::Named => vec![flag.clone(), value],
        });
        Ok(rendered.collect())
    }
}

/// Whether a text is an npm package: `name` or `@scope/name`. npm also takes addresses, paths and
/// repositories in this place.
fn is_npm_name(text: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c))
    };
    text.len() <= 214
        && match text.strip_prefix('@') {
            Some(scoped) => scoped.split_once('/').is_some_and(|(a, b)| is_part(a) && is_part(b)),
            None => is_part(text),
        }
}

/// Whether a text is a PyPI project (PEP 508).
fn is_pypi_name(text: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 214
        && text.starts_with(is_edge)
        && text.ends_with(is_edge)
        && text.chars().all(|c| is_edge(c) || "-._".contains(c))
}

/// Whether a text is one version. Both programs also take tags and ranges in this place.
fn is_exact_version(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-+_!".contains(c);
    let number = text.strip_prefix('v').unwrap_or(text);
    text.len() <= 255
        && number.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(is_allowed)
        && !text.split('.').any(|part| matches!(part, "x" | "X"))
}
