//! One server of another program's file: the keys that Toolkeep reads, and notes about those it ignores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tool::find_nearest_name;
use url::Url;

use super::super::http_url::http_url;
use super::super::mcp_server::McpKeys;
use super::super::source::SourceSettings;
use super::super::tool_selection::name_list;
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{SectionKeys, section};
use crate::unit_parser;
use crate::value_parsers::{boolean, list, mapping, path, scalar_text, text};
use crate::yaml_tree::{NodeKind, YamlKey, YamlNode, shorten_text};

section! {
    /// A server in another program's file, with the keys of all supported programs.
    pub(super) struct ForeignServer as "ForeignServer" {
        /// The transport: `stdio` or `http`.
        pub(super) transport as "type": Option<String> = text();
        /// The program to start.
        command: Option<String> = text();
        /// The arguments of the program.
        args: Option<Vec<String>> = list(scalar_text());
        /// Environment variables of the program.
        env: Option<BTreeMap<String, String>> = mapping(scalar_text());
        /// A file of environment variables, which is an error.
        _env_file as "envFile": Option<String> = text().and_then(reject_env_file);
        /// The working directory of the program.
        cwd: Option<PathBuf> = path();
        /// The URL of the server.
        url: Option<Url> = text().convert_text(http_url);
        /// The URL, in Windsurf's files.
        server_url as "serverUrl": Option<Url> = text().convert_text(http_url);
        /// The URL, in Gemini CLI's files.
        http_url as "httpUrl": Option<Url> = text().convert_text(http_url);
        /// Headers of each request.
        headers: Option<BTreeMap<String, String>> = mapping(scalar_text());
        /// Whether the server is disabled.
        disabled: Option<bool> = boolean();
        /// Whether the server is enabled.
        enabled: Option<bool> = boolean();
        /// Disabled tools, in Windsurf's files.
        disabled_tools as "disabledTools": BTreeSet<String> = name_list();
        /// Disabled tools, in Gemini CLI's files.
        exclude_tools as "excludeTools": BTreeSet<String> = name_list();
        /// The only enabled tools, in Gemini CLI's files.
        include_tools as "includeTools": Option<BTreeSet<String>> = name_list();
        /// The only enabled tools, in Codex's files.
        enabled_tools as "enabledTools": Option<BTreeSet<String>> = name_list();
        /// The timeout of one call.
        timeout: Option<Duration> = scalar_text().and_then(parse_timeout);
    }
}

/// Keys that disable something. A typo in one is an error, not a note.
const RESTRICTING_KEYS: &[&str] =
    &["disabled", "enabled", "disabledTools", "excludeTools", "includeTools", "enabledTools"];
/// Other programs' keys for calls without an approval.
const APPROVAL_KEYS: &[&str] = &["autoApprove", "autoApproved", "alwaysAllow"];
/// Keys that only the configuration can set.
const CONFIG_KEYS: &[&str] = &[
    "trust",
    "trust_annotations",
    "read_only",
    "idempotent",
    "destructive",
    "chain",
    "slow",
    "disabled_tools",
    "extensions",
    "credential",
    "durability",
    "defer",
    "startup_timeout",
    "start",
    "idle_stop",
    "max_message",
    "retry",
];
/// The largest timeout in seconds. A larger number is in milliseconds.
const MAX_SECONDS: u64 = 3_600;

/// Whether the server is disabled, even if its other keys are invalid.
pub(super) fn is_disabled(node: &YamlNode) -> bool {
    let has_keyword = |key: &str, word: &str| {
        let value = node.find_value(key).map(|node| &node.kind);
        matches!(value, Some(NodeKind::Scalar(scalar)) if scalar.is_plain && scalar.text == word)
    };
    has_keyword("disabled", "true") || has_keyword("enabled", "false")
}

