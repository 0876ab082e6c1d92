//! An MCP server: a command that is started, or a URL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tool::Secret;
use url::Url;

use super::http_url::{http_url, is_https_or_loopback};
use super::source::SourceKind;
use super::upstream_auth::{CallerSecretsConfig, OAuthConfig, check_caller_secrets, check_oauth};
use crate::ConfigPosition;
use crate::config_display::RedactedJson;
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{section, subsection};
use crate::value_parsers::{list, mapping, path, scalar_text, text};
use crate::yaml_tree::shorten_text;

/// Headers that only the HTTP client sets.
const RESERVED_HEADERS: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade"];

section! {
    /// An MCP server: either `command`, which Toolkeep starts, or `url`, which it connects to.
    #[derive(Default)]
    pub(super) struct McpKeys as "Mcp" with { "oneOf": [{ "required": ["command"] }, { "required": ["url"] }] } {
        /// The program: a path relative to this file, or a name to find in `PATH`.
        pub(super) command: Option<String> = text();
        /// The arguments of the program.
        pub(super) args: Option<Vec<String>> = list(scalar_text());
        /// Environment variables of the program, besides a few safe ones such as `PATH`.
        pub(super) env: Option<BTreeMap<String, String>> = mapping(scalar_text());
        /// The working directory of the program. Default: the folder of this file.
        pub(super) cwd: Option<PathBuf> = path();
        /// The URL of the server.
        pub(super) url: Option<Url> = text().convert_text(http_url);
        /// Headers of each request.
        pub(super) headers: Option<BTreeMap<String, String>> = mapping(scalar_text());
        /// OAuth for this server. Default: if the server requires a token, a person logs in with `toolkeep source login
        /// NAME`.
        pub(super) oauth: Option<OAuthConfig> = subsection::<OAuthConfig>().map(check_oauth);
        /// Secrets of the callers for this server. A call by a caller without a secret fails.
        pub(super) per_caller: Option<CallerSecretsConfig> =
            subsection::<CallerSecretsConfig>().map(check_caller_secrets);
    }
}

/// The command that starts an MCP server.
#[derive(Debug, Clone, Hash)]
pub struct McpCommandConfig {
    /// The program: a path, or a name to find in `PATH`.
    pub command: String,
    /// The arguments, which may contain secrets.
    pub args: Vec<Secret>,
    /// The environment variables of the program.
    pub env: Vec<(String, Secret)>,
    /// The working directory, absolute.
    pub working_dir: PathBuf,
}

impl RedactedJson for McpCommandConfig {
    fn to_redacted_json(&self) -> Value {
        let Self { command, args, env, working_dir } = self;
        json!({ "command": command, "args": args.to_redacted_json(), "env": env.to_redacted_json(), "cwd": working_dir.to_redacted_json() })
    }
}

/// Resolves an MCP server. Errors of several keys are reported at `position`.
pub(super) fn resolve_mcp_server(
    value: ConfigValue<'_>,
    position: ConfigPosition,
    keys: McpKeys,
) -> Option<SourceKind> {
    match (&keys.command, &keys.url) {
        (Some(_), None) => command_server(value, position, keys),
        (None, Some(_)) => url_server(value, position, keys),
        (Some(_), Some(_)) => {
            let message = "an MCP server is either a `command` or a `url`";
            value.report_at(position, message, "remove one of them");
            None
        }
        (None, None) => {
            if value.present_keys(&["command", "url", "serverUrl", "httpUrl"]).is_empty() {
                let help = "write `command: PROGRAM` or `url: URL`";
                value.report_at(position, "the MCP server has neither `command` nor `url`", help);
            }
            None
        }
    }
}

