//! Settings of the HTTP server.

use std::net::Ipv6Addr;
use std::time::Duration;

use egress::HttpStack;
use option_types::DEFAULT_ENDED_KEY_RETENTION;
use sandbox::SandboxLevel;
use serde_json::Value;
use url::{Origin, Url};

use crate::config_value::{ConfigValue, ValueParser as _};
use crate::renamed_key::renamed_from;
use crate::section::{section, subsection};
use crate::sections::http_url::{http_url, is_https_or_loopback};
use crate::sections::records::retention_age;
use crate::sections::tool_listing::ToolListingConfig;
use crate::value_parsers::{boolean, byte_size, duration, keywords, list, text};
use crate::yaml_tree::shorten_text;

section! {
    /// Settings of the HTTP server.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ServerConfig as "Server": Default, RedactedJson {
        /// Host names of the server, without port, besides those of loopback. `serve --allowed-host` and
        /// TOOLKEEP_ALLOWED_HOSTS add to them.
        pub allowed_hosts: Vec<String> = list(text().convert_text(allowed_host));
        /// Origins of web pages that may send requests to it, such as `https://console.example`. Default: none.
        pub allowed_origins: Vec<String> = list(text().convert_text(allowed_origin));
        /// The URL of the server as clients use it, such as `https://tools.example`. The server card and the registry at
        /// `/v0.1/servers` name it. Its host is an allowed host. Takes effect at the next start. Default: the origin of
        /// `tokens.resource`, else the host of the request.
        pub public_url: Option<String> = text().convert_text(public_url);
        /// The largest request body, such as `2MiB`: from `1KiB` to `64MiB`. Default: `2MiB`.
        pub max_body_bytes as "max_body": usize = byte_size(64 << 20), default 2 << 20;
        /// Whether a TLS proxy is in front of the server, or a private network around it. Needed to listen beyond
        /// loopback. `serve --behind-tls` and TOOLKEEP_BEHIND_TLS also set it. Default: `false`.
        pub behind_tls: bool = boolean(), display Value::Null;
        /// The minimum sandbox of tools that run code. Default: `whole`.
        pub min_sandbox_level as "min_sandbox": SandboxLevel = renamed_from("cage", sandbox_level()),
            default SandboxLevel::Full;
        /// How long a background server of `toolkeep mcp` runs without a client: from `1ms` to `24h`. Default: `1m`.
        pub idle_timeout: Duration = duration(Duration::from_hours(24)),
            default Duration::from_mins(1);
        /// The implementation of HTTP/1.1, for the server and for outgoing requests. Takes effect at the next start.
        /// Default: `fast`.
        pub http_stack as "http": HttpStack = http_stack(), default HttpStack::Fast;
        /// Whether the server has the web console, at `/ui`. Takes effect at the next start. Default: `true`.
        pub has_console as "console": bool = boolean(), default true;
        /// Whether sources that start a program, read a file or take a variable of the server can be added over REST and
        /// the web console, by keys with the right `sources:write`. Others can be added in any case. Default: `false`.
        pub allows_local_sources as "add_local_sources": bool = boolean();
        /// How long the record of a revoked or expired key is kept, such as `90d`: from `1h` to 100 years. Such keys do not
        /// count among those that there may be. Default: `90d`.
        pub ended_key_retention as "keep_ended_keys": Duration = text().convert_text(retention_age),
            default DEFAULT_ENDED_KEY_RETENTION,
            display format!("{}h", ended_key_retention.as_secs() / 3_600).into();
        /// How MCP clients get the tools of a caller.
        pub search: ToolListingConfig = subsection::<ToolListingConfig>();
    }
}

keywords! {
    /// The minimum sandbox of tools that run code.
    fn sandbox_level as "SandboxWord" -> SandboxLevel {
        /// Namespaces, Landlock and seccomp.
        "whole" = SandboxLevel::Full,
        /// Landlock and seccomp are enough, for a kernel without namespaces.
        "fenced" = SandboxLevel::NoNamespaces,
    }
}

keywords! {
    /// The implementation of HTTP/1.1.
    fn http_stack as "HttpWord" -> HttpStack {
        /// Toolkeep's own code for requests and responses that have one interpretation; hyper for all others.
        "fast" = HttpStack::Fast,
        /// hyper for every message.
        "standard" = HttpStack::Standard,
    }
}

/// Parses a host name or an IPv6 address in brackets, without port, to lower case.
pub(crate) fn parse_host(text: &str) -> Option<String> {
    let host = text.to_ascii_lowercase();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_address = address.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok());
    let is_name = (1..=255).contains(&host.len()) && host.chars().all(is_allowed);
    (is_name || is_address).then_some(host)
}

/// The message and the fix for an invalid host name.
pub(crate) fn invalid_host_error(text: &str) -> (String, &'static str) {
    let help = "write the name alone, such as `tools.example`";
    (format!("invalid host name `{}`", shorten_text(text)), help)
}

fn allowed_host(value: ConfigValue<'_>, text: &str) -> Option<String> {
    let host = parse_host(text);
    if host.is_none() {
        let (message, help) = invalid_host_error(text);
        value.report(message, help);
    }
    host
}

/// Parses the origin of a URL that clients use.
fn public_url(value: ConfigValue<'_>, text: &str) -> Option<String> {
    let url = http_url(value, text)?;
    let origin = url.origin().ascii_serialization();
    let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if is_https_or_loopback(&url) && is_origin {
        return Some(origin);
    }
    let message = format!("invalid public URL `{}`", shorten_text(text));
    value.report(message, "write scheme, host and port only: `https://tools.example`");
    None
}

fn allowed_origin(value: ConfigValue<'_>, text: &str) -> Option<String> {
    let origin = Url::parse(text).ok().map(|url| url.origin()).filter(Origin::is_tuple);
    let origin = origin.map(|origin| origin.ascii_serialization());
    if origin.as_deref() == Some(text.trim_end_matches('/')) {
        return origin;
    }
    let help = "write scheme, host and port only: `https://console.example`";
    value.report(format!("invalid origin `{}`", shorten_text(text)), help);
    None
}
