//! The signals that end a server or a node.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals([Signal; 2]);

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// Where the system does not let this process.
    pub fn new() -> Result<Self, Failure> {
        let one = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::NoServer, format!("signals cannot be received: {error}"))
            })
        };
        Ok(Self([one(SignalKind::interrupt())?, one(SignalKind::terminate())?]))
    }

    /// Waits for either.
    pub async fn any(&mut self) {
        let Self([interrupt, terminate]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
