//! The file in which other programs keep their MCP servers: `mcpServers` (Claude Desktop, Cursor and
//! most others) or `servers` (VS Code), with comments, and with words such as `${workspaceFolder}`.
//!
//! One server that cannot be used does not take the others down. What the file says decides how a server is
//! reached and which of its tools are left out; what counts as harmless is for the operator's own file to say.

mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tool::SourceName;

use self::server::Server;
use super::Resolver;
use super::source::Common;
use crate::de;
use crate::field::Field;
use crate::high::SourceConfig;
use crate::low;
use crate::node::{Key, Kind, Node, shorten};
use crate::sink::Sink;
use crate::vars::Variables;
use crate::{Place, ReadFile};
use crate::{text, yaml};

/// The most servers of one file.
const SERVERS: usize = 500;

/// The entry of the configuration that names the file.
pub(super) struct ServersEntry<'a> {
    /// What is put before the names.
    pub(super) prefix: Option<&'a String>,
    /// What holds for all servers.
    pub(super) common: &'a Common,
    /// What holds for single servers, by their names in the file.
    pub(super) servers: Option<&'a BTreeMap<String, Field<low::ServerSettings>>>,
}

impl Resolver<'_> {
    /// The servers of the file at `path`, each as a source.
    pub(super) fn mcp_servers(
        &self,
        (path, place): (&str, Place),
        entry: &ServersEntry<'_>,
        included: &mut Vec<ReadFile>,
    ) -> Vec<SourceConfig> {
        let path = self.path(path);
        let text = text::read(&path);
        included.push(ReadFile::new(&path, text.as_deref()));
        let text = match text {
            Ok(text) => without_comments(&text),
            Err(fault) => {
                let message = match fault.place.line {
                    0 => format!("`{}` {}", path.display(), fault.message),
                    _ => fault.message,
                };
                self.sink.tell(place, message, fault.fix.as_deref().unwrap_or_default());
                return Vec::new();
            }
        };
        let sink = Sink::new(&path, &text);
        let node = yaml::parse(&path, &text).map_err(|fault| sink.add(fault)).ok();
        let folder = workspace(&path);
        let resolver = Resolver { sink: &sink, base: &folder, environment: self.environment };
        if let Some(node) = &node {
            self.unmatched_servers(node, entry, (&path, place));
        }
        let sources = node.map(|node| resolver.servers(node, entry)).unwrap_or_default();
        sink.take_notes().into_iter().for_each(|note| self.sink.add_note(note));
        sink.into_faults().into_iter().for_each(|fault| self.sink.add(fault));
        sources
    }

    /// A setting for a server that is not there is a slip, which leaves another without it.
    fn unmatched_servers(
        &self,
        node: &Node,
        entry: &ServersEntry<'_>,
        (path, place): (&Path, Place),
    ) {
        let found = node.get("mcpServers").or_else(|| node.get("servers"));
        let known = |name: &str| found.is_some_and(|servers| servers.get(name).is_some());
        for name in entry.servers.into_iter().flat_map(BTreeMap::keys).filter(|it| !known(it)) {
            let (name, path) = (shorten(name), path.display());
            let message = format!("`servers` names `{name}`, which is not in `{path}`");
            self.sink.tell(place, message, "write the name as that file has it");
        }
    }

    fn servers(&self, mut node: Node, entry: &ServersEntry<'_>) -> Vec<SourceConfig> {
        node.hide(false);
        let found = node.take("mcpServers").or_else(|| node.take("servers"));
        let Some(Node { kind: Kind::Map(servers), place, .. }) = found else {
            let fix = "it should be `{\"mcpServers\": {\"NAME\": {\"command\": …}}}`";
            self.sink.tell(node.place, "there is no mapping `mcpServers` or `servers`", fix);
            return Vec::new();
        };
        if servers.len() > SERVERS {
            let message = format!("{} servers are too many; {SERVERS} are allowed", servers.len());
            self.sink.tell(place, message, "");
            return Vec::new();
        }
        let source = |(key, node): (Key, Node)| self.foreign(&key, node, entry);
        servers.into_iter().filter_map(source).collect()
    }

    fn foreign(&self, key: &Key, mut node: Node, entry: &ServersEntry<'_>) -> Option<SourceConfig> {
        if server::is_disabled(&node) {
            return None;
        }
        let before = self.sink.count();
        let mut words = vec![("workspaceFolder", self.base.to_string_lossy().into_owned())];
        if let Some(home) = self.environment.home() {
            words.push(("userHome", home.to_string_lossy().into_owned()));
        }
        Variables::foreign(self.environment, words).fill(&mut node, self.sink);
        let server: Server = de::read(&node, false, self.sink)?;
        if server.is_disabled() {
            return None;
        }
        let name = self.server_name(key, entry.prefix);
        self.unsupported(&server, key);
        self.unused(&node);
        let common = self.of_server(&server, entry.common);
        let settings = entry.servers.and_then(|all| all.get(&key.text)).and_then(Field::get);
        let common = settings.map(|said| self.over(&common, said)).unwrap_or(common);
        let kind = self.mcp(&self.reached(server, key), key.place);
        let (name, kind) = name.zip(kind)?;
        let sound = self.sink.count() == before;
        let written = (self.sink.file.to_owned(), key.place);
        sound.then(|| common.with(name, kind, written))
    }

    /// The name there, made fit: other programs allow spaces and more.
    fn server_name(&self, key: &Key, prefix: Option<&String>) -> Option<SourceName> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let name: String = key.text.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        let name = match prefix {
            Some(prefix) => format!("{prefix}.{name}"),
            None => name,
        };
        SourceName::of_operator(&name)
            .map_err(|fault| self.sink.tell(key.place, fault.to_string(), ""))
            .ok()
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
