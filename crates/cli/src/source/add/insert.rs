//! Insertion of an entry at the end of the list of sources, without changing another byte.
//!
//! It works on lines only. Ambiguous files are rejected; the result is verified by parsing it.

use std::path::Path;

use tool::Code;

use cli_core::failure::Failure;

/// The text of the file with the new entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inserted {
    pub(super) text: String,
    /// The inserted lines.
    pub(super) lines: String,
    /// The number of the first inserted line, from 1.
    pub(super) line: usize,
}

/// The reason why an entry cannot be inserted, and the line number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoPlace {
    pub(super) line: usize,
    pub(super) why: &'static str,
}

impl NoPlace {
    pub(super) fn told(self, file: &Path, lines: &str) -> Failure {
        let place = format!("{}:{}", super::shown(file), self.line);
        let fix =
            format!("write the list as a line for each, or put this into it by hand:\n{lines}");
        let failure =
            Failure::of_code(Code::InvalidConfig.as_str(), format!("{place}: {}", self.why));
        failure.fix(fix.trim_end())
    }
}

/// Inserts the entry, whose first line has no `- ` yet, after the last source.
pub(super) fn insert(text: &str, entry: &str) -> Result<Inserted, NoPlace> {
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(key) = all.iter().position(|line| is_key(line)) else {
        return at_the_end(&all, entry);
    };
    let no = |index: usize, why| Err(NoPlace { line: index + 1, why });
    let after = all.get(key).and_then(|line| line.split_once(':')).map_or("", |(_, after)| after);
    if !is_empty(after) {
        return no(key, "the list of sources stands on one line, and cannot be added to");
    }
    // The list continues until another key starts at the left margin.
    let outside = |line: &&str| !is_empty(line) && !line.starts_with([' ', '-']);
    let below = all.iter().skip(key + 1);
    let end = below.clone().position(outside).map_or(all.len(), |n| key + 1 + n);
    let inside = all.get(key + 1..end).unwrap_or_default();
    let Some(first) = inside.iter().position(|line| !is_empty(line)) else {
        return Ok(put(&all, key + 1, indented(entry, 2)));
    };
    let line = inside.get(first).copied().unwrap_or_default();
    let indent = line.len() - line.trim_start_matches(' ').len();
    if !is_item(line.trim_start_matches(' ')) {
        return no(key + 1 + first, "the sources are no list with a line for each");
    }
    // Blank lines and comments after the last source belong to the following key.
    let last = inside.iter().rposition(|line| !is_empty(line)).unwrap_or(first);
    Ok(put(&all, key + 1 + last + 1, indented(entry, indent)))
}

/// Appends the key and its list to a file without them.
fn at_the_end(all: &[&str], entry: &str) -> Result<Inserted, NoPlace> {
    let last = all.iter().rposition(|line| !is_empty(line));
    let flow = all.iter().position(|line| !is_empty(line) && line.starts_with(['{', ' ', '"']));
    if let Some(flow) = flow.filter(|_| !all.iter().any(|line| is_any_key(line))) {
        let why = "the file is no mapping with a line for each key";
        return Err(NoPlace { line: flow + 1, why });
    }
    let ends = last
        .and_then(|last| all.get(last))
        .is_some_and(|line| ["...", "---"].contains(&line.trim_end()));
    if ends {
        let line = last.unwrap_or_default() + 1;
        return Err(NoPlace { line, why: "the document ends here" });
    }
    let lines = format!("sources:\n{}", indented(entry, 2));
    Ok(put(all, all.len(), lines))
}

fn put(all: &[&str], at: usize, lines: String) -> Inserted {
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
    Inserted { text, lines, line: at + 1 }
}

fn indented(entry: &str, indent: usize) -> String {
    let line = |(index, line): (usize, &str)| {
        let lead = if index == 0 { "- " } else { "  " };
        format!("{}{lead}{line}\n", " ".repeat(indent))
    };
    entry.lines().enumerate().map(line).collect()
}

/// Whether a line is the top-level key `sources:`.
fn is_key(line: &str) -> bool {
    line.trim_end().strip_prefix("sources").is_some_and(|rest| rest.trim_start().starts_with(':'))
}

fn is_any_key(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains(':')
}

fn is_item(line: &str) -> bool {
    line.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with([' ', '\r', '\n']) || rest.is_empty())
}

/// Whether a line is blank or a comment.
fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}
