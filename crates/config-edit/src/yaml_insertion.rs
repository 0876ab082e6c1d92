//! Insertion of an entry at the end of the list of sources, without changing another byte.
//!
//! It works on lines only. Ambiguous files are rejected; the result is verified by parsing it.

/// The text of the file with the new entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InsertedEntry {
    pub(crate) text: String,
    /// The inserted lines.
    pub(crate) lines: String,
    /// The number of the first inserted line, from 1.
    pub(crate) line: usize,
}

/// The reason why an entry cannot be inserted, and the line number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InsertError {
    pub(crate) line: usize,
    pub(crate) reason: &'static str,
}

/// Inserts the entry, whose first line has no `- ` yet, after the last source.
pub(crate) fn insert_entry(text: &str, entry: &str) -> Result<InsertedEntry, InsertError> {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(key) = all.iter().position(|line| is_sources_key(line)) else {
        return append_sources_key(&all, entry);
    };
    let no = |index: usize, why| Err(InsertError { line: index + 1, reason: why });
    let after = all.get(key).and_then(|line| line.split_once(':')).map_or("", |(_, after)| after);
    if !is_blank_or_comment(after) {
        return no(key, "the list of sources is on one line, so no source can be added");
    }
    // The list continues until another key starts at the left margin.
    let outside = |line: &&str| !is_blank_or_comment(line) && !line.starts_with([' ', '-']);
    let below = all.iter().skip(key + 1);
    let end = below.clone().position(outside).map_or(all.len(), |n| key + 1 + n);
    let inside = all.get(key + 1..end).unwrap_or_default();
    let Some(first) = inside.iter().position(|line| !is_blank_or_comment(line)) else {
        return Ok(insert_lines(&all, key + 1, indent_entry(entry, 2)));
    };
    let line = inside.get(first).copied().unwrap_or_default();
    let indent = line.len() - line.trim_start_matches(' ').len();
    if !is_list_item(line.trim_start_matches(' ')) {
        return no(key + 1 + first, "the list of sources does not have one source per line");
    }
    // Blank lines and comments after the last source belong to the following key.
    let last = inside.iter().rposition(|line| !is_blank_or_comment(line)).unwrap_or(first);
    Ok(insert_lines(&all, key + 1 + last + 1, indent_entry(entry, indent)))
}

/// Appends the key and its list to a file without them.
fn append_sources_key(all: &[&str], entry: &str) -> Result<InsertedEntry, InsertError> {
    let last = all.iter().rposition(|line| !is_blank_or_comment(line));
    let flow =
        all.iter().position(|line| !is_blank_or_comment(line) && line.starts_with(['{', ' ', '"']));
    if let Some(flow) = flow.filter(|_| !all.iter().any(|line| is_top_level_key(line))) {
        let why = "the file is no mapping with a line for each key";
        return Err(InsertError { line: flow + 1, reason: why });
    }
    let ends = last
        .and_then(|last| all.get(last))
        .is_some_and(|line| ["...", "---"].contains(&line.trim_end()));
    if ends {
        let line = last.unwrap_or_default() + 1;
        return Err(InsertError { line, reason: "the document ends here" });
    }
    let lines = format!("sources:\n{}", indent_entry(entry, 2));
    Ok(insert_lines(all, all.len(), lines))
}

fn insert_lines(all: &[&str], at: usize, lines: String) -> InsertedEntry {
    let (before, behind) = all.split_at(at.min(all.len()));
    let mut text = before.concat();
    // A last line without a line break gets one, so that two lines are not joined.
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    // Uses the line endings of the file.
    let windows = all.iter().any(|line| line.ends_with("\r\n"));
    let lines = if windows { lines.replace('\n', "\r\n") } else { lines };
    text.push_str(&lines);
    text.push_str(&behind.concat());
    InsertedEntry { text, lines, line: at + 1 }
}

fn indent_entry(entry: &str, indent: usize) -> String {
    let line = |(index, line): (usize, &str)| {
        let lead = if index == 0 { "- " } else { "  " };
        format!("{}{lead}{line}\n", " ".repeat(indent))
    };
    entry.lines().enumerate().map(line).collect()
}

/// Whether a line is the top-level key `sources:`.
fn is_sources_key(line: &str) -> bool {
    line.trim_end().strip_prefix("sources").is_some_and(|rest| rest.trim_start().starts_with(':'))
}

fn is_top_level_key(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains(':')
}

fn is_list_item(line: &str) -> bool {
    line.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with([' ', '\r', '\n']) || rest.is_empty())
}

/// Whether a line is blank or a comment.
fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::{InsertError, insert_entry};

    const ENTRY: &str = "name: n\ntools: t\n";

    #[test]
    fn the_entry_stands_behind_the_last_source_and_nothing_else_changes() {
        for (before, inserted, behind) in [
            ("version: 1\n", "sources:\n  - name: n\n    tools: t\n", ""),
            ("version: 1", "\nsources:\n  - name: n\n    tools: t\n", ""),
            ("version: 1\nsources: # none\n", "  - name: n\n    tools: t\n", "\nlimits: {}\n"),
            (
                "sources:\n- name: a\n  tools: |\n\n    x\n",
                "- name: n\n  tools: t\n",
                "\n# of it\nversion: 1\n",
            ),
            (
                "sources:\n    # one\n    - {name: a,\n       tools: t}\n",
                "    - name: n\n      tools: t\n",
                "    # end\n",
            ),
            (
                "sources:\r\n  - name: a\r\n    tools: t\r\n",
                "  - name: n\r\n    tools: t\r\n",
                "version: 1\r\n",
            ),
            ("sources_of: 1\n", "sources:\n  - name: n\n    tools: t\n", ""),
        ] {
            let done = insert_entry(&format!("{before}{behind}"), ENTRY).unwrap();
            assert_eq!(done.text, format!("{before}{inserted}{behind}"), "{before:?}");
        }
    }

    #[test]
    fn what_has_no_certain_place_is_refused() {
        for (text, line) in [
            ("version: 1\nsources: [a]\n", 2),
            ("version: 1\nsources: []\n", 2),
            ("sources: &x\n  - a\n", 1),
            ("sources:\n  name: a\n", 2),
            ("{version: 1}\n", 1),
            ("version: 1\n...\n", 2),
        ] {
            let InsertError { line: told, .. } = insert_entry(text, ENTRY).unwrap_err();
            assert_eq!(told, line, "{text:?}");
        }
    }
}
