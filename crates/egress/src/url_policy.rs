//! The origin of a URL, and the URL policy: checks before the host is resolved.
//!
//! URLs are parsed by the `url` crate as the URL Standard defines, so that every number form and
//! every unusual dot has one interpretation. No name is resolved here.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tool::executor::DispatchState;
use url::{Host, Url};

use super::error::{EgressError, RedactedUrl};
use super::{UrlTrust, ip_policy};

/// Maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 8192;

/// Suffixes of names that are never public: RFC 6761, 6762 (appendix G too), 7686, 8375, 9476,
/// ICANN's reservation of `internal`, and Kubernetes' `svc`.
const PRIVATE_SUFFIXES: [&str; 16] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "onion",
    "alt",
    "svc",
    "test",
    "invalid",
    "example",
];

/// An API key would be sent in plaintext to another machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`http://{0}` is not on this machine: over plain http, others in the network could read the key"
)]
pub struct PlaintextKeyError(String);

/// Scheme, host and port of a URL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Origin(Arc<OriginParts>);

#[derive(PartialEq, Eq, Hash)]
struct OriginParts {
    is_https: bool,
    host: Host<String>,
    port: u16,
    authority: String,
}

impl Origin {
    /// Parses the origin of a configured URL: `http` or `https`, without user and password. Path
    /// and query are ignored.
    ///
    /// # Errors
    /// [`EgressError::Blocked`] with what is wrong.
    pub fn parse(url: &str) -> Result<Self, EgressError> {
        let (parsed, redacted) = parse_url(url)?;
        Self::from_url(&parsed, &redacted)
    }

    fn from_url(url: &Url, redacted: &RedactedUrl) -> Result<Self, EgressError> {
        let is_https = match url.scheme() {
            "https" => true,
            "http" => false,
            other => {
                return Err(blocked_error(
                    redacted,
                    format!("scheme `{other}` is not http or https"),
                ));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            let why = "it contains a user name or password; remove them, and configure a \
                credential";
            return Err(blocked_error(redacted, why));
        }
        let host = url.host().ok_or_else(|| blocked_error(redacted, "it has no host"))?.to_owned();
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or_else(|| blocked_error(redacted, "it has no valid port"))?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        Ok(Self(Arc::new(OriginParts { is_https, host, port, authority })))
    }

    /// Whether connections to this origin are encrypted.
    pub fn is_https(&self) -> bool {
        self.0.is_https
    }

    /// Returns the port, or the default port of the scheme.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Returns the value of the `Host` header: the host, and the port if it is not the default.
    pub fn authority(&self) -> &str {
        &self.0.authority
    }

    /// Whether the host is a loopback address or `localhost` (RFC 6761, 6.3).
    pub fn is_loopback(&self) -> bool {
        match &self.0.host {
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                name == "localhost" || name.ends_with(".localhost")
            }
        }
    }

    /// Checks that an API key may be sent to this origin: over https, to a loopback host, or if
    /// plaintext is explicitly allowed. Opens no connection.
    ///
    /// # Errors
    /// [`PlaintextKeyError`].
    pub fn check_key_transport(&self, allows_plaintext: bool) -> Result<(), PlaintextKeyError> {
        let is_confidential = self.is_https() || self.is_loopback();
        if is_confidential || allows_plaintext {
            Ok(())
        } else {
            Err(PlaintextKeyError(self.authority().to_owned()))
        }
    }

    pub(super) fn host(&self) -> &Host<String> {
        &self.0.host
    }

