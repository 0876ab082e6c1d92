//! Where calls are held, and who is told of it.

use std::sync::Arc;

use gateway::{Gateway, Herald, Holding, Nobody, Patience};
use guard::egress::Egress;
use server::{Keys, Notices};
use store::Sealed;
use tool::Clock;

use super::fault;
use super::webhook::{self, Teller};
use crate::cli::failure::Failure;
use crate::config::Config;

/// How callers are told of them.
pub(super) fn notices(config: &Config) -> Notices {
    Notices { page: config.approvals.page.clone(), ..Notices::default() }
}

/// Takes up what was held when the process before ended.
pub(super) async fn restored(gateway: &Gateway) -> Result<(), Failure> {
    let held = gateway.restore().await.map_err(fault("the held calls"))?;
    if held > 0 {
        tracing::info!(held, "calls still wait for an approval");
    }
    Ok(())
}

/// Tells the webhook, where there is one; never ends.
pub(super) async fn telling(teller: Option<Teller>) {
    match teller {
        Some(teller) => teller.run().await,
        None => std::future::pending().await,
    }
}

/// From the configuration; with what tells the webhook, where there is one.
pub(super) fn holding(
    config: &Config,
    keys: &Arc<Keys>,
    (store, egress): (Sealed, &Egress),
    clock: &Arc<dyn Clock>,
) -> Result<(Holding, Option<Teller>), Failure> {
    let approvals = &config.approvals;
    let (herald, teller): (Arc<dyn Herald>, _) = match &approvals.webhook {
        None => (Arc::new(Nobody), None),
        Some(hook) => {
            let (hook, teller) = webhook::new(hook, egress, clock).map_err(fault("the webhook"))?;
            (Arc::new(hook), Some(teller))
        }
    };
    let patience = Patience {
        expires: approvals.expires,
        pending: approvals.pending,
        per_minute: approvals.per_minute,
        client_confirm: approvals.client_confirm.clone(),
        ..Patience::default()
    };
    let holding =
        Holding { store: Arc::new(store), holders: Arc::clone(keys) as _, herald, patience };
    Ok((holding, teller))
}
