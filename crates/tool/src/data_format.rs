//! Versions of a file format that a program supports.

use serde::Serialize;

/// Versions of one file format that this program reads and writes. It reads every version from
/// `oldest_readable` to `written`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FormatSupport {
    /// Oldest version that is read.
    #[serde(rename = "reads_from")]
    pub oldest_readable: u32,
    /// Version that is written, and the newest that is read.
    #[serde(rename = "writes")]
    pub written: u32,
}

impl FormatSupport {
    /// Returns whether this program reads files of `version`.
    pub const fn can_read(self, version: u32) -> bool {
        self.oldest_readable <= version && version <= self.written
    }

    /// Describes the versions that are read: `2`, or `1 to 2`.
    pub fn describe_readable(self) -> String {
        let Self { oldest_readable, written } = self;
        if oldest_readable == written {
            return written.to_string();
        }
        format!("{oldest_readable} to {written}")
    }

    /// Returns why files of `version` are not read, in the words of every such error.
    pub fn unreadable_reason(self, version: u32) -> String {
        let Self { oldest_readable, written } = self;
        if version > written {
            return format!(
                "a newer version of toolkeep wrote it (format {version}, this one reads up to {written})"
            );
        }
        format!(
            "format {version} is too old (this version of toolkeep reads from {oldest_readable})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::FormatSupport;

    #[test]
    fn versions_between_the_oldest_and_the_written_one_are_read() {
        let support = FormatSupport { oldest_readable: 2, written: 4 };
        let read: Vec<u32> = (0..6).filter(|version| support.can_read(*version)).collect();
        assert_eq!(read, [2, 3, 4]);
        assert_eq!(support.describe_readable(), "2 to 4");
        assert_eq!(FormatSupport { oldest_readable: 4, ..support }.describe_readable(), "4");
        assert!(support.unreadable_reason(5).contains("format 5, this one reads up to 4"));
        assert!(support.unreadable_reason(1).contains("reads from 2"));
    }
}
