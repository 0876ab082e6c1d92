//! Forbidden words: marks of unfinished work, paths of one machine, and names without meaning.

use super::TidyFinding;
use super::lexer::mask_source;
use super::tracked_files::TrackedText;

/// Marks of unfinished work. Split, so that this file does not match itself.
const UNFINISHED_MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX:")];

/// Folders that exist on one machine only. Tests may use the first two as bad input.
const MACHINE_PATHS: &[(&str, bool)] = &[
    (concat!("/ho", "me/"), true),
    (concat!("/ro", "ot/"), true),
    (concat!("/wo", "rk/"), false),
    (concat!("/tmp/", "wt"), false),
    (concat!("/Us", "ers/"), true),
];

/// Names for files that would fit anything.
const VAGUE_NAMES: &[&str] = &[
    "manager", "service", "handler", "helper", "helpers", "util", "utils", "common", "core",
    "engine",
];

/// Checks every rule on the words of `file`.
pub(crate) fn check_words(file: &TrackedText) -> Vec<TidyFinding> {
    let mut findings: Vec<TidyFinding> = check_file_name(file).into_iter().collect();
    // Licences and lock files are not ours to word.
    if matches!(file.path.as_str(), "LICENSE" | "Cargo.lock") {
        return findings;
    }
    findings.extend(check_marks(file));
    findings.extend(check_machine_paths(file));
    findings
}

fn check_file_name(file: &TrackedText) -> Option<TidyFinding> {
    let name = file.path.rsplit('/').next()?.strip_suffix(".rs")?;
    VAGUE_NAMES.contains(&name).then(|| {
        TidyFinding::new(
            &file.path,
            0,
            format!("`{name}` says nothing"),
            "name it after what it holds",
        )
    })
}

fn check_marks(file: &TrackedText) -> Vec<TidyFinding> {
    let masked = file.has_extension("rs").then(|| mask_source(&file.content).comments);
    let text = masked.as_deref().unwrap_or(&file.content);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for mark in UNFINISHED_MARKS.iter().filter(|mark| is_whole_word(line, mark)) {
            let what = format!("`{mark}`");
            findings.push(TidyFinding::new(
                &file.path,
                index + 1,
                what,
                "do it now, or file it as an issue",
            ));
        }
    }
    findings
}

fn is_whole_word(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let letter = |c: char| c.is_alphanumeric() || c == '_';
        let previous_char = line.get(..at).and_then(|l| l.chars().next_back());
        let after = line.get(at + mark.len()..).and_then(|l| l.chars().next());
        !previous_char.is_some_and(letter) && !after.is_some_and(letter)
    })
}

fn check_machine_paths(file: &TrackedText) -> Vec<TidyFinding> {
    let attacks = ["/tests/", "/tests.rs", "/fixtures/", "testkit/"];
    let is_test = attacks.iter().any(|part| file.path.contains(part));
    let mut findings = Vec::new();
    let mut in_tests = is_test;
    for (number, line) in file.numbered_lines() {
        in_tests |= file.has_extension("rs") && line.trim() == "#[cfg(test)]";
        for (folder, input) in MACHINE_PATHS.iter().filter(|(_, input)| !(*input && in_tests)) {
            if let Some(at) = line.find(folder).filter(|at| is_absolute(line, *at)) {
                let found: String = line.chars().skip(at).take(24).collect();
                let why = if *input { "a path of one machine" } else { "a path of one workplace" };
                let fix = "use a path from the root of the repository, or a variable";
                findings.push(TidyFinding::new(
                    &file.path,
                    number,
                    format!("`{found}` is {why}"),
                    fix,
                ));
            }
        }
    }
    findings
}

/// Whether the path that holds the slash at `at` begins there.
fn is_absolute(line: &str, at: usize) -> bool {
    let previous_char = line.get(..at).and_then(|l| l.chars().next_back());
    !previous_char.is_some_and(|c| c.is_alphanumeric() || "._-~}$)>*/".contains(c))
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_PATHS, UNFINISHED_MARKS, check_words};
    use crate::tidy::texts;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check_words(&texts(&[(path, text)])[0]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn work_put_off_is_found() {
        for mark in UNFINISHED_MARKS {
            assert_eq!(findings("a.rs", &format!("// {mark} later")).len(), 1);
            assert_eq!(findings("a.sh", &format!("# {mark}")).len(), 1);
            assert_eq!(findings("a.rs", &format!("let a = \"{mark}\";")), [""; 0]);
        }
        assert_eq!(findings("a.md", &format!("{}S are words", UNFINISHED_MARKS[0])), [""; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for (folder, input) in MACHINE_PATHS {
            let line = format!("\nlet a = \"{folder}me/x\";");
            let found = findings("crates/a/src/b.rs", &line);
            assert_eq!(found.len(), 1, "{line}");
            assert!(found[0].starts_with("crates/a/src/b.rs:2: "), "{found:?}");
            assert_eq!(findings("crates/a/src/b/tests.rs", &line).is_empty(), *input, "{line}");
            assert_eq!(findings("a.yaml", &format!("root: .{folder}me")), [""; 0]);
        }
    }

    #[test]
    fn names_say_something() {
        assert_eq!(findings("crates/a/src/util.rs", "").len(), 1);
        assert_eq!(findings("crates/a/src/utility_bills.rs", ""), [""; 0]);
    }
}
