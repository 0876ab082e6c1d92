//! Polling for a condition that provides no notification.

use std::time::Duration;

/// Waits until `holds` is true, polling every 10 ms.
///
/// # Panics
/// Panics after 20 s with `what`.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came to be: {what}");
}
