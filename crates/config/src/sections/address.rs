//! Addresses of HTTP, and which of them secrets and tokens may go to.

use url::{Host, Url};

use crate::node::shorten;
use crate::value::ConfigValue;

const WITH_PASSWORD: &str = "a URL must not hold a user name or a password";

/// An address of HTTP; else what is wrong, without a password.
pub(crate) fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| format!("`{}` is no URL of HTTP", shorten(text)))?;
    if url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err(WITH_PASSWORD.to_owned())
}

/// For `then`: an address of HTTP.
pub(crate) fn url(value: ConfigValue<'_>, text: &str) -> Option<Url> {
    let fault = |message: String| {
        if message == WITH_PASSWORD {
            value.fault_hidden(message, "use `credential: { bearer: ${VARIABLE} }`");
        } else {
            value.fault(message, "write it as `http://HOST:PORT` or `https://HOST`");
        }
    };
    http_url(text).map_err(fault).ok()
}

/// An address as it is written, since an issuer is compared letter by letter.
pub(crate) fn secret_address(
    value: ConfigValue<'_>,
    text: String,
    fits: impl Fn(&Url) -> bool,
) -> Option<String> {
    if !fits(&url(value, &text)?) {
        let message = format!("`{}` is no address for secrets and tokens", shorten(&text));
        value.fault(message, "write it as `https://HOST/PATH`");
    }
    Some(text)
}

/// For `then`: an address of [`is_safe`], as it is written.
pub(crate) fn safe_address(value: ConfigValue<'_>, text: String) -> Option<String> {
    secret_address(value, text, is_safe)
}

/// Encrypted, or this machine itself.
pub(crate) fn is_safe(url: &Url) -> bool {
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
}
