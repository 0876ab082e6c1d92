//! Where calls are held, and who is told of it.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use egress::Egress;
use gateway::{Event, Gateway, Herald, Holding, Patience};
use programs::PendingCalls;
use server_core::Notices;
use store::Sealed;
use tokio::sync::Notify;
use tool::Clock;

use super::assembly::Foundation;
use super::webhook::{self, Teller, Webhook};
use super::{App, fault};
use cli_core::failure::Failure;
use config::{Config, WebhookConfig};

/// How callers are told of them.
pub(crate) fn notices(config: &Config) -> Notices {
    Notices { page: config.approvals.page.clone(), ..Notices::default() }
}

/// Takes up what was held when the process before ended.
pub(crate) async fn restored(gateway: &Gateway) -> Result<(), Failure> {
    let held = gateway.restore().await.map_err(fault("the held calls"))?;
    if held > 0 {
        tracing::info!(held, "calls still wait for an approval");
    }
    Ok(())
}

/// Who is told of held calls now: the webhook of the configuration, where it has one.
#[derive(Debug)]
pub(crate) struct Hooks {
    egress: Egress,
    clock: Arc<dyn Clock>,
    hook: ArcSwapOption<Webhook>,
    said: Mutex<Option<WebhookConfig>>,
    /// What tells from here on, where that changed.
    next: Mutex<Option<Instead>>,
    changed: Notify,
    /// The calls that programs wait for.
    pending_calls: Arc<PendingCalls>,
}

/// What tells instead; nothing where no webhook is said any more.
#[derive(Debug)]
struct Instead(Option<Teller>);

impl Herald for Hooks {
    fn tell(&self, event: &Event) {
        self.pending_calls.notify(event);
        if let Some(hook) = self.hook.load().as_ref() {
            hook.tell(event);
        }
    }
}

impl Hooks {
    /// Tells another webhook from here on, where it is another. What the old one was not told yet is lost.
    fn set(&self, config: Option<&WebhookConfig>) -> Result<(), String> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let same = match (said.as_ref(), config) {
            (None, None) => true,
            (Some(old), Some(new)) => old.url == new.url && old.secret.open() == new.secret.open(),
            _ => false,
        };
        if same {
            return Ok(());
        }
        let made = config.map(|hook| webhook::new(hook, &self.egress, &self.clock)).transpose()?;
        let (hook, teller) = made.map_or((None, None), |(hook, teller)| (Some(hook), Some(teller)));
        *said = config.cloned();
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instead(teller));
        self.hook.store(hook.map(Arc::new));
        self.changed.notify_one();
        Ok(())
    }

    /// Tells the webhook, where there is one; never ends.
    pub(crate) async fn run(&self) {
        let mut current = None;
        loop {
            if let Some(Instead(next)) =
                self.next.lock().unwrap_or_else(PoisonError::into_inner).take()
            {
                current = next;
            }
            let telling = async {
                match &mut current {
                    Some(teller) => teller.run().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = telling => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

fn patience(config: &Config) -> Patience {
    let approvals = &config.approvals;
    Patience {
        expires: approvals.expires,
        pending: approvals.pending,
        per_minute: approvals.per_minute,
        client_confirm: approvals.client_confirm.clone(),
        ..Patience::default()
    }
}

/// From here on calls are held as this configuration says; those that wait keep their time.
pub(crate) fn follow(config: &Config, app: &App) {
    app.gateway.set_patience(patience(config));
    app.workshop.programs.set_pending(config.approvals.pending);
    app.doors.set_page(config.approvals.page.clone());
    if let Err(error) = app.hooks.set(config.approvals.webhook.as_ref()) {
        tracing::error!(%error, "the webhook of the configuration cannot be used; the old one stays");
    }
}

/// From the configuration; with what tells the webhook.
pub(crate) fn holding(
    config: &Config,
    foundation: &Foundation,
    store: Sealed,
    clock: &Arc<dyn Clock>,
    pending_calls: &Arc<PendingCalls>,
) -> Result<(Holding, Arc<Hooks>), Failure> {
    let hooks = Arc::new(Hooks {
        egress: foundation.egress.clone(),
        clock: Arc::clone(clock),
        pending_calls: Arc::clone(pending_calls),
        hook: ArcSwapOption::empty(),
        said: Mutex::default(),
        next: Mutex::default(),
        changed: Notify::new(),
    });
    hooks.set(config.approvals.webhook.as_ref()).map_err(fault("the webhook"))?;
    let holding = Holding {
        store: Arc::new(store),
        holders: Arc::clone(&foundation.keys) as _,
        herald: Arc::clone(&hooks) as _,
        patience: patience(config),
    };
    Ok((holding, hooks))
}
