//! Approvals: how long a call waits for a decision, limits, and the webhook.

use std::collections::HashSet;
use std::time::Duration;

use option_types::{ApprovalSettings, MAX_DECISION_TIMEOUT};
use tool::Secret;
use url::Url;

use crate::config_display::REDACTED;
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{section, subsection};
use crate::value_parsers::{collect_items, count, duration, list, scalar_text, text};
use crate::yaml_tree::shorten_text;

/// The shortest signing key of a webhook, in bytes.
const MIN_SIGNING_KEY_BYTES: usize = 16;

section! {
    /// Approvals: calls that wait for a person's decision.
    #[derive(Debug, Clone)]
    pub struct ApprovalsConfig as "Approvals": Default, RedactedJson {
        /// How long a call waits for a decision, such as `10m`: from `1ms` to `1h`. Default: `10m`.
        pub expires_after as "expires": Duration = duration(MAX_DECISION_TIMEOUT),
            default ApprovalSettings::default().decision_timeout;
        /// The most pending calls of one key: from 1 to 10000. Default: 32.
        pub max_pending as "pending": usize = count(10_000),
            default ApprovalSettings::default().max_pending_per_key;
        /// The most calls of one key that may become pending in a minute: from 1 to 10000. Default: 60.
        pub max_requests_per_minute as "per_minute": usize = count(10_000),
            default ApprovalSettings::default().max_requests_per_minute;
        /// Ids of the keys whose client may approve calls itself, by asking a person. Default: none, and an answer of a
        /// client is no approval.
        pub client_confirm: HashSet<String> = list(text()).map(collect_items::<HashSet<_>, _>);
        /// URL of the page where a person decides, with `{id}` in place of the call's id. Default: a page of
        /// this server that shows the commands to type.
        pub page_url as "page": Option<String> = text().and_then(page_url);
        /// The webhook that receives each pending call and each change of one. Default: none.
        pub webhook: Option<WebhookConfig> = subsection::<WebhookConfig>();
    }
}

section! {
    /// A URL that receives events by POST. Each request is signed as Standard Webhooks define it.
    #[derive(Debug, Clone)]
    pub struct WebhookConfig as "Webhook": RedactedJson {
        /// The URL, of `http` or `https`.
        pub url: Url = text().convert_text(webhook_url),
            required "write `url` and `secret`",
            display REDACTED.into();
        /// The signing key, at least 16 bytes: `whsec_` and base64, or the bytes of the text itself. Prefer a variable: `${HOOK_SECRET}`.
        pub secret: Secret = scalar_text().and_then(webhook_secret),
            required "write `url` and `secret`";
    }
}

fn is_web_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

fn page_url(value: ConfigValue<'_>, text: String) -> Option<String> {
    if text.contains("{id}") && Url::parse(&text).is_ok_and(|url| is_web_url(&url)) {
        return Some(text);
    }
    let help = "write it as `https://console.example/approvals/{id}`";
    value.report(format!("invalid page URL `{}`", shorten_text(&text)), help);
    None
}

fn webhook_url(value: ConfigValue<'_>, text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(is_web_url);
    if url.is_none() {
        value.report_redacted("invalid webhook URL", "write it as `https://HOST/PATH`");
    }
    url
}

fn webhook_secret(value: ConfigValue<'_>, text: String) -> Option<Secret> {
    if text.len() < MIN_SIGNING_KEY_BYTES {
        let message =
            format!("a webhook's secret must have at least {MIN_SIGNING_KEY_BYTES} bytes");
        value.report_redacted(message, "make one: `openssl rand -hex 32`");
        return None;
    }
    Some(Secret::new(text))
}

#[cfg(test)]
mod tests;
