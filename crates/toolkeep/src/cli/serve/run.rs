//! From the start of a server to its end.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::background::Unused;
use crate::cli::data::Held;
use crate::cli::failure::{Exit, Failure};
use crate::cli::wiring::Running;

/// SIGINT and SIGTERM.
pub(in crate::cli) struct Signals([Signal; 2]);

impl Signals {
    pub(in crate::cli) fn new() -> Result<Self, Failure> {
        let one = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::NoServer, format!("signals cannot be received: {error}"))
            })
        };
        Ok(Self([one(SignalKind::interrupt())?, one(SignalKind::terminate())?]))
    }

    pub(in crate::cli) async fn any(&mut self) {
        let Self([interrupt, terminate]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Runs until a signal comes, nobody uses it any more, or the server ends by itself. A second signal does not wait for
/// calls.
pub(super) async fn until_told(
    running: Running,
    (mut signals, unused): (Signals, impl Future<Output = Unused>),
    held: &Held,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let mut ended = running.ended;
    // Kept to the end: nobody joins a server that is ending.
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
