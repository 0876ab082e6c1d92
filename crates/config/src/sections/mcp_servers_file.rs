//! MCP servers in another program's file: `mcpServers` (Claude Desktop, Cursor) or `servers` (VS
//! Code), with comments and variables such as `${workspaceFolder}`.
//!
//! An invalid server does not affect the others. The file sets the connection of a server and its disabled tools. Only
//! the configuration can trust a server or relax approvals.

mod foreign_server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tool::SourceName;

use self::foreign_server::{ForeignServer, is_disabled};
use super::mcp_server::resolve_mcp_server;
use super::source::{ServerSettings, SourceConfig, SourceSettings};
use crate::FileFingerprint;
use crate::config_value::ConfigValue;
use crate::error_collector::ErrorCollector;
use crate::file_context::FileContext;
use crate::section::{Section as _, SectionKeys};
use crate::variable_expansion::VariableExpander;
use crate::yaml_tree::{NodeKind, YamlKey, YamlNode, shorten_text};
use crate::{ConfigLocation, file_text, yaml_parser};

/// The most servers of one file.
const MAX_SERVERS: usize = 500;

/// The entry of the configuration that names the file.
pub(super) struct McpServersEntry {
    /// The prefix of the servers' names.
    pub(super) prefix: Option<String>,
    /// The settings of all servers.
    pub(super) settings: SourceSettings,
    /// The settings of single servers, by their names in the file.
    pub(super) servers: BTreeMap<String, ServerSettings>,
}

impl McpServersEntry {
    /// Reads the servers of the file at `path`, each as a source.
    pub(super) fn read_sources(&self, value: ConfigValue<'_>, path: &str) -> Vec<SourceConfig> {
        let config_file = value.file;
        let path = config_file.resolve_path(path);
        let text = file_text::read_text(&path);
        config_file.included.borrow_mut().push(FileFingerprint::new(&path, text.as_deref()));
        let text = match text {
            Ok(text) => blank_out_comments(&text),
            Err(error) => {
                let message = match error.position.line {
                    0 => format!("`{}` {}", path.display(), error.message),
                    _ => error.message,
                };
                value.report(message, error.help.as_deref().unwrap_or_default());
                return Vec::new();
            }
        };
        let errors = ErrorCollector::new(&path, &text);
        let node = yaml_parser::parse_document(&path, &text);
        let node = node.map_err(|error| errors.push_error(error)).ok();
        let folder = workspace_dir(&path);
        let file = FileContext::new(&errors, &folder, config_file.environment);
        if let Some(node) = &node {
            self.report_unknown_servers(node, value, &path);
        }
        let sources = node.map(|node| self.parse_servers(&file, node)).unwrap_or_default();
        errors.take_notes().into_iter().for_each(|note| config_file.errors.push_note(note));
        errors.into_errors().into_iter().for_each(|error| config_file.errors.push_error(error));
        sources
    }

    /// Reports settings of a server that the file does not have: its name is likely a typo.
    fn report_unknown_servers(&self, node: &YamlNode, value: ConfigValue<'_>, path: &Path) {
        let servers = node.find_value("mcpServers").or_else(|| node.find_value("servers"));
        let is_known =
            |name: &str| servers.is_some_and(|servers| servers.find_value(name).is_some());
        for name in self.servers.keys().filter(|name| !is_known(name)) {
            let (name, path) = (shorten_text(name), path.display());
            let message = format!("`servers` names `{name}`, which is not in `{path}`");
            value.report(message, "write the name as in that file");
        }
    }

