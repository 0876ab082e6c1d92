//! A pending file edit split into hunks, which can be shown and accepted one by one.
//!
//! An edit is a call whose arguments contain the strings `original` and `modified`. Nothing is
//! decided here: the accepted hunks become the arguments of the call, which stays pending.

use serde_json::{Map, Value};

use cli_core::command_error::{CommandError, ExitStatus};

/// Maximum number of line comparisons; a larger change is one hunk.
const MAX_COMPARISONS: usize = 4_000_000;

/// A part of a line diff: unchanged lines, or a change.
enum DiffPart<'a> {
    Unchanged(Vec<&'a str>),
    Changed { line: usize, old: Vec<&'a str>, new: Vec<&'a str> },
}

/// Returns the two texts of an edit, if the arguments are one.
fn edit_texts(arguments: &Map<String, Value>) -> Option<(&str, &str)> {
    Some((arguments.get("original")?.as_str()?, arguments.get("modified")?.as_str()?))
}

/// Formats the hunks of an edit for people; `None` if the call is not an edit.
pub(super) fn format_hunks(arguments: &Value) -> Option<String> {
    let (original, modified) = edit_texts(arguments.as_object()?)?;
    let parts = diff_lines(original, modified);
    let count = parts.iter().filter(|part| matches!(part, DiffPart::Changed { .. })).count();
    let mut text = Vec::new();
    for part in &parts {
        let DiffPart::Changed { line, old, new } = part else { continue };
        let number = text.iter().filter(|line: &&String| line.starts_with("hunk ")).count() + 1;
        text.push(format!("hunk {number} of {count}, line {line}"));
        text.extend(old.iter().map(|line| format!("  -{}", line.trim_end_matches('\n'))));
        text.extend(new.iter().map(|line| format!("  +{}", line.trim_end_matches('\n'))));
    }
    Some(text.join("\n"))
}

/// Returns the arguments with only the named hunks applied, counted from 1.
///
/// # Errors
/// Returns an error if the call is not an edit, has no such hunk, or contains escaped characters.
pub(super) fn accept_hunks(arguments: &Value, hunks: &[usize]) -> Result<Value, CommandError> {
    let wrong = |message: String| CommandError::new(ExitStatus::UsageError, message);
    let mut arguments = arguments.as_object().cloned().unwrap_or_default();
    let (original, modified) = edit_texts(&arguments).ok_or_else(|| {
        wrong(
            "the call is not an edit: its arguments lack the texts `original` and `modified`"
                .to_owned(),
        )
    })?;
    if [original, modified].iter().any(|text| text.contains("\\u{")) {
        let told = "the texts contain characters that cannot be shown; pass all arguments with \
             `--arguments`";
        return Err(wrong(told.to_owned()));
    }
    let (mut text, mut count) = (String::with_capacity(modified.len()), 0);
    for part in diff_lines(original, modified) {
        let lines = match part {
            DiffPart::Unchanged(lines) => lines,
            DiffPart::Changed { old, new, .. } => {
                count += 1;
                if hunks.contains(&count) { new } else { old }
            }
        };
        text.extend(lines);
    }
    if let Some(none) = hunks.iter().find(|hunk| !(1..=count).contains(*hunk)) {
        return Err(wrong(format!("hunk {none} does not exist: the edit has {count}")));
    }
    arguments.insert("modified".to_owned(), Value::from(text));
    Ok(Value::Object(arguments))
}

fn diff_lines<'a>(original: &'a str, modified: &'a str) -> Vec<DiffPart<'a>> {
    let old: Vec<&str> = original.split_inclusive('\n').collect();
    let new: Vec<&str> = modified.split_inclusive('\n').collect();
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) =
        (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = ends.take_while(|(old, new)| old == new).count();
    let (old_mid, end) = old_rest.split_at(old_rest.len() - tail);
    let new_mid = new_rest.get(..new_rest.len() - tail).unwrap_or_default();
    let mut parts = vec![DiffPart::Unchanged(old.get(..head).unwrap_or_default().to_vec())];
    split_changes(old_mid, new_mid, head + 1, &mut parts);
    parts.push(DiffPart::Unchanged(end.to_vec()));
    parts
}

