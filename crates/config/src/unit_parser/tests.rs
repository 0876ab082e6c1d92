use std::time::Duration;

use super::{parse_byte_size, parse_call_timeout};

#[test]
fn times() {
    for (text, ms) in [("500ms", 500), ("30s", 30_000), ("2 m", 120_000), ("10min", 600_000)] {
        assert_eq!(parse_call_timeout(text), Ok(Duration::from_millis(ms)), "{text}");
    }
    for bad in
        ["", "30", "s", "-1s", "0s", "11m", "1h", "1.5s", "30 parsecs", "99999999999999999999s"]
    {
        assert!(parse_call_timeout(bad).is_err(), "{bad}");
    }
}

#[test]
fn sizes() {
    for (text, bytes) in [("10", 10), ("2MiB", 2 << 20), ("64 KiB", 64 << 10), ("1MB", 1_000_000)] {
        assert_eq!(parse_byte_size(text), Ok(bytes), "{text}");
    }
    for bad in ["", "MiB", "1 mib", "-1", "1.5MiB"] {
        assert!(parse_byte_size(bad).is_err(), "{bad}");
    }
}
