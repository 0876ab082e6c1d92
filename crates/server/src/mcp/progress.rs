//! Progress of a call to the client that asked for it: bounded, lossy, never waited for.

use std::sync::Arc;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tool::executor::Progress;

/// Reports that wait for a slow client; what comes on top is dropped.
const WAITING: usize = 16;
/// The longest line for people, in characters.
const LINE: usize = 512;

#[derive(Debug)]
pub(super) struct Report {
    done: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Debug)]
struct Lossy(mpsc::Sender<Report>);

impl Progress for Lossy {
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.map(|line| line.chars().take(LINE).collect());
        let sent = self.0.try_send(Report { done, total, message });
        if sent.is_err() {
            tracing::trace!("progress dropped");
        }
    }
}

/// The two ends.
pub(super) fn channel() -> (Arc<dyn Progress>, mpsc::Receiver<Report>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Arc::new(Lossy(sender)), receiver)
}

/// Passes reports on until the call drops its end, or the client is gone.
pub(super) async fn relay(
    mut reports: mpsc::Receiver<Report>,
    token: ProgressToken,
    peer: Peer<RoleServer>,
) {
    let mut last = f64::NEG_INFINITY;
    while let Some(report) = reports.recv().await {
        // MCP: the number must grow. JSON has no word for what is not finite.
        if !report.done.is_finite() || report.done <= last {
            continue;
        }
        last = report.done;
        let mut told = ProgressNotificationParam::new(token.clone(), report.done);
        told.total = report.total.filter(|total| total.is_finite());
        told.message = report.message;
        if peer.notify_progress(told).await.is_err() {
            return;
        }
    }
}
