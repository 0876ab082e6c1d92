//! The HTTP server.

use std::net::Ipv6Addr;
use std::time::Duration;

use egress::HttpStack;
use sandbox::Tier;
use serde_json::Value;
use url::{Origin, Url};

use crate::node::shorten;
use crate::parsers::{list, size, text, time, truth, words};
use crate::section::section;
use crate::value::{ConfigValue, ValueParser as _};

section! {
    /// The front doors.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ServerConfig as "Server": Default, Show {
        /// Host names, without port, under which the server may be addressed, beside those of the loopback. `serve
        /// --allowed-host` and TOOLKEEP_ALLOWED_HOSTS add to them.
        pub allowed_hosts: Vec<String> = list(text().convert_text(checked_host));
        /// Origins of web pages that may speak to it, such as `https://console.example`.
        pub allowed_origins: Vec<String> = list(text().convert_text(origin));
        /// The largest request body, such as `2MiB`.
        pub max_body: usize = size(64 << 20), default 2 << 20;
        /// Whether a TLS proxy, or a private network of containers, is in front of the server. Needed to listen beyond loopback. `serve
        /// --behind-tls` and TOOLKEEP_BEHIND_TLS say the same.
        pub behind_tls: bool = truth(), shown Value::Null;
        /// How much of a cage the tools that run code must have, `whole` where nothing is said.
        pub cage: Tier = cage(), default Tier::Whole;
        /// How long a background server, which `toolkeep mcp` started, stays without a client: from `1ms` to `24h`.
        /// Default: `1m`.
        pub idle_timeout: Duration = time(Duration::from_hours(24)), default Duration::from_mins(1);
        /// What reads and writes HTTP/1.1 on both sides. Takes effect at the next start. Default: `fast`.
        pub http: HttpStack = http_stack(), default HttpStack::Fast;
    }
}

words! {
    /// How much of a cage the tools that run code must have.
    fn cage as "CageWord" -> Tier {
        /// Namespaces, landlock and seccomp.
        "whole" = Tier::Whole,
        /// Landlock and seccomp will do, where the kernel gives no namespaces.
        "fenced" = Tier::Fenced,
    }
}

words! {
    /// What reads and writes HTTP/1.1.
    fn http_stack as "HttpWord" -> HttpStack {
        /// Toolkeep's own code, for requests and responses with one interpretation, and hyper for all others.
        "fast" = HttpStack::Fast,
        /// hyper alone.
        "standard" = HttpStack::Standard,
    }
}

/// A host name or an IPv6 address in brackets, in lower case and without port.
pub(crate) fn host(text: &str) -> Option<String> {
    let host = text.to_ascii_lowercase();
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_address = address.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok());
    let is_name = (1..=255).contains(&host.len()) && host.chars().all(letters);
    (is_name || is_address).then_some(host)
}

/// What is wrong with a host name that is none, and what to do.
pub(crate) fn host_fault(text: &str) -> (String, &'static str) {
    let fix = "write the name alone, such as `tools.example`";
    (format!("`{}` is no host name", shorten(text)), fix)
}

fn checked_host(value: ConfigValue<'_>, text: &str) -> Option<String> {
    let host = host(text);
    if host.is_none() {
        let (message, fix) = host_fault(text);
        value.fault(message, fix);
    }
    host
}

fn origin(value: ConfigValue<'_>, text: &str) -> Option<String> {
    let origin = Url::parse(text).ok().map(|url| url.origin()).filter(Origin::is_tuple);
    let origin = origin.map(|origin| origin.ascii_serialization());
    if origin.as_deref() == Some(text.trim_end_matches('/')) {
        return origin;
    }
    let fix = "write scheme, host and port only: `https://console.example`";
    value.fault(format!("`{}` is no origin", shorten(text)), fix);
    None
}
