//! Sends approval events to the webhook: signed, in order, with retries, without blocking calls.
//!
//! Arguments are left out because they may be confidential.

use std::sync::Arc;

use bytes::Bytes;
use egress::{EgressClient, Origin};
use gateway::{ApprovalEvent, ApprovalEventKind, ApprovalObserver};
use serde_json::json;
use server_core::webhook::{WebhookMessage, WebhookSecret, WebhookTarget};
use tokio::sync::mpsc;
use tool::Clock;

use super::webhook_transport::EgressWebhooks;
use config::WebhookConfig;

/// Maximum number of queued events; further events are dropped and logged.
const QUEUE_CAPACITY: usize = 256;

/// The bounded queue of events for the webhook.
#[derive(Debug)]
pub(crate) struct WebhookQueue(mpsc::Sender<WebhookMessage>);

/// Delivers queued events to the webhook.
#[derive(Debug)]
pub(crate) struct WebhookSender {
    messages: mpsc::Receiver<WebhookMessage>,
    url: String,
    secret: WebhookSecret,
    transport: Arc<EgressWebhooks>,
    clock: Arc<dyn Clock>,
}

/// Creates a webhook's queue and its sender.
pub(crate) fn webhook_channel(
    config: &WebhookConfig,
    egress: &EgressClient,
    clock: &Arc<dyn Clock>,
) -> Result<(WebhookQueue, WebhookSender), String> {
    let (sender, messages) = mpsc::channel(QUEUE_CAPACITY);
    let origin = Origin::parse(config.url.as_str()).map_err(|error| error.to_string())?;
    let webhook_sender = WebhookSender {
        messages,
        url: config.url.to_string(),
        secret: WebhookSecret::from_operator(&config.secret),
        transport: EgressWebhooks::new(egress, vec![origin]),
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
        let body = Bytes::from(json!({ "event": word, "approval": shown }).to_string());
        if self.0.try_send(WebhookMessage::new("approval", body)).is_err() {
            tracing::warn!(call = %event.approval.id, "webhook queue is full; event dropped");
        }
    }
}

impl WebhookSender {
    /// Delivers queued events in order; never returns.
    pub(crate) async fn deliver_events(&mut self) {
        while let Some(message) = self.messages.recv().await {
            let target = WebhookTarget {
                transport: self.transport.as_ref(),
                clock: self.clock.as_ref(),
                url: &self.url,
                secrets: std::slice::from_ref(&self.secret),
            };
            if let Err(why) = target.deliver_message(&message).await {
                tracing::warn!("cannot deliver an event to the webhook: {why}");
            }
        }
        std::future::pending::<()>().await;
    }
}
