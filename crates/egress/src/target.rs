//! From a URL to the origin it names, and whether that origin may be asked at all.
//!
//! Parsing is the URL Standard's (`url`), so that there is one reading of every number form and
//! every strange dot; nothing here looks at the text itself. No name is resolved here.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tool::executor::Sent;
use url::{Host, Url};

use super::error::{EgressError, Shown};
use super::{Class, address};

/// Longest URL, in bytes.
const MOST_URL: usize = 8192;

/// Ends of names that never lead to the public: RFC 6761, 6762 (appendix G too), 7686, 8375, 9476,
/// ICANN's reservation of `internal`, and Kubernetes' `svc`.
const PRIVATE_ENDS: [&str; 16] = [
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

/// A key would be sent in plaintext beyond this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`http://{0}` is beyond this machine: over plain http everyone on the way could read the key"
)]
pub struct PlaintextKey(String);

/// Scheme, host and port: what a connection belongs to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Origin(Arc<Parts>);

#[derive(PartialEq, Eq, Hash)]
struct Parts {
    https: bool,
    host: Host<String>,
    port: u16,
    authority: String,
}

impl Origin {
    /// Of a URL as the operator writes it: `http` or `https`, without user and password. Path and
    /// query are not looked at.
    ///
    /// # Errors
    /// [`EgressError::Blocked`] with what is wrong.
    pub fn parse(url: &str) -> Result<Self, EgressError> {
        let (parsed, shown) = read(url)?;
        Self::of(&parsed, &shown)
    }

    fn of(url: &Url, shown: &Shown) -> Result<Self, EgressError> {
        let https = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(blocked(shown, format!("scheme `{other}` is not http or https"))),
        };
        if !url.username().is_empty() || url.password().is_some() {
            let why = "it carries a user or password; take them out, and give them as a credential";
            return Err(blocked(shown, why));
        }
        let host = url.host().ok_or_else(|| blocked(shown, "it has no host"))?.to_owned();
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or_else(|| blocked(shown, "it has no port that can be called"))?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        Ok(Self(Arc::new(Parts { https, host, port, authority })))
    }

    /// Whether connections to it are encrypted.
    pub fn is_https(&self) -> bool {
        self.0.https
    }

    /// The port, also where it is the scheme's own.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Host, and port where it is not the scheme's own: what the `Host` header says.
    pub fn authority(&self) -> &str {
        &self.0.authority
    }

    /// Whether it is this machine itself, by its address or as `localhost` (RFC 6761, 6.3).
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

    /// Whether a key may be sent there: over https, to this machine, or where `insecure` says that
    /// plaintext is meant. Nothing is dialled to find out.
    ///
    /// # Errors
    /// [`PlaintextKey`].
    pub fn check_key(&self, insecure: bool) -> Result<(), PlaintextKey> {
        let confidential = self.is_https() || self.is_loopback();
        if confidential || insecure {
            Ok(())
        } else {
            Err(PlaintextKey(self.authority().to_owned()))
        }
    }

    pub(super) fn host(&self) -> &Host<String> {
        &self.0.host
    }

    /// The address, where the URL names one instead of a host.
    pub(super) fn literal(&self) -> Option<IpAddr> {
        match self.0.host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// Whether `uri` is written exactly as this origin is: a shortcut past the parser, never the
    /// only way to pass.
    pub(super) fn is_written_as(&self, uri: &http::Uri) -> bool {
        uri.scheme_str() == Some(if self.0.https { "https" } else { "http" })
            && uri.authority().is_some_and(|authority| authority.as_str() == self.0.authority)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.0.https { "https" } else { "http" }, self.0.authority)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

/// Hosts and ports of the public classes.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Ports that may be called. Default: 80, 443, 8080, 8443.
    pub ports: Vec<u16>,
    /// Hosts that may be called: `example.org`, or `*.example.org` for all below it. `None`: all.
    pub allow: Option<Vec<String>>,
    /// Hosts that may not be, in the same form; they win.
    pub deny: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { ports: vec![80, 443, 8080, 8443], allow: None, deny: Vec::new() }
    }
}

impl Rules {
    /// Everything that can be said of a URL before its name is resolved.
    pub(super) fn check(&self, class: &Class, url: &str) -> Result<Origin, EgressError> {
        let (parsed, shown) = read(url)?;
        let origin = Origin::of(&parsed, &shown)?;
        match class {
            Class::Operator { origin: pinned } if *pinned == origin => {}
            Class::Operator { origin: pinned } => {
                let why =
                    format!("this source may call `{pinned}` only, as its configuration says");
                return Err(blocked(&shown, why));
            }
            Class::Caller | Class::Upstream => self.check_public(&origin, &shown)?,
        }
        if let Some(literal) = origin.literal() {
            check_address(class, literal, true, &shown)?;
        }
        Ok(origin)
    }