    /// Returns the IP address if the host is written as one.
    pub(super) fn ip_literal(&self) -> Option<IpAddr> {
        match self.0.host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// Whether `uri` has exactly the text of this origin. This is a fast path; other spellings are
    /// parsed.
    pub(super) fn matches_uri(&self, uri: &http::Uri) -> bool {
        uri.scheme_str() == Some(if self.0.is_https { "https" } else { "http" })
            && uri.authority().is_some_and(|authority| authority.as_str() == self.0.authority)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.0.is_https { "https" } else { "http" }, self.0.authority)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

/// The allowed hosts and ports of untrusted URLs.
#[derive(Debug, Clone)]
pub struct UrlPolicy {
    /// Allowed ports. Default: 80, 443, 8080, 8443.
    pub allowed_ports: Vec<u16>,
    /// Allowed hosts: `example.org`, or `*.example.org` for all subdomains. `None` allows all.
    pub allowed_hosts: Option<Vec<String>>,
    /// Denied hosts, in the same form. They take precedence.
    pub denied_hosts: Vec<String>,
}

impl Default for UrlPolicy {
    fn default() -> Self {
        Self {
            allowed_ports: vec![80, 443, 8080, 8443],
            allowed_hosts: None,
            denied_hosts: Vec::new(),
        }
    }
}

impl UrlPolicy {
    /// Applies all checks that need no DNS lookup and returns the origin.
    pub(super) fn validate_url(&self, trust: &UrlTrust, url: &str) -> Result<Origin, EgressError> {
        let (parsed, redacted) = parse_url(url)?;
        let origin = Origin::from_url(&parsed, &redacted)?;
        match trust {
            UrlTrust::Configured { origin: configured_origin } if *configured_origin == origin => {}
            UrlTrust::Configured { origin: pinned } => {
                let why = format!("this source may only call `{pinned}`, as configured");
                return Err(blocked_error(&redacted, why));
            }
            UrlTrust::CallArgument | UrlTrust::UpstreamResponse => {
                self.check_untrusted(&origin, &redacted)?;
            }
        }
        if let Some(literal) = origin.ip_literal() {
            check_address(trust, literal, true, &redacted)?;
        }
        Ok(origin)
    }

    fn check_untrusted(&self, origin: &Origin, redacted: &RedactedUrl) -> Result<(), EgressError> {
        if !self.allowed_ports.contains(&origin.port()) {
            let why = format!(
                "port {} is not allowed; allowed are {:?}",
                origin.port(),
                self.allowed_ports
            );
            return Err(blocked_error(redacted, why));
        }
        let host = origin.host().to_string();
        let host = host.strip_suffix('.').unwrap_or(&host);
        if let Host::Domain(_) = origin.host() {
            check_public_name(host).map_err(|why| blocked_error(redacted, why))?;
        }
        if self.denied_hosts.iter().any(|pattern| host_matches(pattern, host)) {
            return Err(blocked_error(redacted, "its host is on the list of denied hosts"));
        }
        match &self.allowed_hosts {
            Some(allow) if !allow.iter().any(|pattern| host_matches(pattern, host)) => {
                Err(blocked_error(redacted, "its host is not on the list of allowed hosts"))
            }
            _ => Ok(()),
        }
    }
}

/// Checks whether a URL of this trust class may reach an address.
pub(super) fn check_address(
    trust: &UrlTrust,
    address: IpAddr,
    is_literal: bool,
    redacted: &RedactedUrl,
) -> Result<(), EgressError> {
    let block_name = match trust {
        UrlTrust::Configured { .. } => ip_policy::configured_violation(address, is_literal),
        UrlTrust::CallArgument | UrlTrust::UpstreamResponse => ip_policy::public_violation(address),
    };
    let Some(name) = block_name else { return Ok(()) };
    // The caller must not learn to what a name resolves inside the network.
    let violation = if is_literal {
        format!("its address is {name}")
    } else {
        "its name resolves to an address that is not public".to_owned()
    };
    Err(blocked_error(
        redacted,
        format!("{violation}; only a source in the configuration may use it"),
    ))
}

fn parse_url(url: &str) -> Result<(Url, RedactedUrl), EgressError> {
    let redacted = RedactedUrl::from_text(url);
    if url.len() > MAX_URL_BYTES {
        return Err(blocked_error(&redacted, format!("it is longer than {MAX_URL_BYTES} bytes")));
    }
    match Url::parse(url) {
        Ok(parsed) => Ok((parsed, redacted)),
        Err(error) => Err(blocked_error(
            &redacted,
            format!("it is not a URL: {error}; write it as https://host/path"),
        )),
    }
}

fn check_public_name(host: &str) -> Result<(), String> {
    let is_allowed_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if host.len() > 253
        || !host.bytes().all(is_allowed_byte)
        || host.split('.').any(|label| !(1..=63).contains(&label.len()))
    {
        return Err("its host is not a valid DNS name".to_owned());
    }
    let has_suffix =
        |end: &str| host == end || host.strip_suffix(end).is_some_and(|front| front.ends_with('.'));
    if !host.contains('.') || PRIVATE_SUFFIXES.iter().any(|end| has_suffix(end)) {
        return Err("its host is a name of a private network; only a source in the configuration \
            may use it"
            .to_owned());
    }
    Ok(())
}

fn host_matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(end) => {
            host.len() > end.len()
                && host
                    .get(host.len() - end.len()..)
                    .is_some_and(|tail| tail.eq_ignore_ascii_case(end))
                && host.get(..host.len() - end.len()).is_some_and(|front| front.ends_with('.'))
        }
        None => pattern.eq_ignore_ascii_case(host),
    }
}

