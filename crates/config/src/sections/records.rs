//! The record of all calls: its retention, its files, and a copy of its checkpoints.

use std::path::PathBuf;
use std::time::Duration;

use ledger::RetentionPolicy;

use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{section, subsection};
use crate::unit_parser;
use crate::value_parsers::{bytes, text};
use crate::yaml_tree::shorten_text;

const MIN_AGE: Duration = Duration::from_hours(1);
/// The longest retention: a hundred years.
const MAX_AGE: Duration = Duration::from_hours(24 * 36_525);

section! {
    /// The record of all calls.
    pub(crate) struct RecordsConfig as "Records": Default, RedactedJson {
        /// Signed checkpoints, which prove that the record is unchanged.
        pub(crate) checkpoints: CheckpointsConfig = subsection::<CheckpointsConfig>();
        /// The retention of the record. Default: all of it is kept.
        pub(crate) retention as "keep": RetentionPolicy = subsection::<RetentionPolicy>();
        /// The size at which a file of the record is closed, such as `64MiB`: from `64KiB` to `1GiB`. Retention deletes
        /// closed files. Takes effect at the next start. Default: `64MiB`.
        pub(crate) segment_bytes as "file": u64 = bytes(64 << 10..=1 << 30, "use `64KiB` to `1GiB`"),
            default ledger::LedgerOptions::default().segment_bytes;
    }
}

section! {
    /// The retention of the record. Whole files are deleted, the oldest first. A signed tombstone replaces each, so that
    /// the remaining record can still be verified.
    for RetentionPolicy as "Keep": RedactedJson {
        /// The greatest age of a file's newest record, such as `90d`: from `1h` to 100 years. Older files are deleted.
        /// Default: no limit.
        max_age as "age": Option<Duration> = text().convert_text(retention_age),
            display max_age.map(|age| format!("{}h", age.as_secs() / 3_600)).into();
        /// The most bytes of all files together, such as `20GiB`; at least `1MiB`. The oldest files beyond it are
        /// deleted. Default: no limit.
        max_bytes as "bytes": Option<u64> = bytes(1 << 20..=u64::MAX, "keep at least `1MiB`");
    }
}

section! {
    /// Signed checkpoints of the record.
    #[derive(Default)]
    pub(crate) struct CheckpointsConfig as "Checkpoints": RedactedJson {
        /// A second file for checkpoints, on another disk or on a mount of another machine. It is written at most once a
        /// minute. Only it reveals a record whose end was cut off.
        pub(crate) mirror as "also": Option<PathBuf> = text().convert_text(mirror_file);
    }
}

/// Parses how long something is kept, in hours, days or weeks.
pub(super) fn retention_age(value: ConfigValue<'_>, text: &str) -> Option<Duration> {
    let age = unit_parser::parse_age(text).filter(|age| (MIN_AGE..=MAX_AGE).contains(age));
    if age.is_none() {
        let help = "write hours, days or weeks, such as `36h`, `90d` or `52w`; at least `1h`";
        value.report(format!("invalid age `{}`", shorten_text(text)), help);
    }
    age
}

fn mirror_file(value: ConfigValue<'_>, text: &str) -> Option<PathBuf> {
    if text.is_empty() || text.ends_with('/') {
        let help = "name a file, such as `/mnt/other/toolkeep.checkpoints`";
        value.report(format!("`{}` is a folder", shorten_text(text)), help);
        return None;
    }
    Some(value.file.resolve_path(text))
}

#[cfg(test)]
mod tests;