    fn check_public(&self, origin: &Origin, shown: &Shown) -> Result<(), EgressError> {
        if !self.ports.contains(&origin.port()) {
            let why = format!("port {} is not among the allowed: {:?}", origin.port(), self.ports);
            return Err(blocked(shown, why));
        }
        let host = origin.host().to_string();
        let host = host.strip_suffix('.').unwrap_or(&host);
        if let Host::Domain(_) = origin.host() {
            check_name(host).map_err(|why| blocked(shown, why))?;
        }
        if self.deny.iter().any(|pattern| matches(pattern, host)) {
            return Err(blocked(shown, "its host is on the list of denied hosts"));
        }
        match &self.allow {
            Some(allow) if !allow.iter().any(|pattern| matches(pattern, host)) => {
                Err(blocked(shown, "its host is not on the list of allowed hosts"))
            }
            _ => Ok(()),
        }
    }
}

/// Judges one address for a class.
pub(super) fn check_address(
    class: &Class,
    address: IpAddr,
    literal: bool,
    shown: &Shown,
) -> Result<(), EgressError> {
    let name = match class {
        Class::Operator { .. } => address::not_operators(address, literal),
        Class::Caller | Class::Upstream => address::not_public(address),
    };
    let Some(name) = name else { return Ok(()) };
    // What a name resolves to inside a network is not for the one who asked.
    let what = if literal {
        format!("its address is {name}")
    } else {
        "its name leads to an address that is not public".to_owned()
    };
    Err(blocked(shown, format!("{what}; only a source in the configuration may be there")))
}

fn read(url: &str) -> Result<(Url, Shown), EgressError> {
    let shown = Shown::of(url);
    if url.len() > MOST_URL {
        return Err(blocked(&shown, format!("it is over {MOST_URL} bytes")));
    }
    match Url::parse(url) {
        Ok(parsed) => Ok((parsed, shown)),
        Err(error) => {
            Err(blocked(&shown, format!("it is not a URL: {error}; write it as https://host/path")))
        }
    }
}

fn check_name(host: &str) -> Result<(), String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if host.len() > 253
        || !host.bytes().all(known)
        || host.split('.').any(|label| !(1..=63).contains(&label.len()))
    {
        return Err("its host is not a name that can be looked up".to_owned());
    }
    let ends =
        |end: &str| host == end || host.strip_suffix(end).is_some_and(|front| front.ends_with('.'));
    if !host.contains('.') || PRIVATE_ENDS.iter().any(|end| ends(end)) {
        return Err("its host is a name of a private network; only a source in the configuration may be there".to_owned());
    }
    Ok(())
}

fn matches(pattern: &str, host: &str) -> bool {
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

pub(super) fn blocked(shown: &Shown, why: impl Into<String>) -> EgressError {
    EgressError::Blocked { url: shown.clone(), why: why.into(), sent: Sent::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(url: &str) -> Result<Origin, EgressError> {
        Rules::default().check(&Class::Caller, url)
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
            ("http://u@example.org/", "user or password"),
            ("http://:p@example.org/", "user or password"),
            ("http://example.org:22/", "port 22"),
            ("http://example.org:0/", "no port"),
            ("http://localhost/", "private network"),
            ("http://LOCALHOST./", "private network"),
            ("http://a.b.localhost/", "private network"),
            ("http://metadata/", "private network"),
            ("http://metadata.google.internal/", "private network"),
            ("http://kubernetes.default.svc/", "private network"),
            ("http://a..b.org/", "looked up"),
            ("http://${x}.org/", "looked up"),
            ("http://2130706433/", "its address is loopback"),
            ("http://[::ffff:7f00:1]/", "outside the public range"),
        ] {
            let error = public(url).unwrap_err().to_string();
            assert!(error.contains(words), "{url}: {error}");
        }
        assert!(public(&format!("http://example.org/{}", "a".repeat(MOST_URL))).is_err());
    }

    #[test]
    fn an_operators_source_may_call_its_origin_only() {
        let class =
            Class::Operator { origin: Origin::parse("http://127.0.0.1:8000/tools").unwrap() };
        let check = |url| Rules::default().check(&class, url);
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
        let rules = Rules {
            allow: Some(vec!["example.org".to_owned(), "*.example.net".to_owned()]),
            deny: vec!["*.bad.example.net".to_owned()],
            ..Rules::default()
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
            assert_eq!(rules.check(&Class::Caller, url).is_ok(), open, "{url}");
        }
    }
}