fn url_server(
    value: ConfigValue<'_>,
    position: ConfigPosition,
    keys: McpKeys,
) -> Option<SourceKind> {
    let McpKeys { args, env, cwd, url, headers, oauth, per_caller, .. } = keys;
    for (key, is_present) in
        [("args", args.is_some()), ("env", env.is_some()), ("cwd", cwd.is_some())]
    {
        if is_present {
            let message = format!("`{key}` is only for a `command`, and this is a `url`");
            value.report_at(position, message, "remove it");
        }
    }
    let (url, headers) = (url?, parse_headers(value, position, headers.unwrap_or_default()));
    let sends = |header: &http::HeaderName| headers.iter().any(|(name, _)| name == header);
    if let Some(oauth) = value.find_member("oauth").filter(|_| oauth.is_some()) {
        if sends(&http::header::AUTHORIZATION) {
            let message = "`oauth` and the header `authorization` exclude each other";
            oauth.report_redacted(message, "remove one of them");
        }
        if !is_https_or_loopback(&url) {
            let message = "tokens are only sent over https, or to this machine";
            oauth.report_redacted(message, "write the `url` with `https://`");
        }
    }
    if let Some((per_caller, CallerSecretsConfig { header, .. })) =
        value.find_member("per_caller").zip(per_caller.as_ref())
    {
        if value.has_member("oauth") {
            let message = "`oauth` and `per_caller` exclude each other";
            per_caller.report_redacted(message, "remove one of them");
        }
        if sends(header) {
            let message = format!("the header `{header}` is set in `headers` and in `per_caller`");
            per_caller.report_redacted(message, "remove it from `headers`");
        }
    }
    let (oauth, per_caller) = (oauth.map(Box::new), per_caller.map(Box::new));
    Some(SourceKind::McpUrl { url, headers, oauth, per_caller })
}

fn command_server(
    value: ConfigValue<'_>,
    position: ConfigPosition,
    keys: McpKeys,
) -> Option<SourceKind> {
    if keys.headers.is_some() {
        value.report_at(
            position,
            "`headers` is only for a `url`, and this is a `command`",
            "remove it",
        );
    }
    for (key, is_present) in
        [("oauth", keys.oauth.is_some()), ("per_caller", keys.per_caller.is_some())]
    {
        if is_present {
            let message = format!("`{key}` is only for a `url`, and this is a `command`");
            value.report_at(position, message, "pass secrets to a command in `env`");
        }
    }
    let (command, args) = (keys.command?, keys.args.unwrap_or_default());
    let env = keys.env.unwrap_or_default();
    let has_nul = |text: &String| text.contains('\0');
    let reject = |message: &str, help: &str| {
        value.file.errors.report_redacted(position, message, help);
        None
    };
    if has_nul(&command) || args.iter().any(has_nul) || env.values().any(has_nul) {
        return reject("a command contains the character U+0000", "remove it");
    }
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        let message = format!("invalid name of an environment variable `{}`", shorten_text(name));
        return reject(&message, "use letters, digits and `_`");
    }
    // A name without a slash is found in PATH. A path is relative to the file, not to the current directory.
    let command = if command.contains('/') {
        value.file.resolve_path(&command).to_string_lossy().into_owned()
    } else {
        command
    };
    let working_dir = keys.cwd.unwrap_or_else(|| value.file.base_dir.to_owned());
    let args = args.into_iter().map(Secret::new).collect();
    let env = env.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    Some(SourceKind::McpCommand(McpCommandConfig { command, args, env, working_dir }))
}

fn parse_headers(
    value: ConfigValue<'_>,
    position: ConfigPosition,
    headers: BTreeMap<String, String>,
) -> Vec<(http::HeaderName, Secret)> {
    let header = |(name, text): (String, String)| {
        let is_valid = http::HeaderValue::try_from(&text).is_ok();
        let header = parse_header_name(&name).filter(|_| is_valid);
        if header.is_none() {
            let name = shorten_text(&name);
            let message =
                format!("the header `{name}` cannot be sent: its name or its value is not allowed");
            value.file.errors.report_redacted(
                position,
                message,
                "use visible ASCII characters, and no reserved header",
            );
        }
        Some((header?, Secret::new(text)))
    };
    headers.into_iter().filter_map(header).collect()
}

/// Parses the name of a header that the operator may set.
pub(super) fn parse_header_name(name: &str) -> Option<http::HeaderName> {
    let header = http::HeaderName::try_from(name).ok();
    header.filter(|name| !RESERVED_HEADERS.contains(&name.as_str()))
}