    fn parse_servers(&self, file: &FileContext<'_>, mut node: YamlNode) -> Vec<SourceConfig> {
        node.mark_secrets(false);
        let servers = node.take_value("mcpServers").or_else(|| node.take_value("servers"));
        let Some(YamlNode { kind: NodeKind::Map(servers), position, .. }) = servers else {
            let help = "write it as `{\"mcpServers\": {\"NAME\": {\"command\": …}}}`";
            let message = "the mapping `mcpServers` or `servers` is missing";
            file.errors.report(node.position, message, help);
            return Vec::new();
        };
        if servers.len() > MAX_SERVERS {
            let message = format!(
                "{} servers are too many; at most {MAX_SERVERS} are allowed",
                servers.len()
            );
            file.errors.report(position, message, "");
            return Vec::new();
        }
        let source = |(key, node): (YamlKey, YamlNode)| self.parse_server(file, &key, node);
        servers.into_iter().filter_map(source).collect()
    }

    fn parse_server(
        &self,
        file: &FileContext<'_>,
        key: &YamlKey,
        mut node: YamlNode,
    ) -> Option<SourceConfig> {
        if is_disabled(&node) {
            return None;
        }
        let errors_before = file.errors.error_count();
        let mut predefined =
            vec![("workspaceFolder", file.base_dir.to_string_lossy().into_owned())];
        if let Some(home) = file.environment.home_dir() {
            predefined.push(("userHome", home.to_string_lossy().into_owned()));
        }
        VariableExpander::for_mcp_servers_file(file.environment, predefined)
            .expand_tree(&mut node, file.errors);
        let value = ConfigValue { file, node: &node };
        let keys = SectionKeys::from_value(value)?;
        let server = ForeignServer::read_keys(&keys)?;
        if server.is_disabled() {
            return None;
        }
        let name = self.server_name(file, key);
        if let Some(transport) = &server.transport {
            foreign_server::report_transport(value, key, transport);
        }
        foreign_server::report_unused_keys(&keys);
        let settings = server.apply_to(self.settings.clone());
        let settings = match self.servers.get(&key.text) {
            Some(overrides) => settings.with_overrides(overrides.clone()),
            None => settings,
        };
        let kind = resolve_mcp_server(value, key.position, server.into_mcp_keys(value, key));
        let (name, kind) = name.zip(kind)?;
        let location = ConfigLocation { file: file.errors.file.to_owned(), position: key.position };
        let is_valid = file.errors.error_count() == errors_before;
        is_valid.then(|| settings.into_source(name, kind, location))
    }

    /// Makes a source's name: characters that only other programs allow, such as spaces, become `-`.
    fn server_name(&self, file: &FileContext<'_>, key: &YamlKey) -> Option<SourceName> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let name: String = key.text.chars().map(|c| if is_allowed(c) { c } else { '-' }).collect();
        let name = match &self.prefix {
            Some(prefix) => format!("{prefix}.{name}"),
            None => name,
        };
        let report = |message: String| file.errors.report(key.position, message, "");
        SourceName::from_operator(&name).map_err(|error| report(error.to_string())).ok()
    }
}

/// The folder that the file's paths begin at: its own, or the workspace around an editor's folder.
fn workspace_dir(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(path);
    let is_editor_dir =
        folder.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
    let folder = if is_editor_dir { folder.parent().unwrap_or(folder) } else { folder };
    folder.to_owned()
}

/// Replaces `//` and `/* */` comments by spaces, so that every position stays.
fn blank_out_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some(_)) if is_quoted => {
                out.push(c);
                out.extend(rest.next());
                continue;
            }
            ('/', Some('/')) if !is_quoted => {
                out.push(' ');
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    out.push(if c == '\r' { c } else { ' ' });
                }
                continue;
            }
            ('/', Some('*')) if !is_quoted => {
                out.push(' ');
                blank_out_block(&mut rest, &mut out);
                continue;
            }
            ('"', _) => is_quoted = !is_quoted,
            _ => {}
        }
        out.push(c);
    }
    out
}

fn blank_out_block(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut before = ' ';
    // The star of `/*` cannot also end the comment.
    out.extend(rest.next().map(|_| ' '));
    for c in rest.by_ref() {
        out.push(if c == '\n' { c } else { ' ' });
        if before == '*' && c == '/' {
            return;
        }
        before = c;
    }
}

#[cfg(test)]
mod tests;
