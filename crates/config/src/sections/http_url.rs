//! Parses HTTP URLs, and checks which of them may receive secrets and tokens.

use url::{Host, Url};

use crate::config_value::ConfigValue;
use crate::yaml_tree::shorten_text;

const URL_HAS_CREDENTIALS: &str = "the URL contains a user name or a password";

/// Parses a URL of HTTP or HTTPS. An error names its cause and never a password.
pub(crate) fn parse_http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| format!("invalid HTTP URL `{}`", shorten_text(text)))?;
    if url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err(URL_HAS_CREDENTIALS.to_owned())
}

/// Parses a URL of HTTP or HTTPS, and reports an invalid one.
pub(crate) fn http_url(value: ConfigValue<'_>, text: &str) -> Option<Url> {
    let report = |message: String| {
        if message == URL_HAS_CREDENTIALS {
            value.report_redacted(message, "use `credential: { bearer: ${VARIABLE} }`");
        } else {
            value.report(message, "write it as `http://HOST:PORT` or `https://HOST`");
        }
    };
    parse_http_url(text).map_err(report).ok()
}

/// Checks a URL that receives secrets, and keeps its text: an issuer is compared byte by byte.
pub(crate) fn check_secret_url(
    value: ConfigValue<'_>,
    text: String,
    is_allowed: impl Fn(&Url) -> bool,
) -> Option<String> {
    if !is_allowed(&http_url(value, &text)?) {
        let message = format!("secrets and tokens cannot be sent to `{}`", shorten_text(&text));
        value.report(message, "write it as `https://HOST/PATH`");
    }
    Some(text)
}

/// Checks a URL of [`is_https_or_loopback`], and keeps its text.
pub(crate) fn secure_url(value: ConfigValue<'_>, text: String) -> Option<String> {
    check_secret_url(value, text, is_https_or_loopback)
}

/// Whether a URL is encrypted, or of this machine.
pub(crate) fn is_https_or_loopback(url: &Url) -> bool {
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
}
