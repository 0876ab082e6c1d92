//! Parser for the `WWW-Authenticate: Bearer` header (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1).

use http::{HeaderMap, header};

/// Maximum bytes of one header, and maximum headers.
const HEADER_LIMITS: (usize, usize) = (8 << 10, 8);
/// Maximum scopes of one challenge.
const MAX_SCOPES: usize = 64;

/// Challenge for a bearer token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    /// URL of the protected resource metadata.
    pub(super) resource_metadata_url: Option<String>,
    /// Scopes that the request needs.
    pub(super) scopes: Option<Vec<String>>,
    /// Error code of RFC 6750.
    pub(super) error_code: Option<String>,
}

impl BearerChallenge {
    /// Parses the headers of a response; empty if no challenge is understood.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut all = Self::default();
        for value in headers.get_all(header::WWW_AUTHENTICATE).iter().take(HEADER_LIMITS.1) {
            if let Some(text) = value.to_str().ok().filter(|text| text.len() <= HEADER_LIMITS.0) {
                all.parse_header(text);
            }
        }
        all
    }

    /// Returns whether the token lacks scopes.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error_code.as_deref() == Some("insufficient_scope")
    }

    fn parse_header(&mut self, text: &str) {
        let mut is_bearer = false;
        for part in split_at_commas(text) {
            let mut part = part.trim();
            let token_end = part.find(|c: char| !is_token_char(c)).unwrap_or(part.len());
            let (scheme, rest) = part.split_at_checked(token_end).unwrap_or((part, ""));
            if !scheme.is_empty() && (rest.is_empty() || rest.starts_with([' ', '\t'])) {
                let rest = rest.trim_start();
                if !rest.starts_with('=') {
                    is_bearer = scheme.eq_ignore_ascii_case("bearer");
                    part = rest;
                }
            }
            if let Some((name, value)) = part.split_once('=').filter(|_| is_bearer) {
                self.set_parameter(name.trim(), unquote(value.trim()));
            }
        }
    }

    fn set_parameter(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => drop(self.resource_metadata_url.get_or_insert(value)),
            "error" => drop(self.error_code.get_or_insert(value)),
            "scope" => drop(self.scopes.get_or_insert_with(|| parse_scopes(&value))),
            _ => {}
        }
    }
}

/// Parses a list of scopes (RFC 6749 3.3); invalid ones are left out.
pub(super) fn parse_scopes(text: &str) -> Vec<String> {
    let fits = |word: &&str| {
        let allowed = |b: u8| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        word.len() <= 256 && word.bytes().all(allowed)
    };
    text.split_ascii_whitespace().filter(fits).take(MAX_SCOPES).map(str::to_owned).collect()
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Splits at commas outside of quotes.
fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(|c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        c == ',' && !quoted
    })
    .collect()
}

fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"') else { return text.to_owned() };
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut out = String::with_capacity(inner.len());
    let mut escaped = false;
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::BearerChallenge;

    fn of(values: &[&str]) -> BearerChallenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        }
        BearerChallenge::from_headers(&headers)
    }

    #[test]
    fn parameters_are_read_however_they_are_written() {
        let wanted = BearerChallenge {
            resource_metadata_url: Some("https://h/.well-known/x?a=1,b".to_owned()),
            scopes: Some(vec!["a:b".to_owned(), "c".to_owned()]),
            error_code: Some("insufficient_scope".to_owned()),
        };
        for text in [
            r#"Bearer resource_metadata="https://h/.well-known/x?a=1,b", scope="a:b c", error="insufficient_scope""#,
            r#"bearer  Scope = "a:b  c" ,error=insufficient_scope,resource_metadata="https://h/.well-known/x?a=1,b""#,
            r#"Basic realm="a, Bearer scope=\"no\"", Bearer scope="a:b c", error="insufficient_\scope", resource_metadata="https://h/.well-known/x?a=1,b""#,
            r#"Negotiate abc==, Bearer error="insufficient_scope", scope="a:b c", resource_metadata="https://h/.well-known/x?a=1,b", Digest scope="z", nonce="q""#,
        ] {
            assert_eq!(of(&[text]), wanted, "{text}");
            assert!(of(&[text]).is_insufficient_scope());
        }
        assert_eq!(of(&["Basic realm=x", r#"Bearer scope="q""#]).scopes.unwrap(), ["q"]);
    }

    #[test]
    fn what_is_no_challenge_says_nothing() {
        for text in [
            "",
            ",,,",
            "Bearer",
            "Basic scope=\"a\"",
            "Bearer scope",
            "\"",
            "=",
            "Bearer =,=\"",
            "é",
        ] {
            let mut challenge = BearerChallenge::default();
            challenge.parse_header(text);
            assert_eq!(challenge, BearerChallenge::default(), "{text}");
        }
        assert_eq!(of(&[r#"Bearer scope="a"b\" "#]).scopes.unwrap(), Vec::<String>::new());
        let long = format!("Bearer scope=\"{}\"", "a".repeat(9_000));
        assert_eq!(of(&[&long]), BearerChallenge::default());
        let many = format!("Bearer scope=\"{}\"", "a ".repeat(1_000));
        assert_eq!(of(&[&many]).scopes.unwrap().len(), 64);
    }
}
