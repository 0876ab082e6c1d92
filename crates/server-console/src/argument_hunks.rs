//! The changes of a call's arguments since the last approved call of its tool, each of which a reviewer
//! can take back.
//!
//! A hunk is a value that has changed, or a group of lines in a text of several lines.

use std::collections::BTreeSet;

use catalog::pin::{DefinitionChange, diff_definitions};
use serde_json::Value;
use similar::{DiffOp, DiffTag, TextDiff};
use tool::Json;

use crate::indented_json::indent_json;

/// Maximum number of hunks of a page; arguments with more are edited as a whole.
const MAX_HUNKS: usize = 40;

/// All hunks between two calls, in the order of the arguments.
#[derive(Debug)]
pub(crate) struct ArgumentHunks {
    arguments: Value,
    changes: Vec<ValueChange>,
}

#[derive(Debug)]
struct ValueChange {
    change: DefinitionChange,
    /// Lines that differ, if both values are texts of several lines.
    lines: Vec<DiffOp>,
}

/// One hunk as a reviewer reads it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ArgumentHunk {
    /// JSON pointer to the value; empty for all arguments.
    pub(crate) place: String,
    /// The text in the last approved call.
    pub(crate) before: String,
    /// The text in this call.
    pub(crate) after: String,
}

impl ArgumentHunks {
    /// Compares the arguments of a call with those of the last approved one. `None` if they are equal, if
    /// there are too many differences, or if the arguments would not stay exactly as they are, such as
    /// numbers with more digits than a program calculates with.
    pub(crate) fn between(former: &Json, current: &Json) -> Option<Self> {
        let arguments = current.to_value();
        let is_exact = indent_json(&arguments.to_string()) == indent_json(current.as_str());
        let (changes, more) = diff_definitions(former, current);
        let changes: Vec<_> = changes.into_iter().map(ValueChange::new).collect();
        let hunks = Self { arguments, changes };
        let count = hunks.list().len();
        (is_exact && more == 0 && (1..=MAX_HUNKS).contains(&count)).then_some(hunks)
    }

    /// Lists the hunks, in the order of their numbers.
    pub(crate) fn list(&self) -> Vec<ArgumentHunk> {
        self.changes.iter().flat_map(ValueChange::hunks).collect()
    }

    /// Returns the arguments with the hunks of these numbers, and with what the last approved call had in
    /// place of the others.
    pub(crate) fn keep(&self, kept: &BTreeSet<usize>) -> Option<String> {
        let mut first = 0;
        let (mut added, mut others) = (Vec::new(), Vec::new());
        for change in &self.changes {
            let count = change.hunks().len();
            let is_kept = |number: usize| kept.contains(&(first + number));
            if !(0..count).all(is_kept) {
                let value = change.mixed_value(is_kept);
                let list = if value.is_none() { &mut added } else { &mut others };
                list.push((change.change.pointer.as_str(), value));
            }
            first += count;
        }
        let mut arguments = self.arguments.clone();
        // What was added is taken out from the end, and what was taken out is added from the front: so
        // no item of a list moves before its turn.
        for (pointer, value) in added.into_iter().rev().chain(others) {
            replace_value(&mut arguments, pointer, value)?;
        }
        Some(arguments.to_string())
    }
}

impl ValueChange {
    fn new(change: DefinitionChange) -> Self {
        let lines = match (&change.before, &change.after) {
            (Some(Value::String(before)), Some(Value::String(after)))
                if before.contains('\n') && after.contains('\n') =>
            {
                let (before, after) = (split_lines(before), split_lines(after));
                let diff = TextDiff::from_slices(&before, &after);
                let ops = diff.ops().iter();
                ops.filter(|op| op.tag() != DiffTag::Equal).copied().collect()
            }
            _ => Vec::new(),
        };
        Self { change, lines }
    }

    fn texts(&self) -> Option<(&str, &str)> {
        self.change.before.as_ref()?.as_str().zip(self.change.after.as_ref()?.as_str())
    }

    fn hunks(&self) -> Vec<ArgumentHunk> {
        let place = &self.change.pointer;
        let text = |value: &Option<Value>| match value {
            Some(Value::String(text)) => text.clone(),
            Some(value) => indent_json(&value.to_string()),
            None => String::new(),
        };
        let Some((before, after)) = self.texts().filter(|_| !self.lines.is_empty()) else {
            let (before, after) = (text(&self.change.before), text(&self.change.after));
            return vec![ArgumentHunk { place: place.clone(), before, after }];
        };
        let (before, after) = (split_lines(before), split_lines(after));
        let hunk = |op: &DiffOp| ArgumentHunk {
            place: format!("{place}, line {}", op.new_range().start + 1),
            before: before.get(op.old_range()).unwrap_or_default().concat(),
            after: after.get(op.new_range()).unwrap_or_default().concat(),
        };
        self.lines.iter().map(hunk).collect()
    }

