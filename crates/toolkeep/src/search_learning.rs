//! Learning of tool search: built with the gateway that it observes, and the task that keeps it.

use std::sync::Arc;

use config::Config;
use gateway::Gateway;
use server_core::tool_search::SearchLearning;
use store::EncryptedStore;
use tool::Secret;

use super::server_clocks::ClockPair;

/// Builds the learning of the organisations that the configuration names.
pub(crate) fn build_search_learning(
    config: &Config,
    store: EncryptedStore,
    (clocks, secret): (&ClockPair, &Secret),
) -> Arc<SearchLearning> {
    let options = config.server.search.to_options();
    Arc::new(SearchLearning::new(&options, Arc::new(store), clocks.as_clock(), secret))
}

/// Attaches it to a gateway as the observer of calls, if any organisation learns.
pub(crate) fn attach_learning(gateway: Gateway, learning: &Arc<SearchLearning>) -> Gateway {
    if learning.is_enabled() {
        return gateway.with_call_observer(Arc::clone(learning) as _);
    }
    gateway
}

/// Reads what was learned, then keeps what is learned; never returns.
pub(crate) async fn run_learning(learning: Option<&SearchLearning>) {
    let Some(learning) = learning else { return std::future::pending().await };
    if let Err(error) = learning.load_stored().await {
        tracing::warn!(%error, "cannot read what tool search learned");
    }
    if !learning.is_enabled() {
        return std::future::pending().await;
    }
    learning.run().await;
}

/// Writes what the last calls taught, at the end of the server.
pub(crate) async fn flush_last_feedback(learning: Option<&SearchLearning>) {
    let Some(learning) = learning else { return };
    if let Err(error) = learning.flush_feedback().await {
        tracing::warn!(%error, "cannot keep what tool search learned");
    }
}
