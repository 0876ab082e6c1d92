//! The file in which other programs keep their MCP servers: `mcpServers` (Claude Desktop, Cursor and
//! most others) or `servers` (VS Code), with comments, and with words such as `${workspaceFolder}`.
//!
//! One server that cannot be used does not take the others down. What the file says decides how a server is
//! reached and which of its tools are left out; what counts as harmless is for the operator's own file to say.

mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tool::SourceName;

use self::server::{ForeignServer, is_disabled};
use super::mcp::mcp;
use super::source::{ServerSettings, SourceConfig, SourceSettings};
use crate::ReadFile;
use crate::context::FileContext;
use crate::node::{Key, Kind, Node, shorten};
use crate::section::{Keys, Section as _};
use crate::sink::Sink;
use crate::value::ConfigValue;
use crate::vars::Variables;
use crate::{text, yaml};

/// The most servers of one file.
const SERVERS: usize = 500;

/// The entry of the configuration that names the file.
pub(super) struct ServersEntry {
    /// What is put before the names.
    pub(super) prefix: Option<String>,
    /// What holds for all servers.
    pub(super) settings: SourceSettings,
    /// What holds for single servers, by their names in the file.
    pub(super) servers: BTreeMap<String, ServerSettings>,
}

impl ServersEntry {
    /// The servers of the file at `path`, each as a source.
    pub(super) fn sources(&self, value: ConfigValue<'_>, path: &str) -> Vec<SourceConfig> {
        let own = value.file;
        let path = own.path(path);
        let text = text::read(&path);
        own.included.borrow_mut().push(ReadFile::new(&path, text.as_deref()));
        let text = match text {
            Ok(text) => without_comments(&text),
            Err(fault) => {
                let message = match fault.place.line {
                    0 => format!("`{}` {}", path.display(), fault.message),
                    _ => fault.message,
                };
                value.fault(message, fault.fix.as_deref().unwrap_or_default());
                return Vec::new();
            }
        };
        let sink = Sink::new(&path, &text);
        let node = yaml::parse(&path, &text).map_err(|fault| sink.add(fault)).ok();
        let folder = workspace(&path);
        let file = FileContext::new(&sink, &folder, own.environment);
        if let Some(node) = &node {
            self.unmatched_servers(node, value, &path);
        }
        let sources = node.map(|node| self.servers(&file, node)).unwrap_or_default();
        sink.take_notes().into_iter().for_each(|note| own.sink.add_note(note));
        sink.into_faults().into_iter().for_each(|fault| own.sink.add(fault));
        sources
    }

    /// A setting for a server that is not there is a slip, which leaves another without it.
    fn unmatched_servers(&self, node: &Node, value: ConfigValue<'_>, path: &Path) {
        let found = node.get("mcpServers").or_else(|| node.get("servers"));
        let known = |name: &str| found.is_some_and(|servers| servers.get(name).is_some());
        for name in self.servers.keys().filter(|name| !known(name)) {
            let (name, path) = (shorten(name), path.display());
            let message = format!("`servers` names `{name}`, which is not in `{path}`");
            value.fault(message, "write the name as that file has it");
        }
    }

    fn servers(&self, file: &FileContext<'_>, mut node: Node) -> Vec<SourceConfig> {
        node.hide(false);
        let found = node.take("mcpServers").or_else(|| node.take("servers"));
        let Some(Node { kind: Kind::Map(servers), place, .. }) = found else {
            let fix = "it should be `{\"mcpServers\": {\"NAME\": {\"command\": …}}}`";
            let message = "there is no mapping `mcpServers` or `servers`";
            file.sink.tell(node.place, message, fix);
            return Vec::new();
        };
        if servers.len() > SERVERS {
            let message = format!("{} servers are too many; {SERVERS} are allowed", servers.len());
            file.sink.tell(place, message, "");
            return Vec::new();
        }
        let source = |(key, node): (Key, Node)| self.server(file, &key, node);
        servers.into_iter().filter_map(source).collect()
    }

    fn server(&self, file: &FileContext<'_>, key: &Key, mut node: Node) -> Option<SourceConfig> {
        if is_disabled(&node) {
            return None;
        }
        let faults = file.sink.count();
        let mut words = vec![("workspaceFolder", file.base.to_string_lossy().into_owned())];
        if let Some(home) = file.environment.home() {
            words.push(("userHome", home.to_string_lossy().into_owned()));
        }
        Variables::foreign(file.environment, words).fill(&mut node, file.sink);
        let value = ConfigValue { file, node: &node };
        let keys = Keys::of(value)?;
        let server = ForeignServer::read(&keys)?;
        if server.is_disabled() {
            return None;
        }
        let name = self.server_name(file, key);
        if let Some(transport) = &server.transport {
            server::report_transport(value, key, transport);
        }
        server::report_unused(&keys);
        let settings = server.settings(self.settings.clone());
        let settings = match self.servers.get(&key.text) {
            Some(own) => settings.over(own.clone()),
            None => settings,
        };
        let kind = mcp(value, key.place, server.reached(value, key));
        let (name, kind) = name.zip(kind)?;
        let written = (file.sink.file.to_owned(), key.place);
        let is_sound = file.sink.count() == faults;
        is_sound.then(|| settings.source(name, kind, written))
    }

    /// The name there, made fit: other programs allow spaces and more.
    fn server_name(&self, file: &FileContext<'_>, key: &Key) -> Option<SourceName> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let name: String = key.text.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        let name = match &self.prefix {
            Some(prefix) => format!("{prefix}.{name}"),
            None => name,
        };
        let fault = |fault: String| file.sink.tell(key.place, fault, "");
        SourceName::of_operator(&name).map_err(|error| fault(error.to_string())).ok()
    }
}

/// The folder that the file's paths begin at: the one it lies in, or the workspace where it lies in an
/// editor's own folder.
fn workspace(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(path);
    let of_editor = folder.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
    let folder = if of_editor { folder.parent().unwrap_or(folder) } else { folder };
    folder.to_owned()
}

/// The same text with `//` and `/* */` comments made blank, so that every place stays where it is.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some(_)) if quoted => {
                out.push(c);
                out.extend(rest.next());
                continue;
            }
            ('/', Some('/')) if !quoted => {
                out.push(' ');
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    out.push(if c == '\r' { c } else { ' ' });
                }
                continue;
            }
            ('/', Some('*')) if !quoted => {
                out.push(' ');
                blank_block(&mut rest, &mut out);
                continue;
            }
            ('"', _) => quoted = !quoted,
            _ => {}
        }
        out.push(c);
    }
    out
}

fn blank_block(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut before = ' ';
    // The star of the opening does not close.
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