    /// The value with the hunks that are kept; `None` if it is to be taken out.
    fn mixed_value(&self, is_kept: impl Fn(usize) -> bool) -> Option<Value> {
        let Some((before, after)) = self.texts().filter(|_| !self.lines.is_empty()) else {
            return self.change.before.clone();
        };
        let (before, after) = (split_lines(before), split_lines(after));
        let (mut mixed, mut position) = (String::new(), 0);
        for (number, op) in self.lines.iter().enumerate() {
            let equal = position..op.new_range().start;
            mixed.extend(after.get(equal).unwrap_or_default().iter().copied());
            let chosen = if is_kept(number) {
                after.get(op.new_range())
            } else {
                before.get(op.old_range())
            };
            mixed.extend(chosen.unwrap_or_default().iter().copied());
            position = op.new_range().end;
        }
        mixed.extend(after.get(position..).unwrap_or_default().iter().copied());
        Some(Value::String(mixed))
    }
}

/// The lines of a text with their ends, as the comparison counts them.
fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Replaces, adds or takes out the value at a pointer; `None` if the pointer leads nowhere.
fn replace_value(root: &mut Value, pointer: &str, value: Option<Value>) -> Option<()> {
    if pointer.is_empty() {
        *root = value?;
        return Some(());
    }
    let (parent, key) = pointer.rsplit_once('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    match root.pointer_mut(parent)? {
        Value::Object(members) => match value {
            Some(value) => drop(members.insert(key, value)),
            None => drop(members.shift_remove(&key)),
        },
        Value::Array(items) => {
            let index = key.parse::<usize>().ok()?;
            match value {
                Some(value) if index < items.len() => *items.get_mut(index)? = value,
                Some(value) => items.push(value),
                None if index < items.len() => drop(items.remove(index)),
                None => return None,
            }
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), tool::JsonLimits::ARGUMENTS).unwrap()
    }

    fn hunks(former: &str, current: &str) -> ArgumentHunks {
        ArgumentHunks::between(&json(former), &json(current)).unwrap()
    }

    #[test]
    fn lines_of_a_text_are_taken_back_one_group_at_a_time() {
        let former = r#"{"path":"a","text":"one\ntwo\nthree\nfour\n"}"#;
        let current = r#"{"path":"b","text":"one\n2\nthree\nfour\nfive\n"}"#;
        let hunks = hunks(former, current);
        let places: Vec<_> = hunks.list().into_iter().map(|hunk| hunk.place).collect();
        assert_eq!(places, ["/path", "/text, line 2", "/text, line 5"]);
        let keep = |kept: &[usize]| hunks.keep(&kept.iter().copied().collect()).unwrap();
        assert_eq!(keep(&[0, 1, 2]), current);
        assert_eq!(keep(&[]), former);
        assert_eq!(keep(&[1]), r#"{"path":"a","text":"one\n2\nthree\nfour\n"}"#);
        assert_eq!(keep(&[0, 2]), r#"{"path":"b","text":"one\ntwo\nthree\nfour\nfive\n"}"#);
    }

    #[test]
    fn values_are_replaced_added_and_taken_out() {
        let former = r#"{"gone":1,"list":[1,2,3],"a/b":{"x":true}}"#;
        let current = r#"{"list":[1,9],"a/b":{"x":false},"new":null,"more":[4]}"#;
        let hunks = hunks(former, current);
        let keep = |kept: &[usize]| -> Value {
            serde_json::from_str(&hunks.keep(&kept.iter().copied().collect()).unwrap()).unwrap()
        };
        let all: Vec<usize> = (0..hunks.list().len()).collect();
        assert_eq!(keep(&all).to_string(), current);
        let back: Value = serde_json::from_str(former).unwrap();
        assert_eq!(keep(&[]), back);
        for number in all {
            let one = keep(&[number]);
            assert_ne!(one, back, "{number}");
        }
    }

    #[test]
    fn lists_grow_and_shrink_at_their_end() {
        for (former, current) in
            [(r#"{"l":[1]}"#, r#"{"l":[1,2,3]}"#), (r#"{"l":[1,2,3]}"#, r#"{"l":[1]}"#)]
        {
            let hunks = hunks(former, current);
            assert_eq!(hunks.list().len(), 2);
            assert_eq!(hunks.keep(&BTreeSet::new()).unwrap(), former);
            assert_eq!(hunks.keep(&(0..2).collect()).unwrap(), current);
        }
    }

    #[test]
    fn what_would_not_stay_exact_has_no_hunks() {
        let former = json(r#"{"n":1}"#);
        for current in [
            r#"{"n":1}"#,
            r#"{"n":12345678901234567890.1}"#,
            r#"{"n":2,"m":1.0e3}"#,
            r#"{"n":"\u00e9"}"#,
        ] {
            assert!(ArgumentHunks::between(&former, &json(current)).is_none(), "{current}");
        }
        let many: Vec<String> = (0..=MAX_HUNKS).map(|at| format!("\"k{at}\":{at}")).collect();
        let many = json(&format!("{{{}}}", many.join(",")));
        assert!(ArgumentHunks::between(&former, &many).is_none());
    }
}
