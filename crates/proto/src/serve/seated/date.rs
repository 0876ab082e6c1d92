//! When an answer was made, as HTTP writes it.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;

thread_local! {
    /// The last second that somebody asked in, and how it is written.
    static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// Written once a second.
#[expect(clippy::disallowed_methods, reason = "a date for people; nothing here is decided by it")]
pub(super) fn date() -> HeaderValue {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    LAST.with_borrow_mut(|(last, written)| {
        if *last != second
            && let Ok(value) = HeaderValue::try_from(httpdate::fmt_http_date(now))
        {
            (*last, *written) = (second, value);
        }
        written.clone()
    })
}
