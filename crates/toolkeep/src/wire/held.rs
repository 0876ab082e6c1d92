//! Where calls are held, and who is told of it.

use std::sync::Arc;

use gateway::{Herald, Holding, Nobody, Patience};
use guard::egress::Egress;
use server::Keys;
use store::Sealed;
use tool::Clock;

use super::fault;
use super::webhook::{self, Teller};
use crate::cli::failure::Failure;
use crate::config::Config;

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
