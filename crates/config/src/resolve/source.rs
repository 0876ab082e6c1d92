//! One source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tool::{Durability, Secret, SourceName, Trust};
use url::Url;

use super::Resolver;
use super::mcp_bounds::{MESSAGE, default_startup};
use super::mcp_servers::ServersEntry;
use crate::field::Field;
use crate::high::{McpCommand, McpTools, SourceConfig, SourceKind, Tools, timeout};
use crate::low::{self, DurabilityWord, RetryWord, Text, TrustWord, Which};
use crate::node::shorten;
use crate::units;
use crate::{Place, ReadFile};

/// Headers that the HTTP client sets itself.
const OWN_HEADERS: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade"];

/// What is said of a source beside what it is.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) slow: bool,
    pub(super) trust: Option<Trust>,
    pub(super) credential: Option<Secret>,
    pub(super) durability: Option<Durability>,
    pub(super) read_only: Tools,
    pub(super) idempotent: Tools,
    pub(super) chain: Tools,
    pub(super) timeout: Option<Duration>,
    pub(super) startup_timeout: Option<Duration>,
    pub(super) max_message: Option<usize>,
    pub(super) retry: bool,
    pub(super) mcp_tools: McpTools,
}

impl Common {
    pub(super) fn with(
        self,
        name: SourceName,
        kind: SourceKind,
        written: (PathBuf, Place),
    ) -> SourceConfig {
        let trust = self.trust.unwrap_or(match kind {
            SourceKind::ToolFile(_) | SourceKind::Module(_) => Trust::Full,
            SourceKind::McpCommand(_) | SourceKind::McpUrl { .. } => Trust::FirstUse,
        });
        let startup_timeout = self.startup_timeout.unwrap_or(default_startup(&kind));
        SourceConfig {
            name,
            written,
            kind,
            slow: self.slow,
            trust,
            credential: self.credential,
            durability: self.durability,
            read_only: self.read_only,
            idempotent: self.idempotent,
            chain: self.chain,
            timeout: timeout(self.timeout, self.slow),
            startup_timeout,
            max_message: self.max_message.unwrap_or(MESSAGE),
            retry: self.retry,
            mcp_tools: self.mcp_tools,
        }
    }
}

