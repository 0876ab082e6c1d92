//! Puts an entry at the end of the list of sources, and changes nothing else.
//!
//! It looks at lines only. What it cannot place with certainty it refuses; that the result reads as it
//! should is checked by reading it.

use std::path::Path;

use tool::Code;

use cli_core::failure::Failure;

/// The text with the entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inserted {
    pub(super) text: String,
    /// What was put in.
    pub(super) lines: String,
    /// The number of its first line, from 1.
    pub(super) line: usize,
}

/// Why it cannot be placed, and the number of the line.
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

/// Puts the entry, whose first line has no `- ` yet, behind the last source.
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
    // The list goes on until something else begins at the left.
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
    // Empty lines and remarks behind the last source belong to what follows it.
    let last = inside.iter().rposition(|line| !is_empty(line)).unwrap_or(first);
    Ok(put(&all, key + 1 + last + 1, indented(entry, indent)))
}

/// A file without the key gets it, with the list, behind all else.
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
    // A last line without its end gets one: else two lines would be one.
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    // As the file ends its lines, so do these.
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

/// `sources:` at the left, and nothing that only begins like it.
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

/// Whether there is nothing but room or a remark.
fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}
