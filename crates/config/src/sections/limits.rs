//! Limits on calls.

use option_types::Bounds;

use crate::parsers::{count, size};
use crate::section::{flattened, section};

section! {
    /// Limits on calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LimitsConfig as "Limits": Default, Show {
        /// Calls at once.
        pub bounds as "..": Bounds = flattened::<Bounds>();
        /// The largest result, such as `1MiB`.
        pub result_bytes: usize = size(64 << 20), default 4 << 20;
    }
}

section! {
    /// Calls at once.
    for Bounds as "Bounds": Show {
        /// Calls at once, of all keys.
        calls: usize = count(100_000), default Bounds::default().calls;
        /// Calls at once, of one key and all keys that were delegated from it.
        per_key as "calls_per_key": usize = count(100_000), default Bounds::default().per_key;
        /// Calls at once, on one source.
        per_source as "calls_per_source": usize = count(100_000), default Bounds::default().per_source;
        /// Calls at once, of one key on one source; a quarter of `calls_per_source` where absent.
        per_key_and_source as "calls_per_key_and_source": usize = count(100_000), default Bounds::share(per_source);
    }
}
