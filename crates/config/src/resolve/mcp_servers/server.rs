//! One server of another program's file: which of its keys count, and which are told not to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use crate::Place;
use crate::field::Field;
use crate::high::SourceKind;
use crate::low;
use crate::node::{Key, Kind, Node, shorten};
use crate::resolve::Resolver;
use crate::resolve::source::{Common, names, trust, which};
use crate::units;
use tool::nearest_name;

/// One server, in the words of all programs whose files are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the words are those of the files")]
pub(super) struct Server {
    r#type: Field<String>,
    command: Field<String>,
    args: Field<Vec<Field<low::Text>>>,
    env: Field<BTreeMap<String, Field<low::Text>>>,
    env_file: Field<String>,
    cwd: Field<String>,
    url: Field<String>,
    /// Windsurf's word.
    server_url: Field<String>,
    /// Gemini CLI's word.
    http_url: Field<String>,
    headers: Field<BTreeMap<String, Field<low::Text>>>,
    disabled: Field<bool>,
    enabled: Field<bool>,
    disabled_tools: Field<low::Names>,
    /// Gemini CLI's word.
    exclude_tools: Field<low::Names>,
    /// Gemini CLI's word: these and no others.
    include_tools: Field<low::Names>,
    /// Codex's word for the same.
    enabled_tools: Field<low::Names>,
    timeout: Field<low::Text>,
}

/// The keys of [`Server`].
const KNOWN: &[&str] = &[
    "type",
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "disabled",
    "enabled",
    "disabledTools",
    "excludeTools",
    "includeTools",
    "enabledTools",
    "timeout",
];
/// Those of them that leave something out: a slip in one is no small matter.
const LIMITING: &[&str] =
    &["disabled", "enabled", "disabledTools", "excludeTools", "includeTools", "enabledTools"];
/// Other programs' words for calls that need no approval.
const APPROVING: &[&str] = &["autoApprove", "autoApproved", "alwaysAllow"];
/// The words of our own file, which count there alone.
const OURS: &[&str] = &[
    "trust",
    "trust_annotations",
    "read_only",
    "idempotent",
    "destructive",
    "chain",
    "slow",
    "disabled_tools",
    "credential",
    "durability",
    "startup_timeout",
    "max_message",
    "retry",
];
/// The largest number that is a time in seconds; a larger one is in milliseconds.
const SECONDS: u64 = 3_600;

/// Whether the server is switched off, whatever else stands there.
pub(super) fn is_disabled(node: &Node) -> bool {
    let says = |key: &str, word: &str| {
        let value = node.get(key).map(|node| &node.kind);
        matches!(value, Some(Kind::Scalar(scalar)) if scalar.plain && scalar.text == word)
    };
    says("disabled", "true") || says("enabled", "false")
}

impl Server {
    /// The same once its variables are in.
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled.get() == Some(&true) || self.enabled.get() == Some(&false)
    }
}

