//! What of a new configuration counts only after a restart.

use crate::config::Config;

/// Says what of a new configuration counts only after a restart: what differs from that of the start.
pub(super) fn told_of_restart(first: Option<&Config>, now: &Config) {
    let Some(first) = first else { return };
    let mongodb = |config: &Config| config.nodes.mongodb.as_ref().map(|url| url.open().to_owned());
    for (key, stays) in [
        ("listen", first.listen == now.listen),
        ("data", first.data == now.data),
        ("server", first.server == now.server),
        ("limits", first.limits == now.limits),
        ("nodes.mongodb", mongodb(first) == mongodb(now)),
        ("nodes.kubernetes", first.nodes.kubernetes == now.nodes.kubernetes),
        ("records.file", first.record_file == now.record_file),
        ("tool_packages", first.tool_packages == now.tool_packages),
    ] {
        if !stays {
            tracing::warn!(key, "this change counts after a restart of the server");
        }
    }
}
