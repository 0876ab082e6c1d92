//! What both stores accept, and the words they refuse with.

use tool::{StoreError, Version};

/// The longest key, in bytes.
pub const KEY_BYTES: usize = 512;
/// The longest value, in bytes.
pub const VALUE_BYTES: usize = 4 << 20;
/// The most values one `scan` gives, whatever it is asked for; go on from the last key.
pub const SCAN_ROWS: usize = 10_000;
/// The most values one `news` gives; go on from the last version.
pub const NEWS_ROWS: usize = 10_000;
/// How many removals are remembered. Who asks for older `news` is told so.
pub const TOMBSTONES: usize = 1_000;

pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    if (1..=KEY_BYTES).contains(&key.len()) && !key.chars().any(char::is_control) {
        return Ok(());
    }
    let cut: String = key.chars().take(32).flat_map(char::escape_debug).collect();
    Err(StoreError::Unavailable(format!(
        "the key `{cut}` cannot be stored; use 1 to {KEY_BYTES} bytes and no control characters"
    )))
}

pub(crate) fn check_value(key: &str, bytes: Option<&[u8]>) -> Result<(), StoreError> {
    let size = bytes.map_or(0, <[u8]>::len);
    if size <= VALUE_BYTES {
        return Ok(());
    }
    let text = format!("the value of `{key}` has {size} bytes; {VALUE_BYTES} are allowed");
    Err(StoreError::Unavailable(text))
}

/// Removals up to `floor` are forgotten: who knows the store as of `since` would miss some. Who knows
/// nothing at all misses nothing.
pub(crate) fn check_since(since: Version, floor: Version) -> Result<(), StoreError> {
    if since.0 == 0 || since >= floor {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!(
        "removals up to write {} are forgotten, so news since write {} would be incomplete; start anew from write 0",
        floor.0, since.0
    )))
}
