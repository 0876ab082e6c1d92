//! Polling for a condition without a notification.

use std::time::Duration;

/// Waits until `condition` is true, polling every 10 ms.
///
/// # Panics
/// Panics after 20 s with `description`.
pub async fn wait_until(description: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came to be: {description}");
}
