//! Rule against silent defaults for invalid values, in the crates that decide and record.

use super::TidyFinding;
use super::source_rules::RustSource;

/// The crates of record, identity, policy, the pipeline with its approvals, and pins.
const CHECKED_CRATES: &[&str] = &["ledger", "identity", "policy", "gateway", "intake"];

/// Calls that fail because a value is wrong. Lookups by key are not among them, because a key may
/// be absent.
const FALLIBLE_CALLS: &[&str] =
    &["try_from(", "try_into()", ".read()", ".read::<", "from_slice(", "to_vec(", "to_string(&"];

/// Calls that replace the value by a default.
const DEFAULT_CALLS: &[&str] = &[".unwrap_or_default()", ".unwrap_or(0)"];

/// Finds defaults for slices out of bounds, failed conversions, and JSON that cannot be read or
/// written.
pub(super) fn check_defaults(source: &RustSource<'_>) -> Vec<TidyFinding> {
    if !CHECKED_CRATES.contains(&source.crate_name()) || !source.path.contains("/src/") {
        return Vec::new();
    }
    let wrong = |line: &(usize, String)| has_wrong_default(&line.1);
    let finding = |(number, _): (usize, String)| {
        let what = "a default stands for a value that is wrong rather than absent";
        let fix = "return an error, saturate at `MAX`, or name what the value means";
        TidyFinding::new(source.path, number, what, fix)
    };
    call_chains(source).into_iter().filter(wrong).map(finding).collect()
}

/// The lines of code, each with the calls that are chained to it on the lines below.
fn call_chains(source: &RustSource<'_>) -> Vec<(usize, String)> {
    let mut chains: Vec<(usize, String)> = Vec::new();
    for (number, line) in source.product_lines() {
        let line = line.trim();
        match chains.last_mut() {
            Some((_, chain)) if line.starts_with('.') => chain.push_str(line),
            _ => chains.push((number, line.to_owned())),
        }
    }
    chains
}

fn has_wrong_default(chain: &str) -> bool {
    let ends = DEFAULT_CALLS.iter().filter_map(|default| chain.find(default)).min();
    let Some(value) = ends.and_then(|end| chain.get(..end)) else { return false };
    FALLIBLE_CALLS.iter().any(|word| value.contains(word)) || ends_in_slice(value)
}

/// Returns whether the value ends with `.get(…..…)` or `.get_mut(…..…)`.
fn ends_in_slice(value: &str) -> bool {
    let last = value.rfind(".get(").max(value.rfind(".get_mut("));
    last.and_then(|at| value.get(at..)).is_some_and(|call| call.contains(".."))
}

#[cfg(test)]
mod tests {
    use super::check_defaults;
    use crate::tidy::source_rules::RustSource;
    use crate::tidy::texts;

    fn count(path: &str, line: &str) -> usize {
        let files = texts(&[(path, &format!("fn f() {{\n{line}\n}}\n"))]);
        check_defaults(&RustSource::from_text(&files[0]).unwrap()).len()
    }

    #[test]
    fn a_default_for_what_is_wrong_is_found_where_records_and_rights_are() {
        for line in [
            "let sum = hash(bytes.get(..SUM).unwrap_or_default());",
            "let rest = self.buffer.get_mut(old..).unwrap_or_default();",
            "let length = u8::try_from(writer.len()).unwrap_or_default();",
            "let size = usize::try_from(size).unwrap_or(0);",
            "let text = serde_json::to_vec(&rule).unwrap_or_default();",
            "let words = fit(json)\n    .read::<String>()\n    .unwrap_or_default();",
        ] {
            assert_eq!(count("crates/ledger/src/a.rs", line), 1, "{line}");
            // The control: not where a wrong value harms no record and no right, and not in tests.
            assert_eq!(count("crates/builtins/src/a.rs", line), 0, "{line}");
            assert_eq!(count("crates/ledger/src/a/tests.rs", line), 0, "{line}");
        }
    }

    #[test]
    fn a_default_for_what_is_absent_passes() {
        for line in [
            "let ids = self.ids.get(&key).cloned().unwrap_or_default();",
            "let last = numbers.last().copied().unwrap_or(0);",
            "let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);",
            "let reason = reason.map(words).unwrap_or_default();",
        ] {
            assert_eq!(count("crates/gateway/src/a.rs", line), 0, "{line}");
        }
    }
}