impl Resolver<'_> {
    /// What one entry stands for: one source, several for `mcp_servers`, none where it is faulty.
    pub(super) fn source(
        &self,
        low: &low::Source,
        sound: bool,
        place: Place,
        included: &mut Vec<ReadFile>,
    ) -> Vec<SourceConfig> {
        let before = self.sink.count();
        let common = self.common(low);
        let sources = self.by_origin(low, &common, place, included);
        // An entry is used whole or not at all; `mcp_servers` tells of its file's faults itself.
        let whole = sound && (self.sink.count() == before || low.mcp_servers.get().is_some());
        if whole { sources } else { Vec::new() }
    }

    fn by_origin(
        &self,
        low: &low::Source,
        common: &Common,
        place: Place,
        included: &mut Vec<ReadFile>,
    ) -> Vec<SourceConfig> {
        let given = [
            ("tools", low.tools.is_absent()),
            ("module", low.module.is_absent()),
            ("mcp", low.mcp.is_absent()),
            ("mcp_servers", low.mcp_servers.is_absent()),
        ];
        let given: Vec<_> =
            given.iter().filter(|(_, absent)| !absent).map(|(key, _)| *key).collect();
        if let [_, _, ..] = given.as_slice() {
            let message = format!("a source is one thing, and here are {}", given.join(" and "));
            self.sink.tell(place, message, "make a source of each");
            return Vec::new();
        }
        if let Some((path, at)) = low.mcp_servers.given() {
            let entry = ServersEntry { prefix: low.name.get(), common, servers: low.servers.get() };
            return self.mcp_servers((path, at), &entry, included);
        }
        let name = self.name(&low.name, place);
        if given.is_empty() {
            let fix = "say one of `tools: FILE`, `module: URL`, `mcp: {…}` and `mcp_servers: FILE`";
            self.sink.tell(place, "the source does not say where its tools come from", fix);
        }
        let Some((name, kind)) = name.zip(self.kind(low)) else { return Vec::new() };
        if low.credential.get().is_some()
            && !matches!(kind, SourceKind::Module(_) | SourceKind::McpUrl { .. })
        {
            let fix = "give a command its secrets by `env`";
            self.sink.tell_hidden(place, "only what is reached by a URL takes a `credential`", fix);
        }
        if let SourceKind::McpUrl { oauth, per_caller, .. } = &kind
            && (oauth.is_some() || per_caller.is_some())
            && low.credential.get().is_some()
        {
            let message = "a source has one credential, and here are `credential` and another";
            self.sink.tell_hidden(place, message, "remove one of them");
        }
        self.only_mcp(low, &kind, place);
        vec![common.clone().with(name, kind, (self.sink.file.to_owned(), place))]
    }

    fn name(&self, field: &Field<String>, place: Place) -> Option<SourceName> {
        let Some((name, place)) = field.given() else {
            if field.is_absent() {
                self.sink.tell(place, "the source has no name", "add `name: …`");
            }
            return None;
        };
        SourceName::of_operator(name)
            .map_err(|fault| self.sink.tell(place, fault.to_string(), ""))
            .ok()
    }

    fn kind(&self, low: &low::Source) -> Option<SourceKind> {
        if let Some(path) = low.tools.get() {
            return Some(SourceKind::ToolFile(self.path(&path.0)));
        }
        if let Some((url, place)) = low.module.given() {
            return self.url(url, place).map(SourceKind::Module);
        }
        let (mcp, place) = low.mcp.given()?;
        self.mcp(mcp, place)
    }

    fn common(&self, low: &low::Source) -> Common {
        Common {
            slow: low.slow.get().copied().unwrap_or(false),
            trust: low.trust.get().map(|word| trust(*word)),
            credential: low.credential.given().and_then(|(low, place)| self.credential(low, place)),
            durability: low.durability.get().map(|word| match word {
                DurabilityWord::Written => Durability::Written,
                DurabilityWord::Synced => Durability::Synced,
                DurabilityWord::Full => Durability::Full,
            }),
            read_only: which(&low.read_only),
            idempotent: which(&low.idempotent),
            chain: which(&low.chain),
            startup_timeout: self.startup_timeout(&low.startup_timeout),
            max_message: self.max_message(&low.max_message),
            retry: low.retry.get() == Some(&RetryWord::Once),
            timeout: self.call_timeout(&low.timeout),
            mcp_tools: McpTools {
                trust_annotations: low.trust_annotations.get() == Some(&true),
                destructive: low.destructive.get().map(|_| which(&low.destructive)),
                disabled: names(&low.disabled_tools),
                enabled: None,
            },
        }
    }

    /// Time for one call, where it is one.
    pub(super) fn call_timeout(&self, field: &Field<String>) -> Option<Duration> {
        let (text, place) = field.given()?;
        let wrong = |advice: String| {
            let message = format!("`{}` is no time for a call", shorten(text));
            self.sink.tell(place, message, &advice);
        };
        units::duration(text).map_err(wrong).ok()
    }

    fn credential(&self, low: &low::Credential, place: Place) -> Option<Secret> {
        let (token, place) = match (low.bearer.given(), low.bearer_env.given()) {
            (Some(_), Some(_)) => {
                let message = "a credential is either `bearer` or `bearer_env`";
                self.sink.tell_hidden(place, message, "remove one of them");
                return None;
            }
            (Some((token, place)), None) => (token.as_str(), place),
            (None, Some((name, place))) => {
                let Some(token) = self.environment.get(name).filter(|token| !token.is_empty())
                else {
                    let name = shorten(name);
                    let message = format!("the environment variable `{name}` is not set");
                    self.sink.tell_hidden(place, message, "set it to the token");
                    return None;
                };
                (token, place)
            }
            (None, None) => return None,
        };
        if is_token(token) {
            return Some(Secret::new(token));
        }
        let message = "a bearer token has only visible ASCII characters, at most 8192";
        self.sink.tell_hidden(place, message, "");
        None
    }

    /// An address of HTTP.
    pub(super) fn url(&self, text: &str, place: Place) -> Option<Url> {
        match http_url(text) {
            Ok(url) => Some(url),
            Err(message) if message == WITH_PASSWORD => {
                let fix = "use `credential: { bearer: ${VARIABLE} }`";
                self.sink.tell_hidden(place, message, fix);
                None
            }
            Err(message) => {
                let fix = "write it as `http://HOST:PORT` or `https://HOST`";
                self.sink.tell(place, message, fix);
                None
            }
        }
    }

    /// An MCP server, as our own file writes it.
    pub(super) fn mcp(&self, low: &low::Mcp, place: Place) -> Option<SourceKind> {
        match (low.command.given(), low.url.given()) {
            (Some((command, _)), None) => self.command(low, command, place),
            (None, Some((url, at))) => {
                let misplaced = [
                    ("args", low.args.is_absent()),
                    ("env", low.env.is_absent()),
                    ("cwd", low.cwd.is_absent()),
                ];
                for (key, _) in misplaced.iter().filter(|(_, absent)| !absent) {
                    let message = format!("`{key}` belongs to a `command`, and this is a `url`");
                    self.sink.tell(place, message, "");
                }
                let url = self.url(url, at);
                let headers =
                    low.headers.get().map(|map| self.headers(map, place)).unwrap_or_default();
                let url = url?;
                let oauth = self.oauth(low, &url, &headers);
                let per_caller = self.per_caller(low, &headers);
                Some(SourceKind::McpUrl { url, headers, oauth, per_caller })
            }
            (Some(_), Some(_)) => {
                let message = "an MCP server is either a `command` or a `url`";
                self.sink.tell(place, message, "remove one of them");
                None
            }
            (None, None) => {
                if low.command.is_absent() && low.url.is_absent() {
                    let fix = "say `command: PROGRAM` or `url: ADDRESS`";
                    self.sink.tell(place, "the MCP server has neither `command` nor `url`", fix);
                }
                None
            }
        }
    }

    fn command(&self, low: &low::Mcp, command: &str, place: Place) -> Option<SourceKind> {
        if !low.headers.is_absent() {
            self.sink.tell(place, "`headers` belong to a `url`, and this is a `command`", "");
        }
        for (key, absent) in
            [("oauth", low.oauth.is_absent()), ("per_caller", low.per_caller.is_absent())]
        {
            if !absent {
                let message = format!("`{key}` belongs to a `url`, and this is a `command`");
                self.sink.tell(place, message, "give a command its secrets by `env`");
            }
        }
        let args = low.args.get().into_iter().flatten();
        let args: Vec<_> = args.map(text_of).collect();
        let env: Vec<_> = low.env.get().map(plain).unwrap_or_default();
        let nul = |text: &str| text.contains('\0');
        let bad_name = |name: &str| name.is_empty() || name.contains('=') || nul(name);
        if nul(command) || args.iter().any(|arg| nul(arg)) || env.iter().any(|(_, v)| nul(v)) {
            self.sink.tell_hidden(place, "a command cannot hold the character U+0000", "");
            return None;
        }
        if let Some((name, _)) = env.iter().find(|(name, _)| bad_name(name)) {
            let message = format!("`{}` is no name of an environment variable", shorten(name));
            self.sink.tell_hidden(place, message, "");
            return None;
        }
        // A bare name is found in PATH; one with a slash stands relative to the file, not to where
        // the server happened to be started.
        let command = if command.contains('/') {
            self.path(command).to_string_lossy().into_owned()
        } else {
            command.to_owned()
        };
        let cwd = low.cwd.get().map_or_else(|| self.base.to_owned(), |cwd| self.path(cwd));
        let args = args.into_iter().map(Secret::new).collect();
        let env = env.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        Some(SourceKind::McpCommand(McpCommand { command, args, env, cwd }))
    }

    fn headers(
        &self,
        map: &BTreeMap<String, Field<Text>>,
        place: Place,
    ) -> Vec<(http::HeaderName, Secret)> {
        let header = |(name, value): (String, String)| {
            let named = header_name(&name);
            let fits = http::HeaderValue::try_from(&value).is_ok();
            if let Some(named) = named.filter(|_| fits) {
                return Some((named, Secret::new(value)));
            }
            let name = shorten(&name);
            let message =
                format!("the header `{name}` cannot be sent: its name or its value is not allowed");
            self.sink.tell_hidden(place, message, "");
            None
        };
        plain(map).into_iter().filter_map(header).collect()
    }
}

