//! The record of all calls: where its checkpoints are kept as well, and how much of it is kept.

use std::path::PathBuf;
use std::time::Duration;

use ledger::Keep;

use crate::node::shorten;
use crate::parsers::{bytes, text};
use crate::section::{section, subsection};
use crate::units;
use crate::value::{ConfigValue, ValueParser as _};

const HOUR: Duration = Duration::from_hours(1);
/// A hundred years.
const CENTURY: Duration = Duration::from_hours(24 * 36_525);

section! {
    /// The record of all calls.
    pub(crate) struct Records as "Records": Default, Show {
        /// Signed checkpoints, by which changes of the record are found.
        pub(crate) checkpoints: Checkpoints = subsection::<Checkpoints>();
        /// How much of the record is kept. Default: all of it.
        pub(crate) keep: Keep = subsection::<Keep>();
        /// A file of the record is closed when it has so many bytes, such as `64MiB`; 64 KiB to 1 GiB. What
        /// is not kept goes by whole files. Counts after a restart. Default: `64MiB`.
        pub(crate) file: u64 = bytes(64 << 10..=1 << 30, "use `64KiB` to `1GiB`"),
            default ledger::Options::default().segment_bytes;
    }
}

section! {
    /// How much of the record is kept. Whole files go, oldest first; a signed tombstone stays in the place of
    /// each, by which all that is left can still be checked.
    for Keep as "Keep": Show {
        /// Files whose records are all older than this go, such as `90d`; at least `1h`.
        age: Option<Duration> = text().convert_text(age), shown age.map(|age| format!("{}h", age.as_secs() / 3_600)).into();
        /// Where all files together have more bytes than this, the oldest go, such as `20GiB`; at least `1MiB`.
        bytes: Option<u64> = bytes(1 << 20..=u64::MAX, "keep at least `1MiB`");
    }
}

section! {
    /// Signed checkpoints.
    #[derive(Default)]
    pub(crate) struct Checkpoints as "Checkpoints": Show {
        /// A file to which they are appended as well, once a minute at most: on another disk, or a mount of
        /// another machine. An end that was cut off the record is found against it alone.
        pub(crate) also: Option<PathBuf> = text().convert_text(file);
    }
}

fn age(value: ConfigValue<'_>, text: &str) -> Option<Duration> {
    let age = units::age(text).filter(|age| (HOUR..=CENTURY).contains(age));
    if age.is_none() {
        let fix = "write hours, days or weeks, such as `36h`, `90d` or `52w`; at least `1h`";
        value.fault(format!("`{}` is no such age", shorten(text)), fix);
    }
    age
}

fn file(value: ConfigValue<'_>, text: &str) -> Option<PathBuf> {
    if text.is_empty() || text.ends_with('/') {
        let fix = "name a file, such as `/mnt/other/toolkeep.checkpoints`";
        value.fault(format!("`{}` is no file", shorten(text)), fix);
        return None;
    }
    Some(value.file.path(text))
}

#[cfg(test)]
mod tests;
