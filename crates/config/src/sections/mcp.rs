//! How an MCP server is reached.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tool::Secret;
use url::Url;

use super::address::{is_safe, url};
use super::oauth::{OAuthConfig, PerCallerConfig, oauth, per_caller};
use super::source::SourceKind;
use crate::Place;
use crate::node::shorten;
use crate::parsers::{list, map, path, plain_text, text};
use crate::section::{section, subsection};
use crate::shown::Show;
use crate::value::{ConfigValue, ValueParser as _};

/// Headers that the HTTP client sets itself.
const OWN_HEADERS: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade"];

section! {
    /// An MCP server: either `command`, which is started, or `url`, which is dialled.
    #[derive(Default)]
    pub(super) struct McpKeys as "Mcp" with { "oneOf": [{ "required": ["command"] }, { "required": ["url"] }] } {
        /// The program.
        pub(super) command: Option<String> = text();
        /// Its arguments.
        pub(super) args: Option<Vec<String>> = list(plain_text());
        /// Variables it gets beside a few harmless ones.
        pub(super) env: Option<BTreeMap<String, String>> = map(plain_text());
        /// Where it runs. Default: the folder of this file.
        pub(super) cwd: Option<PathBuf> = path();
        /// Its address.
        pub(super) url: Option<Url> = text().convert_text(url);
        /// Headers sent with each request.
        pub(super) headers: Option<BTreeMap<String, String>> = map(plain_text());
        /// How tokens for it are asked for. Where nothing is said and it wants some, a person logs in:
        /// `toolkeep source login NAME`.
        pub(super) oauth: Option<OAuthConfig> = subsection::<OAuthConfig>().map(oauth);
        /// A secret of its own for each caller. A caller without one gets an error.
        pub(super) per_caller: Option<PerCallerConfig> = subsection::<PerCallerConfig>().map(per_caller);
    }
}

/// How an MCP server is started.
#[derive(Debug, Clone, Hash)]
pub struct McpCommand {
    /// The program: a path, or a name to be found in `PATH`.
    pub command: String,
    /// Its arguments. May hold secrets: other programs' files put them there.
    pub args: Vec<Secret>,
    /// Variables it gets.
    pub env: Vec<(String, Secret)>,
    /// Where it runs, absolute.
    pub cwd: PathBuf,
}

impl Show for McpCommand {
    fn show(&self) -> Value {
        let Self { command, args, env, cwd } = self;
        json!({ "command": command, "args": args.show(), "env": env.show(), "cwd": cwd.show() })
    }
}

/// An MCP server. Faults of more than one key are at `place`.
pub(super) fn mcp(value: ConfigValue<'_>, place: Place, keys: McpKeys) -> Option<SourceKind> {
    match (&keys.command, &keys.url) {
        (Some(_), None) => command(value, place, keys),
        (None, Some(_)) => dialled(value, place, keys),
        (Some(_), Some(_)) => {
            let message = "an MCP server is either a `command` or a `url`";
            value.fault_at(place, message, "remove one of them");
            None
        }
        (None, None) => {
            if value.which_of(&["command", "url", "serverUrl", "httpUrl"]).is_empty() {
                let fix = "say `command: PROGRAM` or `url: ADDRESS`";
                value.fault_at(place, "the MCP server has neither `command` nor `url`", fix);
            }
            None
        }
    }
}

fn dialled(value: ConfigValue<'_>, place: Place, keys: McpKeys) -> Option<SourceKind> {
    let McpKeys { args, env, cwd, url, headers, oauth, per_caller, .. } = keys;
    for (key, is_there) in
        [("args", args.is_some()), ("env", env.is_some()), ("cwd", cwd.is_some())]
    {
        if is_there {
            let message = format!("`{key}` belongs to a `command`, and this is a `url`");
            value.fault_at(place, message, "");
        }
    }
    let (url, headers) = (url?, headers_of(value, place, headers.unwrap_or_default()));
    let sends = |header: &http::HeaderName| headers.iter().any(|(name, _)| name == header);
    if let Some(oauth) = value.member("oauth").filter(|_| oauth.is_some()) {
        if sends(&http::header::AUTHORIZATION) {
            let message = "the header `authorization` is set, so no token can be sent";
            oauth.fault_hidden(message, "remove one of them");
        }
        if !is_safe(&url) {
            let message = "tokens go over https only, but for this machine itself";
            oauth.fault_hidden(message, "write the `url` with `https://`");
        }
    }
    if let Some((at, PerCallerConfig { header, .. })) =
        value.member("per_caller").zip(per_caller.as_ref())
    {
        if value.has("oauth") {
            let message = "a source has one credential, and here are `oauth` and `per_caller`";
            at.fault_hidden(message, "remove one of them");
        }
        if sends(header) {
            let message = format!("the header `{header}` is set for all callers too");
            at.fault_hidden(message, "take it out of `headers`");
        }
    }
    let (oauth, per_caller) = (oauth.map(Box::new), per_caller.map(Box::new));
    Some(SourceKind::McpUrl { url, headers, oauth, per_caller })
}

fn command(value: ConfigValue<'_>, place: Place, keys: McpKeys) -> Option<SourceKind> {
    if keys.headers.is_some() {
        value.fault_at(place, "`headers` belong to a `url`, and this is a `command`", "");
    }
    for (key, is_there) in
        [("oauth", keys.oauth.is_some()), ("per_caller", keys.per_caller.is_some())]
    {
        if is_there {
            let message = format!("`{key}` belongs to a `url`, and this is a `command`");
            value.fault_at(place, message, "give a command its secrets by `env`");
        }
    }
    let (command, args) = (keys.command?, keys.args.unwrap_or_default());
    let env = keys.env.unwrap_or_default();
    let nul = |text: &String| text.contains('\0');
    let hidden = |message: &str| value.file.sink.tell_hidden(place, message, "");
    if nul(&command) || args.iter().any(nul) || env.values().any(nul) {
        hidden("a command cannot hold the character U+0000");
        return None;
    }
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        hidden(&format!("`{}` is no name of an environment variable", shorten(name)));
        return None;
    }
    // A bare name is found in PATH; one with a slash stands relative to the file, not to where
    // the server happened to be started.
    let command = if command.contains('/') {
        value.file.path(&command).to_string_lossy().into_owned()
    } else {
        command
    };
    let cwd = keys.cwd.unwrap_or_else(|| value.file.base.to_owned());
    let args = args.into_iter().map(Secret::new).collect();
    let env = env.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    Some(SourceKind::McpCommand(McpCommand { command, args, env, cwd }))
}

fn headers_of(
    value: ConfigValue<'_>,
    place: Place,
    headers: BTreeMap<String, String>,
) -> Vec<(http::HeaderName, Secret)> {
    let header = |(name, text): (String, String)| {
        let fits = http::HeaderValue::try_from(&text).is_ok();
        let named = header_name(&name).filter(|_| fits);
        if named.is_none() {
            let name = shorten(&name);
            let message =
                format!("the header `{name}` cannot be sent: its name or its value is not allowed");
            value.file.sink.tell_hidden(place, message, "");
        }
        Some((named?, Secret::new(text)))
    };
    headers.into_iter().filter_map(header).collect()
}

/// A header that the operator may set.
pub(super) fn header_name(name: &str) -> Option<http::HeaderName> {
    let named = http::HeaderName::try_from(name).ok();
    named.filter(|name| !OWN_HEADERS.contains(&name.as_str()))
}
