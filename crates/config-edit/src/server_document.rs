//! Import of a published MCP server: a `server.json` document of the MCP Registry, or a server card.
//!
//! The document is untrusted. It chooses no program: a package runs with `npx` or `uvx`, in the exact
//! version that it names. None of its texts refers to a variable of the environment, and no secret is
//! written as a value. Formats: `server.schema.json` of `modelcontextprotocol/registry` (2025-12-11)
//! and `schema.ts` of `modelcontextprotocol/experimental-ext-server-card`.

mod document_input;
mod package_command;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use document_input::{InputAnswers, ServerInput};
use document_input::{InputScope, KeyedInput};
use package_command::ServerPackage;

/// Maximum size of a document, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 10;
/// Maximum number of packages, and of remote endpoints.
const MAX_ENDPOINTS: usize = 32;
/// Maximum number of characters of a quoted text of the document.
const MAX_QUOTED_CHARS: usize = 120;
/// Maximum length of a source name that is derived from a document, in bytes.
const MAX_SOURCE_NAME_BYTES: usize = 64;

/// A published MCP server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerDocument {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    packages: Vec<ServerPackage>,
    #[serde(default)]
    remotes: Vec<RemoteServer>,
}

/// A remote endpoint of a server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteServer {
    #[serde(rename = "type")]
    transport: String,
    url: String,
    #[serde(default)]
    headers: Vec<KeyedInput>,
    #[serde(default)]
    variables: BTreeMap<String, document_input::Input>,
}

/// A way to use a server, by its word on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerVariant {
    /// The streamable HTTP endpoint.
    Remote,
    /// The npm package, run with `npx`.
    Npm,
    /// The PyPI package, run with `uvx`.
    Pypi,
}

/// An error of an import.
#[derive(Debug)]
pub struct ImportError {
    /// What the error is about.
    pub kind: ImportErrorKind,
    /// Description of the error.
    pub message: String,
    /// Remedy, if one is known.
    pub help: Option<String>,
}

/// The subject of an error of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportErrorKind {
    /// The document is not valid.
    InvalidDocument,
    /// The document is valid, and needs what Toolkeep does not support.
    Unsupported,
    /// A value of the caller is missing or does not fit.
    InvalidInput,
}

impl ImportError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ImportErrorKind::InvalidDocument, message: message.into(), help: None }
    }

    fn unsupported(message: impl Into<String>) -> Self {
        Self { kind: ImportErrorKind::Unsupported, message: message.into(), help: None }
    }

    fn input(message: impl Into<String>) -> Self {
        Self { kind: ImportErrorKind::InvalidInput, message: message.into(), help: None }
    }

    pub(crate) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl ServerDocument {
    /// Parses a document, also in the envelope in which a registry returns it.
    ///
    /// # Errors
    /// A document that is too large, no JSON, or lacks what every server has.
    pub fn parse(text: &[u8]) -> Result<Self, ImportError> {
        if text.len() > MAX_DOCUMENT_BYTES {
            let message = format!("the document is larger than {MAX_DOCUMENT_BYTES} bytes");
            return Err(ImportError::invalid(message));
        }
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| ImportError::invalid(format!("the document is not JSON: {error}")))?;
        Self::from_value(value)
    }

    /// Reads a document that is JSON already, as [`parse`](Self::parse).
    ///
    /// # Errors
    /// A document that lacks what every server has.
    pub fn from_value(mut value: Value) -> Result<Self, ImportError> {
        if let Some(server) = value.get_mut("server").filter(|server| server.is_object()) {
            value = server.take();
        }
        let document: Self = serde_json::from_value(value).map_err(|error| {
            let error = quote_text(&error.to_string());
            ImportError::invalid(format!("the document describes no MCP server: {error}"))
                .with_help("pass a `server.json` of the MCP Registry, or a server card")
        })?;
        if !is_server_name(&document.name) {
            let message = format!("invalid server name `{}`", quote_text(&document.name));
            return Err(ImportError::invalid(message).with_help(
                "a name is a namespace, `/` and a name: letters, digits, `.`, `-` and `_`",
            ));
        }
        if document.packages.len().max(document.remotes.len()) > MAX_ENDPOINTS {
            let message = format!("the document has more than {MAX_ENDPOINTS} packages or remotes");
            return Err(ImportError::invalid(message));
        }
        Ok(document)
    }

    /// The name of the server, such as `io.github.user/weather`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description, as the document has it: any text.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The version, as the document has it: any text.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// A name for the source: the last part of the server's name.
    pub fn source_name(&self) -> String {
        let own = self.name.rsplit('/').next().unwrap_or_default();
        own.chars().take(MAX_SOURCE_NAME_BYTES).collect()
    }

    /// Chooses how to use the server: the given way, else the first that Toolkeep supports: a remote
    /// endpoint, an npm package, a PyPI package.
    ///
    /// # Errors
    /// The document has no such way; it says why the others cannot be used.
    pub fn plan(&self, variant: Option<ServerVariant>) -> Result<ServerPlan<'_>, ImportError> {
        let all = [ServerVariant::Remote, ServerVariant::Npm, ServerVariant::Pypi];
        let mut first = None;
        for variant in all.into_iter().filter(|it| variant.is_none_or(|wanted| *it == wanted)) {
            match self.plan_variant(variant) {
                Some(Ok(plan)) => return Ok(plan),
                Some(Err(error)) => first = first.or(Some(error)),
                None => {}
            }
        }
        Err(first.unwrap_or_else(|| self.unsupported_error()))
    }

    fn plan_variant(&self, variant: ServerVariant) -> Option<Result<ServerPlan<'_>, ImportError>> {
        if let Some(registry) = variant.registry_type() {
            let package = self.packages.iter().find(|package| package.is_of_registry(registry))?;
            let plan = || ServerPlan(PlannedServer::Package(package, variant));
            return Some(package.check().map(|()| plan()));
        }
        let remote = self.remotes.iter().find(|remote| remote.transport == "streamable-http");
        Some(Ok(ServerPlan(PlannedServer::Remote(remote?))))
    }

    fn unsupported_error(&self) -> ImportError {
        let kinds = self.packages.iter().map(ServerPackage::registry_type);
        let kinds = kinds.chain(self.remotes.iter().map(|remote| remote.transport.as_str()));
        let kinds: Vec<_> = kinds.map(|kind| format!("`{}`", quote_text(kind))).collect();
        let found = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
        let message = format!("the server cannot be added: the document offers {found}");
        let image = self.packages.iter().find(|package| package.is_of_registry("oci"));
        let help = match image.and_then(ServerPackage::container_image) {
            Some(image) => format!(
                "supported are `streamable-http`, `npm` and `pypi`; to run the container: \
                 `toolkeep source add NAME -- docker run -i --rm {image}`"
            ),
            None => "supported are the remote `streamable-http` and packages of `npm` and `pypi` \
                     with `stdio`"
                .to_owned(),
        };
        ImportError::unsupported(message).with_help(help)
    }
}

