//! The run of a server until a signal, idleness or its own end.

use tokio_util::sync::CancellationToken;

use cli_core::background::Unused;
use cli_core::data::Held;
use cli_core::failure::{Exit, Failure};
use cli_core::signals::Signals;
use cli_core::wiring::Running;

/// Runs until a signal arrives, the server is unused, or it ends by itself. A second signal does
/// not wait for calls.
pub(super) async fn until_told(
    running: Running,
    (mut signals, unused): (Signals, impl Future<Output = Unused>),
    held: &Held,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let mut ended = running.ended;
    // Held until the end, so that nobody joins a stopping server.
    let _unused = tokio::select! {
        ended = &mut ended => return ended,
        () = signals.any() => {
            tracing::info!("stopping; once more ends at once");
            None
        }
        unused = unused => {
            tracing::info!("stopping: no client has used this server for `server.idle_timeout`");
            tracing::debug!(locked = unused.is_locked(), "no client can join");
            Some(unused)
        }
    };
    held.forget_server();
    stop.cancel();
    tokio::select! {
        ended = &mut ended => ended,
        () = signals.any() => Err(Failure::new(Exit::Failed, "ended at once; calls that ran were cut off")),
    }
}
