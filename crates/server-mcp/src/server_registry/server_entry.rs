//! One server of the registry: a `server.json` document with the registry's own metadata.

use std::collections::BTreeMap;

use catalog::SourceCatalog;
use gateway::CatalogView;
use schemars::JsonSchema;
use serde::Serialize;

use server_core::public_address::PublicAddress;
use server_core::server_state::ServerState;

use crate::server_capabilities::source_server_info;
use crate::server_card::remote_endpoint::RemoteEndpoint;

use super::LATEST;

/// The schema of `server.json`.
const SERVER_SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// Key of the registry's metadata.
const REGISTRY_META: &str = "io.modelcontextprotocol.registry/official";
/// Maximum length of a description in characters.
const MAX_DESCRIPTION_CHARS: usize = 100;
/// Maximum length of a version in bytes.
const MAX_VERSION_BYTES: usize = 255;

/// A server with the registry's metadata.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServerEntry {
    server: ServerDetail,
    #[serde(rename = "_meta")]
    meta: BTreeMap<&'static str, RegistryMetadata>,
}

/// A `server.json` document.
#[derive(Debug, Serialize, JsonSchema)]
struct ServerDetail {
    #[serde(rename = "$schema")]
    schema: &'static str,
    /// Name: the host of this server in reverse order, `/` and the source.
    name: String,
    /// Number of items that the caller may use.
    description: String,
    /// Name of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Version that the MCP server reports, else the version of Toolkeep.
    version: String,
    /// The endpoint `/mcp/{source}`.
    remotes: [RemoteEndpoint; 1],
}

/// Metadata of the registry.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RegistryMetadata {
    /// Always `active`.
    status: &'static str,
    /// Always true: a source has one version.
    is_latest: bool,
}

impl ServerEntry {
    /// Describes a source as the caller of `view` uses it.
    pub(super) fn new(
        (state, address): (&ServerState, &PublicAddress),
        view: &CatalogView,
        (name, source): (String, &SourceCatalog),
    ) -> Self {
        let path = format!("/mcp/{}", source.source);
        let title = source.source.as_str();
        let server = ServerDetail {
            schema: SERVER_SCHEMA,
            name,
            description: describe_items(view, source),
            title: (title.len() <= MAX_DESCRIPTION_CHARS).then(|| title.to_owned()),
            version: source_version(source),
            remotes: [RemoteEndpoint::at_path(state, address, &path)],
        };
        let metadata = RegistryMetadata { status: "active", is_latest: true };
        Self { server, meta: BTreeMap::from([(REGISTRY_META, metadata)]) }
    }

    /// The name of the server.
    pub(super) fn name(&self) -> &str {
        &self.server.name
    }

    /// The version of the server.
    pub(super) fn version(&self) -> &str {
        &self.server.version
    }
}

/// Describes a source by what the caller may use of it. Texts of the source are not repeated,
/// because clients may show a description before anybody has reviewed it.
fn describe_items(view: &CatalogView, source: &SourceCatalog) -> String {
    let name = source.source.as_str();
    let has = |method: &str| view.find_method(name, method).is_some();
    let prompts = if has("mcp.prompts.get") { source.prompts.len() } else { 0 };
    let resources = if has("mcp.resources.read") { source.resources.len() } else { 0 };
    let count = |number: usize, noun: &str| {
        let plural = if number == 1 { "" } else { "s" };
        format!("{number} {noun}{plural}")
    };
    let tools = count(view.tools_of(name).count(), "tool");
    let items =
        format!("{tools}, {} and {}", count(prompts, "prompt"), count(resources, "resource"));
    let described = format!("{items} of the source `{name}`");
    if described.chars().count() <= MAX_DESCRIPTION_CHARS { described } else { items }
}

/// The version that an MCP server reports, if it can be the version of a registry entry.
fn source_version(source: &SourceCatalog) -> String {
    let info = source_server_info(source);
    let version = info.and_then(|info| info.get("version")?.decode::<String>().ok());
    version
        .filter(|version| is_exact_version(version))
        .unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
}

/// Whether a text is one version: no range, no `latest`, and nothing that a path would change.
fn is_exact_version(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    let is_wildcard = |part: &str| matches!(part, "x" | "X");
    (1..=MAX_VERSION_BYTES).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(is_allowed)
        && text != LATEST
        && !text.split('.').any(is_wildcard)
}

#[cfg(test)]
mod tests {
    use super::is_exact_version;

    #[test]
    fn a_version_is_exact_and_short() {
        for good in ["1.0.2", "2.1.0-alpha", "1.0.0+2013", "2026-11-24", "v3"] {
            assert!(is_exact_version(good), "{good}");
        }
        let long = "1".repeat(256);
        for bad in [
            "",
            "latest",
            "^1.2.3",
            "~1.2.3",
            ">=1.2.3",
            "1.x",
            "1.*",
            "1/2",
            "\u{202e}1",
            "-1",
            &long,
        ] {
            assert!(!is_exact_version(bad), "{bad}");
        }
    }
}
