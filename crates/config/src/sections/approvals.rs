//! Calls that are held: times, bounds, and who is told.

use std::collections::HashSet;
use std::time::Duration;

use option_types::{LONGEST, Patience};
use tool::Secret;
use url::Url;

use crate::node::shorten;
use crate::parsers::{collect, count, list, plain_text, text, time};
use crate::section::{section, subsection};
use crate::shown::HIDDEN;
use crate::value::{ConfigValue, ValueParser as _};

/// Fewer bytes are no key.
const KEY: usize = 16;

section! {
    /// Calls that are held until a person has agreed.
    #[derive(Debug, Clone)]
    pub struct ApprovalsConfig as "Approvals": Default, Show {
        /// How long a call waits for a decision, such as `10m`; at most `1h`. Default: `10m`.
        pub expires: Duration = time(LONGEST), default Patience::default().expires;
        /// Calls of one key that may wait at once. Default: 32.
        pub pending: usize = count(10_000), default Patience::default().pending;
        /// Calls that one key may have held within a minute. Default: 60.
        pub per_minute: usize = count(10_000), default Patience::default().per_minute;
        /// Ids of the keys whose client may give the approval itself, where it can ask a person. Without
        /// this, what a client answers is no approval.
        pub client_confirm: HashSet<String> = list(text()).map(collect::<HashSet<_>, _>);
        /// The page that a person is sent to, with `{id}` where the call's id belongs. Default: a page of
        /// this server that tells what to type.
        pub page: Option<String> = text().then(page);
        /// Who is told of each held call, and of each change of one.
        pub webhook: Option<WebhookConfig> = subsection::<WebhookConfig>();
    }
}

section! {
    /// An address that is told by POST. Each request is signed with HMAC-SHA256 over its time and body.
    #[derive(Debug, Clone)]
    pub struct WebhookConfig as "Webhook": Show {
        /// Its address.
        pub url: Url = text().convert_text(webhook_url), required "a webhook has an `url` and a `secret`", shown HIDDEN.into();
        /// The key of the signature, at least 16 bytes; better a variable: `${HOOK_SECRET}`.
        pub secret: Secret = plain_text().then(webhook_secret), required "a webhook has an `url` and a `secret`";
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

fn page(value: ConfigValue<'_>, text: String) -> Option<String> {
    if text.contains("{id}") && Url::parse(&text).is_ok_and(|url| is_web(&url)) {
        return Some(text);
    }
    let fix = "write it as `https://console.example/approvals/{id}`";
    value.fault(format!("`{}` is no page", shorten(&text)), fix);
    None
}

fn webhook_url(value: ConfigValue<'_>, text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(is_web);
    if url.is_none() {
        let fix = "write it as `https://HOST/PATH`";
        value.fault_hidden("this is no address of a webhook", fix);
    }
    url
}

fn webhook_secret(value: ConfigValue<'_>, text: String) -> Option<Secret> {
    if text.len() < KEY {
        let message = format!("a webhook's secret has at least {KEY} bytes");
        value.fault_hidden(message, "make one: `openssl rand -hex 32`");
        return None;
    }
    Some(Secret::new(text))
}

#[cfg(test)]
mod tests;
