//! Pending approvals: their store and limits, and the notifier for programs and the webhook.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use egress::EgressClient;
use gateway::{ApprovalComponents, ApprovalEvent, ApprovalObserver, ApprovalSettings, Gateway};
use programs::PendingCalls;
use server_core::{EventLog, PendingCallOptions};
use store::EncryptedStore;
use tokio::sync::Notify;
use tool::Clock;

use super::app_assembly::CoreComponents;
use super::webhook::{self, WebhookQueue, WebhookSender};
use super::{App, startup_error};
use cli_core::command_error::CommandError;
use config::{Config, WebhookConfig};

/// Returns how callers are informed of pending calls.
pub(crate) fn pending_call_options(config: &Config) -> PendingCallOptions {
    PendingCallOptions {
        approval_page: config.approvals.page_url.clone(),
        ..PendingCallOptions::default()
    }
}

/// Restores the pending calls of the previous process.
pub(crate) async fn restore_pending_calls(gateway: &Gateway) -> Result<(), CommandError> {
    let pending = gateway.recover_approvals().await.map_err(startup_error("the pending calls"))?;
    if pending > 0 {
        tracing::info!(pending, "restored calls that wait for an approval");
    }
    Ok(())
}

/// Forwards approval events to waiting programs and to the configured webhook.
#[derive(Debug)]
pub(crate) struct ApprovalNotifier {
    egress: EgressClient,
    clock: Arc<dyn Clock>,
    webhook: ArcSwapOption<WebhookQueue>,
    webhook_config: Mutex<Option<WebhookConfig>>,
    /// The sender to switch to after a configuration change.
    next_sender: Mutex<Option<SenderChange>>,
    sender_changed: Notify,
    /// The calls that programs wait for.
    pending_calls: Arc<PendingCalls>,
    /// The events of this server.
    events: Arc<EventLog>,
}

/// A change of the sender; `None` if no webhook is configured any more.
#[derive(Debug)]
struct SenderChange(Option<WebhookSender>);

impl ApprovalObserver for ApprovalNotifier {
    fn notify_event(&self, event: &ApprovalEvent) {
        self.pending_calls.handle_event(event);
        self.events.push_approval(event);
        if let Some(hook) = self.webhook.load().as_ref() {
            hook.notify_event(event);
        }
    }
}

impl ApprovalNotifier {
    /// Switches to another webhook if the configuration names a different one. Events still queued
    /// for the old webhook are dropped.
    fn set_webhook(&self, config: Option<&WebhookConfig>) -> Result<(), String> {
        let mut current_config = self.webhook_config.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unchanged = match (current_config.as_ref(), config) {
            (None, None) => true,
            (Some(old), Some(new)) => {
                old.url == new.url && old.secret.expose() == new.secret.expose()
            }
            _ => false,
        };
        if is_unchanged {
            return Ok(());
        }
        let new_webhook = config
            .map(|hook| webhook::webhook_channel(hook, &self.egress, &self.clock))
            .transpose()?;
        let (hook, teller) =
            new_webhook.map_or((None, None), |(hook, teller)| (Some(hook), Some(teller)));
        *current_config = config.cloned();
        *self.next_sender.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(SenderChange(teller));
        self.webhook.store(hook.map(Arc::new));
        self.sender_changed.notify_one();
        Ok(())
    }

    /// Delivers events to the current webhook; never returns.
    pub(crate) async fn run_webhook(&self) {
        let mut current = None;
        loop {
            if let Some(SenderChange(next)) =
                self.next_sender.lock().unwrap_or_else(PoisonError::into_inner).take()
            {
                current = next;
            }
            let delivery = async {
                match &mut current {
                    Some(teller) => teller.deliver_events().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = delivery => {}
                () = self.sender_changed.notified() => {}
            }
        }
    }
}

fn approval_settings(config: &Config) -> ApprovalSettings {
    let approvals = &config.approvals;
    ApprovalSettings {
        decision_timeout: approvals.expires_after,
        max_pending_per_key: approvals.max_pending,
        max_requests_per_minute: approvals.max_requests_per_minute,
        client_confirming_keys: approvals.client_confirm.clone(),
        ..ApprovalSettings::default()
    }
}

/// Applies new approval settings. Calls that already wait keep their expiry.
pub(crate) fn apply_config(config: &Config, app: &App) {
    app.gateway.set_approval_settings(approval_settings(config));
    app.source_factory.programs.set_max_pending_calls(config.approvals.max_pending);
    app.state.set_approval_page(config.approvals.page_url.clone());
    if let Err(error) = app.approval_notifier.set_webhook(config.approvals.webhook.as_ref()) {
        tracing::error!(%error, "cannot use the configured webhook; the previous one stays active");
    }
}

/// Builds the approval components and the notifier from the configuration.
pub(crate) fn build_approvals(
    config: &Config,
    core: &CoreComponents,
    store: EncryptedStore,
    clock: &Arc<dyn Clock>,
    pending_calls: &Arc<PendingCalls>,
) -> Result<(ApprovalComponents, Arc<ApprovalNotifier>), CommandError> {
    let notifier = Arc::new(ApprovalNotifier {
        egress: core.egress.clone(),
        clock: Arc::clone(clock),
        pending_calls: Arc::clone(pending_calls),
        events: Arc::clone(&core.events),
        webhook: ArcSwapOption::empty(),
        webhook_config: Mutex::default(),
        next_sender: Mutex::default(),
        sender_changed: Notify::new(),
    });
    notifier
        .set_webhook(config.approvals.webhook.as_ref())
        .map_err(startup_error("the webhook"))?;
    let components = ApprovalComponents {
        store: Arc::new(store),
        principal_resolver: Arc::clone(&core.keys) as _,
        observer: Arc::clone(&notifier) as _,
        settings: approval_settings(config),
    };
    Ok((components, notifier))
}