impl ServerVariant {
    /// The registry type of its packages; `None` for the remote endpoint.
    fn registry_type(self) -> Option<&'static str> {
        match self {
            Self::Remote => None,
            Self::Npm => Some("npm"),
            Self::Pypi => Some("pypi"),
        }
    }
}

/// A chosen way to use a server.
#[derive(Debug)]
pub struct ServerPlan<'a>(PlannedServer<'a>);

#[derive(Debug)]
enum PlannedServer<'a> {
    Remote(&'a RemoteServer),
    Package(&'a ServerPackage, ServerVariant),
}

impl ServerPlan<'_> {
    /// Whether the source starts a program on the server's machine.
    pub fn starts_program(&self) -> bool {
        matches!(self.0, PlannedServer::Package(..))
    }

    /// The values that the document asks for, each key once.
    pub fn inputs(&self) -> Vec<ServerInput> {
        let mut scope = InputScope::default();
        match self.0 {
            PlannedServer::Remote(remote) => {
                scope.add_variables(&remote.variables);
                remote.headers.iter().for_each(|header| scope.add_keyed(header));
            }
            PlannedServer::Package(package, _) => package.add_inputs(&mut scope),
        }
        scope.into_inputs()
    }

    /// Builds the entry of the configuration. Secrets appear as references to variables.
    ///
    /// # Errors
    /// A value is missing, unknown, or not one of the choices; a secret is given as a value.
    pub fn source_entry(
        &self,
        source_name: &str,
        answers: &InputAnswers,
    ) -> Result<Map<String, Value>, ImportError> {
        answers.check_known(&self.inputs())?;
        let mcp = match self.0 {
            PlannedServer::Remote(remote) => {
                let url = answers.render_template(&remote.url, &remote.variables)?;
                let mut mcp = Map::from_iter([("url".to_owned(), json!(url))]);
                insert_values(&mut mcp, "headers", answers.render_keyed(&remote.headers)?);
                mcp
            }
            PlannedServer::Package(package, variant) => package.command_entry(variant, answers)?,
        };
        Ok(Map::from_iter([
            ("name".to_owned(), json!(source_name)),
            ("mcp".to_owned(), Value::Object(mcp)),
        ]))
    }
}

fn insert_values(entry: &mut Map<String, Value>, key: &str, values: Map<String, Value>) {
    if !values.is_empty() {
        entry.insert(key.to_owned(), Value::Object(values));
    }
}

/// Quotes a text of a document in a message: one line, escaped, of bounded length.
pub(crate) fn quote_text(text: &str) -> String {
    tool::display_text::escape_and_truncate(text, MAX_QUOTED_CHARS)
}

/// Whether a text is a server name: a namespace, one slash, and a name.
pub fn is_server_name(text: &str) -> bool {
    let is_part = |part: &str, more: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let parts = text.split_once('/');
    (3..=200).contains(&text.len())
        && parts.is_some_and(|(space, name)| is_part(space, ".-") && is_part(name, "._-"))
}

#[cfg(test)]
mod tests;
