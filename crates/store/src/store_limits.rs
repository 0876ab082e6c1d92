//! Limits that all stores enforce, and the errors for exceeding them.

use tool::display_text::truncate_and_escape_debug;
use tool::{StoreError, Version};

/// Maximum length of a key in bytes.
pub const MAX_KEY_BYTES: usize = 512;
/// Maximum size of a value in bytes.
pub const MAX_VALUE_BYTES: usize = 4 << 20;
/// Maximum number of values per scan, whatever is requested; continue from the last key.
pub const MAX_SCAN_ROWS: usize = 10_000;
/// Maximum number of changes per query; continue from the last version.
pub const MAX_CHANGE_ROWS: usize = 10_000;
/// Number of removals that are remembered. A query for older changes fails.
pub const MAX_TOMBSTONES: usize = 1_000;

pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) && !key.chars().any(char::is_control) {
        return Ok(());
    }
    let cut = truncate_and_escape_debug(key, 32);
    Err(StoreError::Unavailable(format!(
        "the key `{cut}` cannot be stored; use 1 to {MAX_KEY_BYTES} bytes and no control characters"
    )))
}

pub(crate) fn check_value(key: &str, bytes: Option<&[u8]>) -> Result<(), StoreError> {
    let size = bytes.map_or(0, <[u8]>::len);
    if size <= MAX_VALUE_BYTES {
        return Ok(());
    }
    let text = format!("the value of `{key}` has {size} bytes; the maximum is {MAX_VALUE_BYTES}");
    Err(StoreError::Unavailable(text))
}

/// Checks that no removals after `since` were pruned; those up to `oldest_complete` were. A
/// reader that starts from version 0 misses nothing.
pub(crate) fn check_since(since: Version, oldest_complete: Version) -> Result<(), StoreError> {
    if since.0 == 0 || since >= oldest_complete {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!(
        "removals up to write {} are no longer stored, so changes since write {} would be \
         incomplete; start again from write 0",
        oldest_complete.0, since.0
    )))
}