pub(super) fn blocked_error(url: &RedactedUrl, reason: impl Into<String>) -> EgressError {
    EgressError::Blocked {
        url: url.clone(),
        reason: reason.into(),
        dispatch: DispatchState::NotSent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(url: &str) -> Result<Origin, EgressError> {
        UrlPolicy::default().validate_url(&UrlTrust::CallArgument, url)
    }

    #[test]
    fn one_origin_has_one_writing() {
        for (url, origin) in [
            ("HTTP://Example.ORG:80/a?b", "http://example.org"),
            ("https://example.org:8443", "https://example.org:8443"),
            ("https://[2606:4700::0001]/", "https://[2606:4700::1]"),
            ("http://0x08080808/", "http://8.8.8.8"),
        ] {
            assert_eq!(public(url).unwrap().to_string(), origin);
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        for (url, words) in [
            ("example.org", "it is not a URL"),
            ("ftp://example.org/", "scheme `ftp`"),
            ("http://u@example.org/", "user name or password"),
            ("http://:p@example.org/", "user name or password"),
            ("http://example.org:22/", "port 22"),
            ("http://example.org:0/", "no valid port"),
            ("http://localhost/", "private network"),
            ("http://LOCALHOST./", "private network"),
            ("http://a.b.localhost/", "private network"),
            ("http://metadata/", "private network"),
            ("http://metadata.google.internal/", "private network"),
            ("http://kubernetes.default.svc/", "private network"),
            ("http://a..b.org/", "not a valid DNS name"),
            ("http://${x}.org/", "not a valid DNS name"),
            ("http://2130706433/", "its address is loopback"),
            ("http://[::ffff:7f00:1]/", "outside the public range"),
        ] {
            let error = public(url).unwrap_err().to_string();
            assert!(error.contains(words), "{url}: {error}");
        }
        assert!(public(&format!("http://example.org/{}", "a".repeat(MAX_URL_BYTES))).is_err());
    }

    #[test]
    fn an_operators_source_may_call_its_origin_only() {
        let class =
            UrlTrust::Configured { origin: Origin::parse("http://127.0.0.1:8000/tools").unwrap() };
        let check = |url| UrlPolicy::default().validate_url(&class, url);
        assert!(check("http://127.0.0.1:8000/other?x=1").is_ok());
        assert!(check("http://127.1:8000/").is_ok(), "the same origin, written otherwise");
        for other in [
            "http://127.0.0.1:8001/",
            "https://127.0.0.1:8000/",
            "http://127.0.0.2:8000/",
            "http://localhost:8000/",
        ] {
            assert!(
                check(other).unwrap_err().to_string().contains("http://127.0.0.1:8000"),
                "{other}"
            );
        }
    }

    #[test]
    fn loopback_is_this_machine_and_nothing_that_looks_like_it() {
        for (url, here) in [
            ("http://127.0.0.1:8000", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("http://LOCALHOST.", true),
            ("http://a.localhost", true),
            ("http://notlocalhost", false),
            ("http://localhost.example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("http://10.0.0.1", false),
            ("http://[::ffff:10.0.0.1]", false),
        ] {
            assert_eq!(Origin::parse(url).unwrap().is_loopback(), here, "{url}");
        }
    }

    #[test]
    fn lists_of_hosts_are_exact_or_below() {
        let rules = UrlPolicy {
            allowed_hosts: Some(vec!["example.org".to_owned(), "*.example.net".to_owned()]),
            denied_hosts: vec!["*.bad.example.net".to_owned()],
            ..UrlPolicy::default()
        };
        for (url, open) in [
            ("http://example.org/", true),
            ("http://EXAMPLE.org./", true),
            ("http://www.example.org/", false),
            ("http://a.example.net/", true),
            ("http://example.net/", false),
            ("http://notexample.net/", false),
            ("http://x.bad.example.net/", false),
            ("http://8.8.8.8/", false),
        ] {
            assert_eq!(rules.validate_url(&UrlTrust::CallArgument, url).is_ok(), open, "{url}");
        }
    }
}
