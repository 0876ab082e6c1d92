//! Cookies of the console: `HttpOnly`, `SameSite=Strict` but for one, and sent to its paths only.
//!
//! A browser sends the cookies of a host to all of its ports. The name therefore contains the port,
//! so that two servers on one machine do not replace each other's cookies.

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST};

/// The cookies of the console.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConsoleCookie {
    /// Holds the token of a session.
    Session,
    /// Ties a sign-in form to the browser that loaded it.
    SignIn,
    /// Ties a sign-in with an issuer to the browser that began it. It is sent when the issuer leads
    /// the browser back, which a strict cookie is not.
    IssuerSignIn,
}

impl ConsoleCookie {
    fn name(self, headers: &HeaderMap) -> String {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = host.rsplit_once(':').map(|(_, port)| port);
        let port = port.filter(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
        let base = match self {
            Self::Session => "toolkeep_session",
            Self::SignIn => "toolkeep_sign_in",
            Self::IssuerSignIn => "toolkeep_issuer",
        };
        port.map_or_else(|| base.to_owned(), |port| format!("{base}_{port}"))
    }

    fn restrictions(self) -> &'static str {
        match self {
            Self::Session | Self::SignIn => "Path=/ui; HttpOnly; SameSite=Strict",
            Self::IssuerSignIn => "Path=/ui/sign-in/issuers; HttpOnly; SameSite=Lax; Max-Age=600",
        }
    }

    /// Returns the value that a request has; `None` if there is none, or more than one.
    pub(crate) fn read(self, headers: &HeaderMap) -> Option<&str> {
        let name = self.name(headers);
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';'));
        let mut values = pairs
            .filter_map(|pair| pair.trim().split_once('='))
            .filter_map(|(key, value)| (key == name).then_some(value));
        values.next().filter(|_| values.next().is_none())
    }

    /// Returns the `Set-Cookie` value that stores `value` until the browser closes, or for ten minutes
    /// while an issuer signs its user in.
    pub(crate) fn store(self, headers: &HeaderMap, value: &str, is_https: bool) -> String {
        let secure = if is_https { "; Secure" } else { "" };
        let name = self.name(headers);
        format!("{name}={value}; {}{secure}", self.restrictions())
    }

    /// Returns the `Set-Cookie` value that removes the cookie.
    pub(crate) fn remove(self, headers: &HeaderMap) -> String {
        let name = self.name(headers);
        let restrictions = self.restrictions().trim_end_matches("; Max-Age=600");
        format!("{name}=; {restrictions}; Max-Age=0")
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::headers;

    use super::ConsoleCookie;

    #[test]
    fn a_cookie_is_read_once_and_by_its_own_port() {
        let host = ("host", "127.0.0.1:8080");
        for (lines, expected) in [
            (vec!["toolkeep_session_8080=a"], Some("a")),
            (vec!["b=1; toolkeep_session_8080=a ; c"], Some("a")),
            (vec!["b=1", "toolkeep_session_8080=a"], Some("a")),
            (vec!["toolkeep_session_9090=a"], None),
            (vec!["toolkeep_session=a"], None),
            (vec!["toolkeep_session_8080=a; toolkeep_session_8080=b"], None),
            (vec!["toolkeep_session_8080=a", "toolkeep_session_8080=a"], None),
            (vec![], None),
        ] {
            let mut pairs = vec![host];
            pairs.extend(lines.iter().map(|line| ("cookie", *line)));
            assert_eq!(ConsoleCookie::Session.read(&headers(&pairs)), expected, "{lines:?}");
        }
        let named = headers(&[("host", "tools.example"), ("cookie", "toolkeep_session=x")]);
        assert_eq!(ConsoleCookie::Session.read(&named), Some("x"));
    }

    #[test]
    fn a_stored_cookie_has_every_restriction() {
        let headers = headers(&[("host", "localhost:1")]);
        assert_eq!(
            ConsoleCookie::Session.store(&headers, "t", false),
            "toolkeep_session_1=t; Path=/ui; HttpOnly; SameSite=Strict"
        );
        assert!(ConsoleCookie::SignIn.store(&headers, "t", true).ends_with("; Secure"));
        assert_eq!(
            ConsoleCookie::IssuerSignIn.store(&headers, "t", true),
            "toolkeep_issuer_1=t; Path=/ui/sign-in/issuers; HttpOnly; SameSite=Lax; Max-Age=600; Secure"
        );
        assert!(ConsoleCookie::IssuerSignIn.remove(&headers).ends_with("Lax; Max-Age=0"));
        assert!(ConsoleCookie::Session.remove(&headers).ends_with("; Max-Age=0"));
    }
}
