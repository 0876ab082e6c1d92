//! The signals that end a server or a node.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// The streams of SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals([Signal; 2]);

impl Signals {
    /// Starts to listen for the signals.
    ///
    /// # Errors
    /// Returns an error if the signals cannot be registered.
    pub fn new() -> Result<Self, Failure> {
        let one = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::NoServer, format!("signals cannot be received: {error}"))
            })
        };
        Ok(Self([one(SignalKind::interrupt())?, one(SignalKind::terminate())?]))
    }

    /// Waits for either of the signals.
    pub async fn any(&mut self) {
        let Self([interrupt, terminate]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
