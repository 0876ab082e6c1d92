//! Words that do not belong into any file: marks of unfinished work, paths of one machine, and names
//! that say nothing.

use super::Finding;
use super::files::Text;
use super::lexer::mask;

/// Marks of work that was put off. Split, so that this file does not find itself.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX:")];

/// Folders that exist on one machine only. Tests may use the first two as bad input.
const MACHINE: &[(&str, bool)] = &[
    (concat!("/ho", "me/"), true),
    (concat!("/ro", "ot/"), true),
    (concat!("/wo", "rk/"), false),
    (concat!("/tmp/", "wt"), false),
    (concat!("/Us", "ers/"), true),
];

/// Names for files that would fit anything.
const VAGUE: &[&str] = &[
    "manager", "service", "handler", "helper", "helpers", "util", "utils", "common", "core",
    "engine",
];

/// Every rule on `file`.
pub(crate) fn check(file: &Text) -> Vec<Finding> {
    let mut findings: Vec<Finding> = vague(file).into_iter().collect();
    // Licences and lock files are not ours to word.
    if matches!(file.path.as_str(), "LICENSE" | "Cargo.lock") {
        return findings;
    }
    findings.extend(marks(file));
    findings.extend(machine(file));
    findings
}

fn vague(file: &Text) -> Option<Finding> {
    let name = file.path.rsplit('/').next()?.strip_suffix(".rs")?;
    VAGUE.contains(&name).then(|| {
        Finding::new(&file.path, 0, format!("`{name}` says nothing"), "name it after what it holds")
    })
}

fn marks(file: &Text) -> Vec<Finding> {
    let masked = file.is("rs").then(|| mask(&file.text).comments);
    let text = masked.as_deref().unwrap_or(&file.text);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for mark in MARKS.iter().filter(|mark| stands_alone(line, mark)) {
            let what = format!("`{mark}`");
            findings.push(Finding::new(
                &file.path,
                index + 1,
                what,
                "do it now, or file it as an issue",
            ));
        }
    }
    findings
}

fn stands_alone(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let letter = |c: char| c.is_alphanumeric() || c == '_';
        let before = line.get(..at).and_then(|l| l.chars().next_back());
        let after = line.get(at + mark.len()..).and_then(|l| l.chars().next());
        !before.is_some_and(letter) && !after.is_some_and(letter)
    })
}

fn machine(file: &Text) -> Vec<Finding> {
    let attacks = ["/tests/", "/tests.rs", "/fixtures/", "testkit/"];
    let is_test = attacks.iter().any(|part| file.path.contains(part));
    let mut findings = Vec::new();
    let mut in_tests = is_test;
    for (number, line) in file.lines() {
        in_tests |= file.is("rs") && line.trim() == "#[cfg(test)]";
        for (folder, input) in MACHINE.iter().filter(|(_, input)| !(*input && in_tests)) {
            if let Some(at) = line.find(folder).filter(|at| is_absolute(line, *at)) {
                let found: String = line.chars().skip(at).take(24).collect();
                let why = if *input { "a path of one machine" } else { "a path of one workplace" };
                let fix = "use a path from the root of the repository, or a variable";
                findings.push(Finding::new(&file.path, number, format!("`{found}` is {why}"), fix));
            }
        }
    }
    findings
}

/// Whether the path that holds the slash at `at` begins there.
fn is_absolute(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|l| l.chars().next_back());
    !before.is_some_and(|c| c.is_alphanumeric() || "._-~}$)>*/".contains(c))
}

#[cfg(test)]
mod tests {
    use super::{MACHINE, MARKS, check};
    use crate::tidy::texts;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&texts(&[(path, text)])[0]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn work_put_off_is_found() {
        for mark in MARKS {
            assert_eq!(findings("a.rs", &format!("// {mark} later")).len(), 1);
            assert_eq!(findings("a.sh", &format!("# {mark}")).len(), 1);
            assert_eq!(findings("a.rs", &format!("let a = \"{mark}\";")), [""; 0]);
        }
        assert_eq!(findings("a.md", &format!("{}S are words", MARKS[0])), [""; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for (folder, input) in MACHINE {
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
