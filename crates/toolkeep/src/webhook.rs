//! The webhook: told of held calls, signed, in order, a few times each, and never waited for.
//!
//! It is told what waits and for whom, and not the arguments: those may be confidential.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{Class, Egress, HttpLimits, Origin};
use gateway::{Event, Heard, Herald};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Request, header};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::mpsc;
use tool::{Clock, Secret};

use config::WebhookConfig;

/// News that wait to be told; what is more is lost, and said so in the log.
const NEWS: usize = 256;
/// Before each try after the first.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(5), Duration::from_secs(20)];
/// Bytes of an answer that are read.
const ANSWER: usize = 64 << 10;

/// Takes news.
#[derive(Debug)]
pub(crate) struct Webhook(mpsc::Sender<Value>);

/// Tells them.
#[derive(Debug)]
pub(crate) struct Teller {
    news: mpsc::Receiver<Value>,
    url: String,
    class: Class,
    secret: Secret,
    egress: Egress,
    clock: Arc<dyn Clock>,
}

/// A webhook, and what tells it.
pub(crate) fn new(
    config: &WebhookConfig,
    egress: &Egress,
    clock: &Arc<dyn Clock>,
) -> Result<(Webhook, Teller), String> {
    let (sender, news) = mpsc::channel(NEWS);
    let origin = Origin::parse(config.url.as_str()).map_err(|error| error.to_string())?;
    let teller = Teller {
        news,
        url: config.url.to_string(),
        class: Class::Operator { origin },
        secret: config.secret.clone(),
        egress: egress.apart(),
        clock: Arc::clone(clock),
    };
    Ok((Webhook(sender), teller))
}

impl Herald for Webhook {
    fn tell(&self, event: &Event) {
        let word = match event.heard {
            Heard::Held => "approval.held",
            Heard::Changed => "approval.changed",
        };
        let mut shown = serde_json::to_value(&event.shown).unwrap_or_default();
        if let Some(shown) = shown.as_object_mut() {
            shown.shift_remove("arguments");
        }
        let news = json!({ "event": word, "approval": shown });
        if self.0.try_send(news).is_err() {
            tracing::warn!(call = %event.shown.id, "the webhook is behind: it is not told of this");
        }
    }
}

impl Teller {
    /// Tells all news as they come; never ends.
    pub(crate) async fn run(&mut self) {
        while let Some(news) = self.news.recv().await {
            let body = Bytes::from(news.to_string());
            if let Err(why) = self.told(&body).await {
                tracing::warn!("the webhook was not told: {why}");
            }
        }
        std::future::pending::<()>().await;
    }

    async fn told(&self, body: &Bytes) -> Result<(), String> {
        let mut waits = AGAIN.iter();
        loop {
            let why = match self.send(body).await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            let Some(wait) = waits.next() else { return Err(why) };
            tokio::time::sleep(*wait).await;
        }
    }

    async fn send(&self, body: &Bytes) -> Result<(), String> {
        // Signed anew each time, so that an old request can be told by its time.
        let time = (self.clock.wall().0 / 1_000).to_string();
        let signature = sign(&self.secret, &time, body).ok_or("it cannot be signed")?;
        let request = Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header("toolkeep-timestamp", time)
            .header("toolkeep-signature", signature)
            .body(body.clone())
            .map_err(|error| error.to_string())?;
        let second = Duration::from_secs(1);
        let limits = HttpLimits {
            connect: 5 * second,
            headers: 10 * second,
            idle: 5 * second,
            body: ANSWER,
        };
        let sent = self.egress.send(&self.class, request, limits).await;
        let status = sent.map_err(|error| error.to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {}", status.as_u16())) }
    }
}

/// `v1=` and HMAC-SHA256 over time, a dot and the body, in hexadecimal.
fn sign(secret: &Secret, time: &str, body: &[u8]) -> Option<String> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(secret.open().as_bytes()).ok()?;
    hmac.update(time.as_bytes());
    hmac.update(b".");
    hmac.update(body);
    let mut text = "v1=".to_owned();
    for byte in hmac.finalize().into_bytes() {
        write!(text, "{byte:02x}").ok()?;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use tool::Secret;

    /// By `printf '%s' '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef`.
    #[test]
    fn the_signature_is_what_others_compute() {
        let signed = super::sign(&Secret::new("0123456789abcdef"), "1700000000", b"{}").unwrap();
        assert_eq!(signed, EXPECTED);
    }

    const EXPECTED: &str = "v1=e4f8e2ecae2295b2ddb2f0b5584c8275e226c0ebe9b3b819e70156bb67122e3e";
}
