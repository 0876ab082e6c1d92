//! Limits on concurrent calls and on the size of results.

use option_types::ConcurrencyLimits;

use crate::section::{flattened, section};
use crate::value_parsers::{byte_size, count};

section! {
    /// Limits on concurrent calls and results.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LimitsConfig as "Limits": Default, RedactedJson {
        /// Limits on concurrent calls.
        pub concurrency as "..": ConcurrencyLimits = flattened::<ConcurrencyLimits>();
        /// The largest result, such as `1MiB`: from `1KiB` to `64MiB`. Default: `4MiB`.
        pub max_result_bytes as "result_bytes": usize = byte_size(64 << 20), default 4 << 20;
    }
}

section! {
    /// Limits on concurrent calls.
    for ConcurrencyLimits as "Bounds": RedactedJson {
        /// The most concurrent calls of all keys: from 1 to 100000. Default: 4096.
        total as "calls": usize = count(100_000), default ConcurrencyLimits::default().total;
        /// The most concurrent calls of one key and all keys that it delegated to: from 1 to 100000. Default: 1024.
        per_key as "calls_per_key": usize = count(100_000),
            default ConcurrencyLimits::default().per_key;
        /// The most concurrent calls on one source: from 1 to 100000. Default: 512.
        per_source as "calls_per_source": usize = count(100_000),
            default ConcurrencyLimits::default().per_source;
        /// The most concurrent calls of one key on one source: from 1 to 100000. Default: a quarter of `calls_per_source`.
        per_key_and_source as "calls_per_key_and_source": usize = count(100_000),
            default ConcurrencyLimits::default_key_share(per_source);
    }
}