impl ForeignServer {
    /// Whether the server is disabled, after variable expansion.
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled == Some(true) || self.enabled == Some(false)
    }

    /// Converts the connection to the keys of the configuration.
    pub(super) fn into_mcp_keys(self, value: ConfigValue<'_>, key: &YamlKey) -> McpKeys {
        if let [first, second, ..] = value.present_keys(&["url", "serverUrl", "httpUrl"]).as_slice()
        {
            let message = format!("an MCP server has one URL; found `{first}` and `{second}`");
            value.report_at(key.position, message, "remove one of them");
        }
        let Self { command, args, env, cwd, headers, .. } = self;
        let url = self.url.or(self.server_url).or(self.http_url);
        McpKeys { command, args, env, cwd, url, headers, ..McpKeys::default() }
    }

    /// Applies the keys of this server to the settings of all servers.
    pub(super) fn apply_to(&self, mut settings: SourceSettings) -> SourceSettings {
        let disabled = self.disabled_tools.union(&self.exclude_tools).cloned();
        settings.trust.disabled_tools.extend(disabled);
        for names in [&self.include_tools, &self.enabled_tools].into_iter().flatten() {
            let intersect =
                |enabled: BTreeSet<String>| enabled.intersection(names).cloned().collect();
            let enabled = settings.enabled_tools.map_or_else(|| names.clone(), intersect);
            settings.enabled_tools = Some(enabled);
        }
        settings.calls.timeout = self.timeout.or(settings.calls.timeout);
        settings
    }
}

/// Parses a number of seconds or milliseconds, which the programs use differently, or a duration with its unit.
fn parse_timeout(value: ConfigValue<'_>, text: String) -> Option<Duration> {
    let text = match text.parse::<u64>() {
        Ok(number @ 0..=MAX_SECONDS) => format!("{number}s"),
        Ok(number) => format!("{number}ms"),
        Err(_) => text,
    };
    let note = |help: String| {
        let message = format!("the timeout `{}` is ignored", shorten_text(&text));
        value.file.errors.report_note(value.node.position, message, &help);
    };
    unit_parser::parse_call_timeout(&text).map_err(note).ok()
}

fn reject_env_file(value: ConfigValue<'_>, _: String) -> Option<String> {
    value.report("`envFile` is not supported", "put the variables under `env`");
    None
}

/// Reports a transport that Toolkeep does not support.
pub(super) fn report_transport(value: ConfigValue<'_>, key: &YamlKey, transport: &str) {
    let report = |message: String, help: &str| {
        value.find_member("type").unwrap_or(value).report(message, help);
    };
    match transport {
        "stdio" | "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {}
        "sse" => {
            let message =
                format!("`{}` uses the deprecated SSE transport", shorten_text(&key.text));
            report(message, "use the server's streamable HTTP address, with the type `http`");
        }
        other => {
            report(format!("unknown type `{}`", shorten_text(other)), "use `stdio` or `http`");
        }
    }
}

/// Reports the keys that Toolkeep ignores, since the other program uses them.
pub(super) fn report_unused_keys(keys: &SectionKeys<'_>) {
    let is_empty = |node: &YamlNode| match &node.kind {
        NodeKind::Null => true,
        NodeKind::List(items) => items.is_empty(),
        _ => false,
    };
    let known = keys.known_keys();
    for (key, value) in keys.unknown_keys().filter(|(_, value)| !is_empty(value.node)) {
        report_unused_key(key, value, &known);
    }
}

fn report_unused_key(key: &YamlKey, value: ConfigValue<'_>, known: &[&str]) {
    let (name, text) = (key.text.as_str(), shorten_text(&key.text));
    let note =
        |message: String, help: &str| value.file.errors.report_note(key.position, message, help);
    if APPROVAL_KEYS.contains(&name) {
        let help = "set which calls need an approval in the configuration: `policy`";
        return note(format!("`{text}` is ignored"), help);
    }
    if CONFIG_KEYS.contains(&name) {
        let help = "write it in the configuration: `servers: { NAME: … }` next to `mcp_servers`";
        return note(format!("`{text}` is ignored in this file"), help);
    }
    let message = format!("unknown key `{text}`");
    match find_nearest_name(name, known.iter().copied()) {
        Some(nearest) if RESTRICTING_KEYS.contains(&nearest) => {
            value.file.errors.report_redacted(
                key.position,
                message,
                &format!("did you mean `{nearest}`?"),
            );
        }
        Some(nearest) => {
            note(format!("{message} is ignored"), &format!("did you mean `{nearest}`?"));
        }
        None => note(format!("{message} is ignored"), ""),
    }
}
