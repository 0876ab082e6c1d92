//! Allowed hosts and origins: protection against DNS rebinding and cross-site requests.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use tool::ErrorCode;

use crate::error::ApiError;

/// Host names and public URL of this server, and allowed foreign origins.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Host names besides those of loopback, lower case, without port.
    pub names: Vec<String>,
    /// Origins such as `https://app.example.com`, lower case.
    pub origins: Vec<String>,
    /// The URL of this server as clients use it, without a trailing slash, if the operator names it.
    pub public_url: Option<String>,
}

impl Hosts {
    /// Checks `Host`, and `Origin` if present.
    ///
    /// # Errors
    /// [`ErrorCode::ForbiddenOrigin`] if `Host` is missing, or either header is duplicated or not
    /// allowed.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = one(headers, &HOST)?.ok_or_else(|| {
            ApiError::new(ErrorCode::ForbiddenOrigin, "the request has no Host header")
        })?;
        let Some((name, _)) = split_authority(host) else {
            let told = format!("invalid Host header `{}`", host.escape_debug());
            let fix = "send `HOST` or `HOST:PORT` with a numeric port and without a user name";
            return Err(ApiError::new(ErrorCode::ForbiddenOrigin, told).with_help(fix));
        };
        let known = |own: &String| own.eq_ignore_ascii_case(name);
        if !is_loopback(name) && !self.names.iter().any(known) {
            let told = format!("this server does not serve the host `{}`", host.escape_debug());
            return Err(ApiError::new(ErrorCode::ForbiddenOrigin, told).with_help(
                "use the address that the server prints at start, or allow the name: `serve \
                 --allowed-host NAME`, TOOLKEEP_ALLOWED_HOSTS or `server.allowed_hosts`",
            ));
        }
        let Some(origin) = one(headers, &ORIGIN)? else { return Ok(()) };
        let origin = origin.to_ascii_lowercase();
        let own = ["http://", "https://"]
            .iter()
            .filter_map(|scheme| origin.strip_prefix(scheme))
            .any(|authority| is_same(authority, &host.to_ascii_lowercase()));
        if own || self.origins.contains(&origin) {
            return Ok(());
        }
        let told = format!("the origin `{}` is not allowed", origin.escape_debug());
        Err(ApiError::new(ErrorCode::ForbiddenOrigin, told)
            .with_help("add it to `server.allowed_origins`"))
    }
}

fn one<'a>(
    headers: &'a HeaderMap,
    name: &axum::http::HeaderName,
) -> Result<Option<&'a str>, ApiError> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| {
            ApiError::new(
                ErrorCode::ForbiddenOrigin,
                format!(
                    "the header `{name}` contains \
                invalid characters"
                ),
            )
        }),
        (Some(_), Some(_)) => Err(ApiError::new(
            ErrorCode::ForbiddenOrigin,
            format!(
                "the header `{name}` is given \
                twice"
            ),
        )),
    }
}

/// Splits `HOST` or `HOST:PORT` of a `Host` or `Origin` header (RFC 9110, 7.2; RFC 6454, 6.1).
/// `None` for a user part or a port that is not a number.
pub(crate) fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (authority, None),
    };
    let number = |port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| port.parse().ok()).flatten()
    };
    let port = match port {
        Some(port) => Some(number(port)?),
        None => None,
    };
    (!name.contains(['@', '/', '?', '#', '\\'])).then_some((name, port))
}

/// Returns whether two lower-case authorities are the same server. All loopback names are equal,
/// because a page opened by one name may send requests to another.
fn is_same(origin: &str, host: &str) -> bool {
    match (split_authority(origin), split_authority(host)) {
        (Some(a), Some(b)) => a == b || (a.1 == b.1 && is_loopback(a.0) && is_loopback(b.0)),
        _ => false,
    }
}

pub(crate) fn is_loopback(name: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::Hosts;

    fn check(pairs: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let hosts = Hosts {
            names: vec!["tools.example.com".to_owned()],
            origins: vec!["https://app.example.com".to_owned()],
            public_url: None,
        };
        hosts.check(&headers).is_ok()
    }

    #[test]
    fn hosts() {
        for good in
            ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1", "tools.example.com"]
        {
            assert!(check(&[("host", good)]), "{good}");
        }
        for bad in
            ["evil.com", "127.0.0.1.evil.com", "localhost.evil.com:8080", "", "127.0.0.2", "[::2]"]
        {
            assert!(!check(&[("host", bad)]), "{bad}");
        }
        for bad in [
            "localhost:18431@evil.com",
            "localhost@evil.com",
            "user@localhost",
            "user:1@localhost:8080",
            "localhost:port",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "[::1]:8080@evil.com",
            "tools.example.com:80/../",
            "tools.example.com/@evil.com",
        ] {
            assert!(!check(&[("host", bad)]), "{bad}");
        }
        assert!(!check(&[]));
        assert!(!check(&[("host", "localhost"), ("host", "localhost")]));
    }

    #[test]
    fn origins() {
        let host = ("host", "127.0.0.1:8080");
        for good in [
            "http://127.0.0.1:8080",
            "http://localhost:8080",
            "http://[::1]:8080",
            "https://app.example.com",
            "HTTPS://APP.example.com",
        ] {
            assert!(check(&[host, ("origin", good)]), "{good}");
        }
        for bad in [
            "null",
            "http://evil.com",
            "http://127.0.0.1:9090",
            "http://localhost:9090",
            "http://localhost",
            "http://127.0.0.1:8080.evil.com",
            "http://tools.example.com:8080",
            "http://127.0.0.1:8080@evil.com",
            "http://user@127.0.0.1:8080",
            "http://127.0.0.1:8080/",
            "",
        ] {
            assert!(!check(&[host, ("origin", bad)]), "{bad}");
        }
        assert!(!check(&[host, ("origin", "https://app.example.com"), ("origin", "null")]));
    }
}
