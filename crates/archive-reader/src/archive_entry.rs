//! An archive entry: its normalised name, its kind, and the reason if it is rejected.

use std::collections::HashSet;

/// Largest size of a name and of one of its parts, in bytes.
const MAX_NAME_BYTES: (usize, usize) = (1_024, 255);
/// Largest folder depth.
const MAX_DEPTH: usize = 32;

/// Type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic or a hard link.
    Link,
    /// A device, a pipe, or what is not known.
    Other,
}

/// An entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Normalised path with single slashes; the escaped original if the entry is rejected.
    pub name: String,
    /// Type of the entry.
    pub kind: EntryKind,
    /// Size in bytes, as declared by the archive.
    pub size: u64,
    /// Reason why the entry is rejected.
    pub rejection: Option<&'static str>,
}

impl ArchiveEntry {
    /// Creates an entry from its stored name, and rejects unsafe names and types.
    pub fn from_stored_name(stored: &[u8], kind: EntryKind, size: u64) -> Self {
        let (name, wrong) = match normalize_name(stored) {
            Ok(name) => (name, None),
            Err(why) => (escape_name(stored), Some(why)),
        };
        let kinds = match kind {
            EntryKind::Link => Some("links are not extracted"),
            EntryKind::Other => Some("it is neither a file nor a folder"),
            EntryKind::File | EntryKind::Directory => None,
        };
        Self { name, kind, size, rejection: wrong.or(kinds) }
    }

    /// Returns the lowercase file extension.
    pub fn extension(&self) -> Option<String> {
        let last = self.name.rsplit('/').next()?;
        let (before, extension) = last.rsplit_once('.')?;
        (!before.is_empty()).then(|| extension.to_lowercase())
    }

    /// Returns whether the name has the extension of an archive.
    pub fn is_archive(&self) -> bool {
        let known = ["zip", "7z", "tar", "tgz", "tbz2", "txz", "gz", "bz2", "xz", "zst", "rar"];
        self.kind == EntryKind::File
            && self.extension().is_some_and(|it| known.contains(&it.as_str()))
    }
}

/// Rejects entries whose name repeats, case-insensitively.
#[derive(Debug, Default)]
pub(crate) struct DuplicateNameCheck(HashSet<String>);

impl DuplicateNameCheck {
    pub(crate) fn reject_duplicate(&mut self, entry: &mut ArchiveEntry) {
        let fresh = self.0.insert(entry.name.to_lowercase());
        if !fresh && entry.kind == EntryKind::File && entry.rejection.is_none() {
            entry.rejection = Some("its name occurs twice");
        }
    }
}

/// Normalises a name, or returns why it is invalid.
fn normalize_name(stored: &[u8]) -> Result<String, &'static str> {
    let name = std::str::from_utf8(stored).map_err(|_| "its name is not UTF-8")?;
    if name.chars().any(char::is_control) {
        return Err("its name has control characters");
    }
    if name.starts_with('/') || name.contains('\\') {
        return Err("its name is absolute or contains a backslash");
    }
    if name.as_bytes().get(1) == Some(&b':') {
        return Err("its name begins with a drive");
    }
    let name = name.strip_suffix('/').unwrap_or(name);
    let mut parts = Vec::new();
    for part in name.split('/') {
        match part {
            "." => {}
            "" => return Err("its name has an empty part"),
            ".." => return Err("its name contains `..`"),
            _ if part.len() > MAX_NAME_BYTES.1 => return Err("its name is too long"),
            _ => parts.push(part),
        }
    }
    if name.len() > MAX_NAME_BYTES.0 || parts.len() > MAX_DEPTH {
        return Err("its name is too long or too deep");
    }
    // The root folder of the archive: `./`.
    Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

fn escape_name(stored: &[u8]) -> String {
    String::from_utf8_lossy(stored).chars().take(100).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::{ArchiveEntry, DuplicateNameCheck, EntryKind};

    #[test]
    fn only_names_that_stay_inside_come_out() {
        for good in ["a", "a/b.txt", "./a", "a/./b", ".ssh/x", "...", "con", "größe", "a/"] {
            assert_eq!(
                ArchiveEntry::from_stored_name(good.as_bytes(), EntryKind::File, 0).rejection,
                None,
                "{good}"
            );
        }
        let deep = "a/".repeat(40) + "x";
        let long = "x".repeat(300);
        let bad = [
            "",
            "..",
            "../a",
            "a/../../b",
            "/a",
            "//a",
            "a//b",
            "\\\\h\\s",
            "a\\..\\b",
            "C:x",
            "a\nb",
            "a\0b",
            &deep,
            &long,
        ];
        for bad in bad {
            assert!(
                ArchiveEntry::from_stored_name(bad.as_bytes(), EntryKind::File, 0)
                    .rejection
                    .is_some(),
                "{bad:?}"
            );
        }
        assert!(ArchiveEntry::from_stored_name(b"\xff", EntryKind::File, 0).rejection.is_some());
        assert_eq!(
            ArchiveEntry::from_stored_name(b"./a/./b/", EntryKind::Directory, 0).name,
            "a/b"
        );
        assert!(ArchiveEntry::from_stored_name(b"a", EntryKind::Link, 0).rejection.is_some());
        assert!(ArchiveEntry::from_stored_name(b"a", EntryKind::Other, 0).rejection.is_some());
    }

    #[test]
    fn a_name_comes_once() {
        let mut names = DuplicateNameCheck::default();
        let mut take = |name: &str| {
            let mut entry = ArchiveEntry::from_stored_name(name.as_bytes(), EntryKind::File, 0);
            names.reject_duplicate(&mut entry);
            entry.rejection.is_none()
        };
        assert!(take("a") && take("b") && !take("a") && !take("A") && !take("./a"));
    }
}
