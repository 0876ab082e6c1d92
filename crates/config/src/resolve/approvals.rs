//! Calls that are held: times, bounds, and who is told.

use std::collections::HashSet;
use std::time::Duration;

use tool::Secret;
use url::Url;

use super::Resolver;
use crate::field::Field;
use crate::high::{ApprovalsConfig, WebhookConfig};
use crate::low;
use crate::node::shorten;
use crate::units;

/// The most that may be configured.
const MOST: u64 = 10_000;
/// Fewer bytes are no key.
const KEY: usize = 16;

impl Resolver<'_> {
    /// What is written about them. Whether it may be used is for the faults to say.
    pub(super) fn approvals(&self, low: &low::Approvals) -> ApprovalsConfig {
        let default = ApprovalsConfig::default();
        let keys = low.client_confirm.get().into_iter().flatten().filter_map(Field::get);
        ApprovalsConfig {
            expires: self.expiry(&low.expires).unwrap_or(default.expires),
            pending: self.count(&low.pending).unwrap_or(default.pending),
            per_minute: self.count(&low.per_minute).unwrap_or(default.per_minute),
            client_confirm: keys.cloned().collect::<HashSet<_>>(),
            page: self.page(&low.page),
            webhook: low.webhook.given().and_then(|(hook, place)| self.webhook(hook, place)),
        }
    }

    fn expiry(&self, field: &Field<String>) -> Option<Duration> {
        let (text, place) = field.given()?;
        let told = |advice: String| {
            self.sink.tell(place, format!("`{}` is no such time", shorten(text)), &advice);
        };
        units::time(text, option_types::LONGEST).map_err(told).ok()
    }

    fn count(&self, field: &Field<u64>) -> Option<usize> {
        let (count, place) = field.given()?;
        if !(1..=MOST).contains(count) {
            self.sink.tell(place, format!("use a number from 1 to {MOST}"), "");
        }
        usize::try_from(*count).ok()
    }

    fn page(&self, field: &Field<String>) -> Option<String> {
        let (text, place) = field.given()?;
        let web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if text.contains("{id}") && Url::parse(text).is_ok_and(|url| web(&url)) {
            return Some(text.clone());
        }
        let message = format!("`{}` is no page", shorten(text));
        self.sink.tell(place, message, "write it as `https://console.example/approvals/{id}`");
        None
    }

    fn webhook(&self, low: &low::Webhook, place: crate::Place) -> Option<WebhookConfig> {
        let (url, at) = self.hooked(&low.url, place, "url")?;
        let web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let url = Url::parse(url).ok().filter(web);
        if url.is_none() {
            let fix = "write it as `https://HOST/PATH`";
            self.sink.tell_hidden(at, "this is no address of a webhook", fix);
        }
        let (secret, at) = self.hooked(&low.secret, place, "secret")?;
        if secret.0.len() < KEY {
            let message = format!("a webhook's secret has at least {KEY} bytes");
            self.sink.tell_hidden(at, &message, "make one: `openssl rand -hex 32`");
            return None;
        }
        Some(WebhookConfig { url: url?, secret: Secret::new(secret.0.clone()) })
    }

    fn hooked<'a, T>(
        &self,
        field: &'a Field<T>,
        place: crate::Place,
        key: &str,
    ) -> Option<(&'a T, crate::Place)> {
        if field.is_absent() {
            let fix = "a webhook has an `url` and a `secret`";
            self.sink.tell(place, format!("the key `{key}` is missing"), fix);
        }
        field.given()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::tests::{faults, good, reading};

    #[test]
    fn what_is_written_is_used_and_the_secret_does_not_show() {
        let config = good(
            "version: 1\napprovals:\n  expires: 1h\n  pending: 3\n  client_confirm: [abc]\n  page: https://c.example/a/{id}\n  webhook: { url: 'https://h.example/x', secret: 0123456789abcdef }\n",
        );
        let approvals = &config.approvals;
        assert_eq!((approvals.expires, approvals.pending), (Duration::from_hours(1), 3));
        assert!(approvals.client_confirm.contains("abc"));
        assert_eq!(approvals.per_minute, 60);
        assert_eq!(approvals.webhook.as_ref().unwrap().url.as_str(), "https://h.example/x");
        assert!(!format!("{config:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        for (yaml, fault) in [
            ("{ expires: 2h }", "`2h` is no such time"),
            ("{ pending: 0 }", "use a number from 1 to 10000"),
            ("{ page: /x }", "`/x` is no page"),
            ("{ webhook: { url: 'https://h' } }", "the key `secret` is missing"),
            ("{ webhook: { url: h, secret: 0123456789abcdef } }", "no address of a webhook"),
            ("{ webhook: { url: 'https://h', secret: hunter2 } }", "at least 16 bytes"),
        ] {
            let text = format!("version: 1\napprovals: {yaml}\n");
            let told = faults(&reading(&text, &[])).join("\n");
            assert!(told.contains(fault) && !told.contains("hunter2"), "{yaml}: {told}");
        }
    }
}
