//! Sections of documents in an archive: the text under one heading.

use archive_reader::ArchiveEntry;

/// Kind of a text document, which determines its heading syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentKind {
    /// Markdown: headings begin with `#`.
    Markdown,
    /// Plain text: one section.
    Plain,
}

impl DocumentKind {
    pub(super) fn from_entry(entry: &ArchiveEntry) -> Option<Self> {
        match entry.extension()?.as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "txt" | "text" | "rst" | "log" | "csv" | "json" | "yaml" | "yml" | "toml" | "html"
            | "htm" | "xml" | "tex" => Some(Self::Plain),
            _ => None,
        }
    }

    /// Returns the heading if the line is one.
    pub(super) fn heading(self, line: &str) -> Option<&str> {
        let rest = line.trim_start_matches('#');
        let marks = line.len() - rest.len();
        let is = self == Self::Markdown && (1..=6).contains(&marks) && rest.starts_with(' ');
        is.then(|| rest.trim())
    }
}

/// Counts the sections of a document while it is read.
#[derive(Debug)]
pub(super) struct SectionCounter {
    document: DocumentKind,
    line: Vec<u8>,
    found: u64,
    /// Whether text precedes the first heading.
    has_preamble: bool,
}

/// Longest heading line, in bytes.
const MAX_HEADING_BYTES: usize = 1_000;

impl SectionCounter {
    pub(super) fn new(document: DocumentKind) -> Self {
        Self { document, line: Vec::new(), found: 0, has_preamble: false }
    }

    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.end_line();
            } else if self.line.len() < MAX_HEADING_BYTES {
                self.line.push(*byte);
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        if self.document.heading(&line).is_some() {
            self.found += 1;
        } else if self.found == 0 && !line.trim().is_empty() {
            self.has_preamble = true;
        }
        self.line.clear();
    }

    pub(super) fn finish_count(mut self) -> u64 {
        self.end_line();
        self.found + u64::from(self.has_preamble)
    }
}

#[cfg(test)]
mod tests {
    use super::{DocumentKind, SectionCounter};

    fn count(document: DocumentKind, text: &str) -> u64 {
        let mut sections = SectionCounter::new(document);
        for part in text.as_bytes().chunks(3) {
            sections.push_bytes(part);
        }
        sections.finish_count()
    }

    #[test]
    fn a_section_begins_at_a_heading() {
        assert_eq!(count(DocumentKind::Markdown, "# one\ntext\n## two\n#no heading\n"), 2);
        assert_eq!(count(DocumentKind::Markdown, "before\n# one"), 2);
        assert_eq!(count(DocumentKind::Plain, "# one\n# two"), 1);
        assert_eq!((count(DocumentKind::Plain, ""), count(DocumentKind::Markdown, "\n\n")), (0, 0));
    }
}