/// Splits a change at the lines that both sides share, as many as possible.
fn split_changes<'a>(old: &[&'a str], new: &[&'a str], from: usize, parts: &mut Vec<DiffPart<'a>>) {
    let common = longest_common_subsequence(old, new);
    let (mut at_old, mut at_new) = (0, 0);
    for (next_old, next_new) in common.into_iter().chain([(old.len(), new.len())]) {
        let gone = old.get(at_old..next_old).unwrap_or_default();
        let come = new.get(at_new..next_new).unwrap_or_default();
        // Lines replaced one by one are separate changes.
        if gone.len() == come.len() {
            for (index, (gone, come)) in gone.iter().zip(come).enumerate() {
                let line = from + at_old + index;
                parts.push(DiffPart::Changed { line, old: vec![*gone], new: vec![*come] });
            }
        } else {
            let (old, new) = (gone.to_vec(), come.to_vec());
            parts.push(DiffPart::Changed { line: from + at_old, old, new });
        }
        if let Some(line) = old.get(next_old) {
            parts.push(DiffPart::Unchanged(vec![*line]));
        }
        (at_old, at_new) = (next_old + 1, next_new + 1);
    }
}

/// Returns the positions of the longest common subsequence of lines.
fn longest_common_subsequence(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    if old.len().saturating_mul(width) > MAX_COMPARISONS {
        return Vec::new();
    }
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    let at = |longest: &[u32], place: usize| longest.get(place).copied().unwrap_or_default();
    for (i, old) in old.iter().enumerate().rev() {
        for (j, new) in new.iter().enumerate().rev() {
            let value = if old == new {
                at(&longest, (i + 1) * width + j + 1) + 1
            } else {
                at(&longest, (i + 1) * width + j).max(at(&longest, i * width + j + 1))
            };
            if let Some(place) = longest.get_mut(i * width + j) {
                *place = value;
            }
        }
    }
    let (mut row, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some(one), Some(other)) = (old.get(i), new.get(j)) {
        if one == other {
            row.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if at(&longest, (i + 1) * width + j) >= at(&longest, i * width + j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edit(original: &str, modified: &str) -> Value {
        json!({"path": "a", "original": original, "modified": modified})
    }

    #[test]
    fn changes_are_shown_one_by_one() {
        let edit = edit("a\nb\nc\nd\ne\n", "a\nB\nc\nd\nx\ne\n");
        let expected = "hunk 1 of 2, line 2\n  -b\n  +B\nhunk 2 of 2, line 5\n  +x";
        assert_eq!(format_hunks(&edit).unwrap(), expected);
        assert_eq!(format_hunks(&json!({"path": "a"})), None);
    }

    #[test]
    fn any_choice_of_changes_is_a_text_between_the_two() {
        let (old, new) = ("a\nb\nc\nd\n", "A\nb\nx\ny\nd\nend");
        let taken = |hunks: &[usize]| {
            let all = accept_hunks(&edit(old, new), hunks).unwrap();
            assert_eq!((&all["path"], &all["original"]), (&json!("a"), &json!(old)));
            all["modified"].as_str().unwrap().to_owned()
        };
        assert_eq!(taken(&[]), old);
        assert_eq!(taken(&[1, 2, 3]), new);
        assert_eq!(taken(&[1]), "A\nb\nc\nd\n");
        assert_eq!(taken(&[2]), "a\nb\nx\ny\nd\n");
        // Lines beside each other that take each other's place are two.
        assert_eq!(
            super::accept_hunks(&edit("1\n2\n", "3\n4\n"), &[2]).unwrap()["modified"],
            "1\n4\n"
        );
    }

    #[test]
    fn what_cannot_be_taken_is_told() {
        let told = |arguments: Value, hunks: &[usize]| {
            accept_hunks(&arguments, hunks).unwrap_err().to_string()
        };
        assert!(told(json!({}), &[1]).contains("the call is not an edit"));
        assert!(told(edit("a", "b"), &[2]).contains("hunk 2 does not exist: the edit has 1"));
        assert!(told(edit("a\\u{200b}", "b"), &[1]).contains("--arguments"));
    }
}
