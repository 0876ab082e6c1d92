//! Sends approval events to the webhook: signed, in order, with retries, without blocking calls.
//!
//! Arguments are left out because they may be confidential.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use egress::{EgressClient, Origin, RequestLimits, UrlTrust};
use gateway::{ApprovalEvent, ApprovalEventKind, ApprovalObserver};
use http::{Request, header};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tool::{Clock, Secret};

use config::WebhookConfig;

/// Maximum number of queued events; further events are dropped and logged.
const QUEUE_CAPACITY: usize = 256;
/// Delay before each retry.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(5), Duration::from_secs(20)];
/// Largest response that is read, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The bounded queue of events for the webhook.
#[derive(Debug)]
pub(crate) struct WebhookQueue(mpsc::Sender<Value>);

/// Delivers queued events to the webhook.
#[derive(Debug)]
pub(crate) struct WebhookSender {
    events: mpsc::Receiver<Value>,
    url: String,
    class: UrlTrust,
    secret: Secret,
    egress: EgressClient,
    clock: Arc<dyn Clock>,
}

/// Creates a webhook's queue and its sender.
pub(crate) fn webhook_channel(
    config: &WebhookConfig,
    egress: &EgressClient,
    clock: &Arc<dyn Clock>,
) -> Result<(WebhookQueue, WebhookSender), String> {
    let (sender, events) = mpsc::channel(QUEUE_CAPACITY);
    let origin = Origin::parse(config.url.as_str()).map_err(|error| error.to_string())?;
    let webhook_sender = WebhookSender {
        events,
        url: config.url.to_string(),
        class: UrlTrust::Configured { origin },
        secret: config.secret.clone(),
        egress: egress.with_separate_pool(),
        clock: Arc::clone(clock),
    };
    Ok((WebhookQueue(sender), webhook_sender))
}

impl ApprovalObserver for WebhookQueue {
    fn notify_event(&self, event: &ApprovalEvent) {
        let word = match event.kind {
            ApprovalEventKind::Requested => "approval.held",
            ApprovalEventKind::Changed => "approval.changed",
        };
        let mut shown = serde_json::to_value(&event.approval).unwrap_or_default();
        if let Some(shown) = shown.as_object_mut() {
            shown.shift_remove("arguments");
        }
        let news = json!({ "event": word, "approval": shown });
        if self.0.try_send(news).is_err() {
            tracing::warn!(call = %event.approval.id, "webhook queue is full; event dropped");
        }
    }
}

impl WebhookSender {
    /// Delivers queued events in order; never returns.
    pub(crate) async fn deliver_events(&mut self) {
        while let Some(event) = self.events.recv().await {
            let body = Bytes::from(event.to_string());
            if let Err(why) = self.deliver_with_retries(&body).await {
                tracing::warn!("cannot deliver an event to the webhook: {why}");
            }
        }
        std::future::pending::<()>().await;
    }

    async fn deliver_with_retries(&self, body: &Bytes) -> Result<(), String> {
        let mut delays = RETRY_DELAYS.iter();
        loop {
            let why = match self.send_once(body).await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            let Some(wait) = delays.next() else { return Err(why) };
            tokio::time::sleep(*wait).await;
        }
    }

    async fn send_once(&self, body: &Bytes) -> Result<(), String> {
        // Each attempt has its own signature and timestamp, so that the receiver can reject old
        // requests.
        let time = (self.clock.wall_now().0 / 1_000).to_string();
        let signature = sign_payload(&self.secret, &time, body);
        let request = Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header("toolkeep-timestamp", time)
            .header("toolkeep-signature", signature)
            .body(body.clone())
            .map_err(|error| error.to_string())?;
        let second = Duration::from_secs(1);
        let limits = RequestLimits {
            connect_timeout: 5 * second,
            header_timeout: 10 * second,
            body_idle_timeout: 5 * second,
            max_body_bytes: MAX_RESPONSE_BYTES,
        };
        let sent = self.egress.send_request(&self.class, request, limits).await;
        let status = sent.map_err(|error| error.to_string())?.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(format!("the webhook responded with {}", status.as_u16()))
        }
    }
}

/// Signs a payload: `v1=` and the hexadecimal HMAC-SHA256 of timestamp, a dot and the body.
fn sign_payload(secret: &Secret, time: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(time.as_bytes());
    context.update(b".");
    context.update(body);
    format!("v1={}", HEXLOWER.encode(context.sign().as_ref()))
}

#[cfg(test)]
mod tests {
    use tool::Secret;

    /// By `printf '%s' '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef`.
    #[test]
    fn the_signature_is_what_others_compute() {
        let signed = super::sign_payload(&Secret::new("0123456789abcdef"), "1700000000", b"{}");
        assert_eq!(signed, EXPECTED);
    }

    const EXPECTED: &str = "v1=e4f8e2ecae2295b2ddb2f0b5584c8275e226c0ebe9b3b819e70156bb67122e3e";
}
