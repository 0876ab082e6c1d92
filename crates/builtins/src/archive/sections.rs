//! Documents and their sections: the text under one heading.

use archive_reader::Entry;

/// Kind of a text document, which determines its heading syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    /// Markdown: headings begin with `#`.
    Marked,
    /// Plain text: one section.
    Plain,
}

impl Document {
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        match entry.extension()?.as_str() {
            "md" | "markdown" => Some(Self::Marked),
            "txt" | "text" | "rst" | "log" | "csv" | "json" | "yaml" | "yml" | "toml" | "html"
            | "htm" | "xml" | "tex" => Some(Self::Plain),
            _ => None,
        }
    }

    /// Returns the heading if the line is one.
    pub(super) fn heading(self, line: &str) -> Option<&str> {
        let rest = line.trim_start_matches('#');
        let marks = line.len() - rest.len();
        let is = self == Self::Marked && (1..=6).contains(&marks) && rest.starts_with(' ');
        is.then(|| rest.trim())
    }
}

/// Counts the sections of a document while it is read.
#[derive(Debug)]
pub(super) struct Sections {
    document: Document,
    line: Vec<u8>,
    found: u64,
    /// Whether text precedes the first heading.
    before: bool,
}

/// Longest heading line, in bytes.
const LINE: usize = 1_000;

impl Sections {
    pub(super) fn new(document: Document) -> Self {
        Self { document, line: Vec::new(), found: 0, before: false }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.end_line();
            } else if self.line.len() < LINE {
                self.line.push(*byte);
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        if self.document.heading(&line).is_some() {
            self.found += 1;
        } else if self.found == 0 && !line.trim().is_empty() {
            self.before = true;
        }
        self.line.clear();
    }

    pub(super) fn end(mut self) -> u64 {
        self.end_line();
        self.found + u64::from(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, Sections};

    fn count(document: Document, text: &str) -> u64 {
        let mut sections = Sections::new(document);
        for part in text.as_bytes().chunks(3) {
            sections.feed(part);
        }
        sections.end()
    }

    #[test]
    fn a_section_begins_at_a_heading() {
        assert_eq!(count(Document::Marked, "# one\ntext\n## two\n#no heading\n"), 2);
        assert_eq!(count(Document::Marked, "before\n# one"), 2);
        assert_eq!(count(Document::Plain, "# one\n# two"), 1);
        assert_eq!((count(Document::Plain, ""), count(Document::Marked, "\n\n")), (0, 0));
    }
}
