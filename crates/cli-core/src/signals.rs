//! The signals that end a server or a node.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command_error::{CommandError, ExitStatus};

/// The streams of SIGINT and SIGTERM.
#[derive(Debug)]
pub struct ShutdownSignals([Signal; 2]);

impl ShutdownSignals {
    /// Starts to listen for the signals.
    ///
    /// # Errors
    /// Returns an error if the signals cannot be registered.
    pub fn new() -> Result<Self, CommandError> {
        let one = |kind| {
            signal(kind).map_err(|error| {
                CommandError::new(
                    ExitStatus::ServerUnavailable,
                    format!("cannot receive signals: {error}"),
                )
            })
        };
        Ok(Self([one(SignalKind::interrupt())?, one(SignalKind::terminate())?]))
    }

    /// Waits for either of the signals.
    pub async fn wait_any(&mut self) {
        let Self([interrupt, terminate]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
