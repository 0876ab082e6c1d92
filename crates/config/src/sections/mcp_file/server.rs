//! One server of another program's file: which of its keys count, and which are told not to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tool::nearest_name;
use url::Url;

use super::super::address::url;
use super::super::mcp::McpKeys;
use super::super::source::SourceSettings;
use super::super::tools::names;
use crate::node::{Key, Kind, Node, shorten};
use crate::parsers::{list, map, path, plain_text, text, truth};
use crate::section::{Keys, section};
use crate::units;
use crate::value::{ConfigValue, ValueParser as _};

section! {
    /// One server, in the words of all programs whose files are read.
    pub(super) struct ForeignServer as "ForeignServer" {
        /// How it is reached.
        pub(super) transport as "type": Option<String> = text();
        /// The program.
        command: Option<String> = text();
        /// Its arguments.
        args: Option<Vec<String>> = list(plain_text());
        /// Variables it gets.
        env: Option<BTreeMap<String, String>> = map(plain_text());
        /// A file with variables, which is not read.
        _env_file as "envFile": Option<String> = text().then(env_file);
        /// Where it runs.
        cwd: Option<PathBuf> = path();
        /// Its address.
        url: Option<Url> = text().convert_text(url);
        /// Windsurf's word.
        server_url as "serverUrl": Option<Url> = text().convert_text(url);
        /// Gemini CLI's word.
        http_url as "httpUrl": Option<Url> = text().convert_text(url);
        /// Headers sent with each request.
        headers: Option<BTreeMap<String, String>> = map(plain_text());
        /// Whether it is switched off.
        disabled: Option<bool> = truth();
        /// Whether it is switched on.
        enabled: Option<bool> = truth();
        /// Tools that are not offered.
        disabled_tools as "disabledTools": BTreeSet<String> = names();
        /// Gemini CLI's word.
        exclude_tools as "excludeTools": BTreeSet<String> = names();
        /// Gemini CLI's word: these and no others.
        include_tools as "includeTools": Option<BTreeSet<String>> = names();
        /// Codex's word for the same.
        enabled_tools as "enabledTools": Option<BTreeSet<String>> = names();
        /// Time for one call.
        timeout: Option<Duration> = plain_text().then(timeout);
    }
}

/// Keys that leave something out: a slip in one is no small matter.
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

impl ForeignServer {
    /// The same once its variables are in.
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled == Some(true) || self.enabled == Some(false)
    }

    /// How it is reached, as our own file writes it.
    pub(super) fn reached(self, value: ConfigValue<'_>, key: &Key) -> McpKeys {
        if let [one, other, ..] = value.which_of(&["url", "serverUrl", "httpUrl"]).as_slice() {
            let message =
                format!("an MCP server has one address, and here are `{one}` and `{other}`");
            value.fault_at(key.place, message, "remove one of them");
        }
        let Self { command, args, env, cwd, headers, .. } = self;
        let url = self.url.or(self.server_url).or(self.http_url);
        McpKeys { command, args, env, cwd, url, headers, ..McpKeys::default() }
    }

    /// What holds for all servers, with the file's words on this one.
    pub(super) fn settings(&self, mut all: SourceSettings) -> SourceSettings {
        let disabled = self.disabled_tools.union(&self.exclude_tools).cloned();
        all.trusted.disabled_tools.extend(disabled);
        for only in [&self.include_tools, &self.enabled_tools].into_iter().flatten() {
            let both = |all: BTreeSet<String>| all.intersection(only).cloned().collect();
            all.enabled_tools = Some(all.enabled_tools.map_or_else(|| only.clone(), both));
        }
        all.calls.timeout = self.timeout.or(all.calls.timeout);
        all
    }
}

/// A number of seconds or of milliseconds, as the programs differ in it; or a time with its unit.
fn timeout(value: ConfigValue<'_>, text: String) -> Option<Duration> {
    let text = match text.parse::<u64>() {
        Ok(number @ 0..=SECONDS) => format!("{number}s"),
        Ok(number) => format!("{number}ms"),
        Err(_) => text,
    };
    let note = |advice: String| {
        let message = format!("the timeout `{}` is not used", shorten(&text));
        value.file.sink.note(value.node.place, message, &advice);
    };
    units::duration(&text).map_err(note).ok()
}

fn env_file(value: ConfigValue<'_>, _: String) -> Option<String> {
    value.fault("`envFile` is not read", "put the variables under `env`");
    None
}

/// What keeps a server from being reached as its program would.
pub(super) fn report_transport(value: ConfigValue<'_>, key: &Key, transport: &str) {
    let fault =
        |message: String, fix: &str| value.member("type").unwrap_or(value).fault(message, fix);
    match transport {
        "stdio" | "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {}
        "sse" => {
            let message = format!("`{}` speaks the old SSE transport", shorten(&key.text));
            fault(message, "use the server's streamable HTTP address, with the type `http`");
        }
        other => {
            fault(format!("the type `{}` is not known", shorten(other)), "use `stdio` or `http`");
        }
    }
}

/// What the other program would do and this one does not is told, never left out in silence.
pub(super) fn report_unused(keys: &Keys<'_>) {
    let is_empty = |node: &Node| match &node.kind {
        Kind::Null => true,
        Kind::List(all) => all.is_empty(),
        _ => false,
    };
    let known = keys.known();
    for (key, value) in keys.unknown().filter(|(_, value)| !is_empty(value.node)) {
        report_unused_key(key, value, &known);
    }
}

fn report_unused_key(key: &Key, value: ConfigValue<'_>, known: &[&str]) {
    let (word, shown) = (key.text.as_str(), shorten(&key.text));
    let note = |message: String, fix: &str| value.file.sink.note(key.place, message, fix);
    if APPROVING.contains(&word) {
        let fix = "which calls need an approval is for `policy` in the configuration to say";
        return note(format!("`{shown}` approves nothing here"), fix);
    }
    if OURS.contains(&word) {
        let fix = "write it in the configuration: `servers: { NAME: … }` beside `mcp_servers`";
        return note(format!("`{shown}` is not read from this file"), fix);
    }
    let message = format!("unknown key `{shown}`");
    match nearest_name(word, known.iter().copied()) {
        Some(near) if LIMITING.contains(&near) => {
            value.file.sink.tell_hidden(key.place, message, &format!("did you mean `{near}`?"));
        }
        Some(near) => {
            note(format!("{message}, which is not used"), &format!("did you mean `{near}`?"));
        }
        None => note(format!("{message}, which is not used"), ""),
    }
}