const WITH_PASSWORD: &str = "a URL must not hold a user name or a password";

/// An address of HTTP; else what is wrong, without a password.
pub(super) fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| format!("`{}` is no URL of HTTP", shorten(text)))?;
    if url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err(WITH_PASSWORD.to_owned())
}

/// RFC 6750, section 2.1: a b64token; anything else could not stand in the header.
pub(super) fn is_token(text: &str) -> bool {
    text.len() <= 8192 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A header that the operator may set.
pub(super) fn header_name(name: &str) -> Option<http::HeaderName> {
    let named = http::HeaderName::try_from(name).ok();
    named.filter(|name| !OWN_HEADERS.contains(&name.as_str()))
}

pub(super) fn trust(word: TrustWord) -> Trust {
    match word {
        TrustWord::Full => Trust::Full,
        TrustWord::FirstUse => Trust::FirstUse,
        TrustWord::Review => Trust::Review,
    }
}

/// A variable or header that holds nothing holds the empty text.
fn plain(map: &BTreeMap<String, Field<Text>>) -> Vec<(String, String)> {
    map.iter().map(|(name, text)| (name.clone(), text_of(text))).collect()
}

pub(super) fn text_of(field: &Field<Text>) -> String {
    field.get().map(|text| text.0.clone()).unwrap_or_default()
}

/// Names of tools; none where nothing is said.
pub(super) fn names(field: &Field<low::Names>) -> BTreeSet<String> {
    field.get().map(|names| names.0.iter().cloned().collect()).unwrap_or_default()
}

pub(super) fn which(field: &Field<Which>) -> Tools {
    match field.get() {
        None | Some(Which::All(false)) => Tools::NONE,
        Some(Which::All(true)) => Tools::All,
        Some(Which::Named(names)) => Tools::Named(names.iter().cloned().collect()),
    }
}