impl Resolver<'_> {
    /// Settings of MCP servers at a source that is none are told: they would be taken to hold.
    pub(in crate::resolve) fn only_mcp(&self, low: &low::Source, kind: &SourceKind, place: Place) {
        let is_mcp = matches!(kind, SourceKind::McpCommand(_) | SourceKind::McpUrl { .. });
        for (key, is_misplaced) in [
            ("trust_annotations", !is_mcp && !low.trust_annotations.is_absent()),
            ("destructive", !is_mcp && !low.destructive.is_absent()),
            ("disabled_tools", !is_mcp && !low.disabled_tools.is_absent()),
            ("startup_timeout", !is_mcp && !low.startup_timeout.is_absent()),
            ("max_message", !is_mcp && !low.max_message.is_absent()),
            ("servers", !low.servers.is_absent()),
        ] {
            if is_misplaced {
                let of = if key == "servers" { "`mcp_servers`" } else { "an MCP server" };
                self.sink.tell(place, format!("`{key}` is a setting of {of}"), "remove it");
            }
        }
    }

    /// How it is reached, as our own file writes it.
    pub(super) fn reached(&self, server: Server, key: &Key) -> low::Mcp {
        let Server { command, args, env, cwd, headers, url, server_url, http_url, .. } = server;
        let mut addresses = [("url", url), ("serverUrl", server_url), ("httpUrl", http_url)]
            .into_iter()
            .filter(|(_, field)| !field.is_absent());
        let (first, second) = (addresses.next(), addresses.next());
        if let (Some((one, _)), Some((other, _))) = (&first, &second) {
            let message =
                format!("an MCP server has one address, and here are `{one}` and `{other}`");
            self.sink.tell(key.place, message, "remove one of them");
        }
        let url = first.map(|(_, field)| field).unwrap_or_default();
        low::Mcp { command, args, env, cwd, url, headers, ..low::Mcp::default() }
    }

    /// What holds for all servers, with the file's words on this one.
    pub(super) fn of_server(&self, server: &Server, common: &Common) -> Common {
        let mut own = common.clone();
        for field in [&server.disabled_tools, &server.exclude_tools] {
            own.mcp_tools.disabled.extend(names(field));
        }
        for field in [&server.include_tools, &server.enabled_tools] {
            if field.is_absent() {
                continue;
            }
            let only = names(field);
            let both = |all: BTreeSet<String>| all.intersection(&only).cloned().collect();
            own.mcp_tools.enabled = Some(own.mcp_tools.enabled.map_or(only.clone(), both));
        }
        own.timeout = self.foreign_timeout(&server.timeout).or(own.timeout);
        own
    }

    /// A number of seconds or of milliseconds, as the programs differ in it; or a time with its unit.
    fn foreign_timeout(&self, field: &Field<low::Text>) -> Option<Duration> {
        let (text, place) = field.given()?;
        let text = match text.0.parse::<u64>() {
            Ok(number @ 0..=SECONDS) => format!("{number}s"),
            Ok(number) => format!("{number}ms"),
            Err(_) => text.0.clone(),
        };
        let told = |advice: String| {
            let message = format!("the timeout `{}` is not used", shorten(&text));
            self.sink.note(place, message, &advice);
        };
        units::duration(&text).map_err(told).ok()
    }

    /// `base` with the operator's words on one server.
    pub(super) fn over(&self, base: &Common, said: &low::ServerSettings) -> Common {
        let mut own = base.clone();
        if let Some(slow) = said.slow.get() {
            own.slow = *slow;
        }
        if let Some(word) = said.trust.get() {
            own.trust = Some(trust(*word));
        }
        if let Some(trusts) = said.trust_annotations.get() {
            own.mcp_tools.trust_annotations = *trusts;
        }
        if !said.destructive.is_absent() {
            own.mcp_tools.destructive = Some(which(&said.destructive));
        }
        own.mcp_tools.disabled.extend(names(&said.disabled_tools));
        for (tools, field) in [
            (&mut own.read_only, &said.read_only),
            (&mut own.idempotent, &said.idempotent),
            (&mut own.chain, &said.chain),
        ] {
            if !field.is_absent() {
                *tools = which(field);
            }
        }
        own.timeout = self.call_timeout(&said.timeout).or(own.timeout);
        own.startup_timeout = self.startup_timeout(&said.startup_timeout).or(own.startup_timeout);
        own.max_message = self.max_message(&said.max_message).or(own.max_message);
        own
    }

    /// What the other program would do and this one does not is told, never left out in silence.
    pub(super) fn unused(&self, node: &Node) {
        let Kind::Map(entries) = &node.kind else { return };
        let is_empty = |node: &Node| match &node.kind {
            Kind::Null => true,
            Kind::List(all) => all.is_empty(),
            _ => false,
        };
        let unused =
            |(key, node): &&(Key, Node)| !KNOWN.contains(&key.text.as_str()) && !is_empty(node);
        entries.iter().filter(unused).for_each(|(key, _)| self.unused_key(key));
    }

    fn unused_key(&self, key: &Key) {
        let (word, shown) = (key.text.as_str(), shorten(&key.text));
        if APPROVING.contains(&word) {
            let message = format!("`{shown}` approves nothing here");
            let fix = "which calls need an approval is for `policy` in the configuration to say";
            return self.sink.note(key.place, message, fix);
        }
        if OURS.contains(&word) {
            let message = format!("`{shown}` is not read from this file");
            let fix = "write it in the configuration: `servers: { NAME: … }` beside `mcp_servers`";
            return self.sink.note(key.place, message, fix);
        }
        let message = format!("unknown key `{shown}`");
        match nearest_name(word, KNOWN.iter().copied()) {
            Some(near) if LIMITING.contains(&near) => {
                self.sink.tell_hidden(key.place, message, &format!("did you mean `{near}`?"));
            }
            Some(near) => {
                self.sink.note(
                    key.place,
                    format!("{message}, which is not used"),
                    &format!("did you mean `{near}`?"),
                );
            }
            None => self.sink.note(key.place, format!("{message}, which is not used"), ""),
        }
    }

    /// What keeps a server from being reached as its program would.
    pub(super) fn unsupported(&self, server: &Server, key: &Key) {
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
