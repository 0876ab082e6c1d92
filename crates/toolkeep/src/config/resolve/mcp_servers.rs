//! The file in which other programs keep their MCP servers: `mcpServers` (Claude Desktop, Cursor and
//! most others) or `servers` (VS Code), with comments, and with words such as `${workspaceFolder}`.
//!
//! One server that cannot be used does not take the others down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tool::SourceName;

use super::Resolver;
use super::source::Common;
use crate::config::de;
use crate::config::field::Field;
use crate::config::high::SourceConfig;
use crate::config::low;
use crate::config::node::{Key, Kind, Node, shorten};
use crate::config::sink::Sink;
use crate::config::vars::Variables;
use crate::config::{Place, ReadFile};
use crate::config::{text, yaml};

/// The most servers of one file.
const SERVERS: usize = 500;

/// One server. What else stands there belongs to the other program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    r#type: Field<String>,
    command: Field<String>,
    args: Field<Vec<Field<low::Text>>>,
    env: Field<BTreeMap<String, Field<low::Text>>>,
    #[serde(rename = "envFile")]
    env_file: Field<String>,
    cwd: Field<String>,
    url: Field<String>,
    headers: Field<BTreeMap<String, Field<low::Text>>>,
    disabled: Field<bool>,
}

impl Resolver<'_> {
    /// The servers of the file at `path`, each as a source.
    pub(super) fn mcp_servers(
        &self,
        (path, place): (&str, Place),
        prefix: Option<&String>,
        common: &Common,
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
        let sources = node.map(|node| resolver.servers(node, prefix, common)).unwrap_or_default();
        sink.into_faults().into_iter().for_each(|fault| self.sink.add(fault));
        sources
    }

    fn servers(
        &self,
        mut node: Node,
        prefix: Option<&String>,
        common: &Common,
    ) -> Vec<SourceConfig> {
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
        let source = |(key, node): (Key, Node)| self.foreign(&key, node, prefix, common);
        servers.into_iter().filter_map(source).collect()
    }

    fn foreign(
        &self,
        key: &Key,
        mut node: Node,
        prefix: Option<&String>,
        common: &Common,
    ) -> Option<SourceConfig> {
        let before = self.sink.count();
        let mut words = vec![("workspaceFolder", self.base.to_string_lossy().into_owned())];
        if let Some(home) = self.environment.home() {
            words.push(("userHome", home.to_string_lossy().into_owned()));
        }
        Variables::foreign(self.environment, words).fill(&mut node, self.sink);
        let server: Server = de::read(&node, false, self.sink)?;
        if server.disabled.get() == Some(&true) {
            return None;
        }
        let name = self.server_name(key, prefix);
        self.unsupported(&server, key);
        let Server { command, args, env, cwd, url, headers, .. } = server;
        let written = low::Mcp { command, args, env, cwd, url, headers, ..low::Mcp::default() };
        let kind = self.mcp(&written, key.place);
        let (name, kind) = name.zip(kind)?;
        let sound = self.sink.count() == before;
        let written = (self.sink.file.to_owned(), key.place);
        sound.then(|| common.clone().with(name, kind, written))
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

    /// What the other program would do and this one does not is told, never left out in silence.
    fn unsupported(&self, server: &Server, key: &Key) {
        if let Some((_, place)) = server.env_file.given() {
            let fix = "put the variables under `env`";
            self.sink.tell(place, "`envFile` is not read", fix);
        }
        let Some((kind, place)) = server.r#type.given() else { return };
        match kind.as_str() {
            "stdio" | "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {}
            "sse" => {
                let message = format!("`{}` speaks the old SSE transport", shorten(&key.text));
                let fix = "use the server's streamable HTTP address, with the type `http`";
                self.sink.tell(place, message, fix);
            }
            other => {
                let message = format!("the type `{}` is not known", shorten(other));
                self.sink.tell(place, message, "use `stdio` or `http`");
            }
        }
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
