//! Runs a server until a signal arrives, it is idle, or it ends by itself.

use tokio_util::sync::CancellationToken;

use cli_core::background_server::IdleLock;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::DataDirLock;
use cli_core::server_launcher::RunningServer;
use cli_core::signals::ShutdownSignals;

/// Runs until a signal arrives, the server is unused, or it ends by itself. A second signal does
/// not wait for calls.
pub(super) async fn run_until_signal(
    server: RunningServer,
    (mut signals, idle): (ShutdownSignals, impl Future<Output = IdleLock>),
    lock: &DataDirLock,
    stop: &CancellationToken,
) -> Result<(), CommandError> {
    let mut ended = server.completion;
    // Held until the end, so that nobody joins a stopping server.
    let _unused = tokio::select! {
        ended = &mut ended => return ended,
        () = signals.wait_any() => {
            tracing::info!("stopping after the running calls; send the signal again to stop at once");
            None
        }
        idle = idle => {
            tracing::info!("stopping: no client has used this server for `server.idle_timeout`");
            tracing::debug!(locked = idle.is_locked(), "no client can join");
            Some(idle)
        }
    };
    lock.unpublish_server();
    stop.cancel();
    tokio::select! {
        ended = &mut ended => ended,
        () = signals.wait_any() => Err(CommandError::new(ExitStatus::Failed, "stopped at once; running calls were cancelled")),
    }
}
