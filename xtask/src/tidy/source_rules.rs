//! Rules for one Rust file: sizes, forbidden words, and restricted calls.

use super::lexer::{MaskedSource, mask_source};
use super::tracked_files::TrackedText;
use super::{TidyFinding, silent_defaults};

/// The crates that do no I/O, start no task, read no clock and no environment.
pub(crate) const PURE_CRATES: &[&str] =
    &["json", "tool", "identity", "catalog", "policy", "formats", "mcp", "search", "word-vectors"];

/// Most lines of a file without its tests, and of a file of tests.
const LINE_LIMITS: (usize, usize) = (400, 800);
/// Most lines of a `main.rs`.
const MAX_MAIN_LINES: usize = 60;

/// Modules of `std` that a pure crate has no business with.
const IMPURE_MODULES: &[&str] = &["fs", "net", "env", "process", "thread"];

/// Words that mark unfinished or unexplained code, with the remedy.
const FORBIDDEN_WORDS: &[(&str, &str)] = &[
    ("#[allow(", "use `#[expect(lint, reason = \"…\")]`"),
    ("#![allow(", "use `#![expect(lint, reason = \"…\")]`"),
    ("#[ignore", "make the test run, or remove it"),
    ("todo!(", "write it, or leave it out"),
    ("unimplemented!(", "write it, or leave it out"),
];

/// Restricted functions: the function, the crates that may name it, and the reason.
const RESERVED_CALLS: &[(&str, &[&str], &str)] = &[
    ("RecordedCall::from_receipt", &["gateway", "testkit"], "only the pipeline calls an executor"),
    (
        "PrincipalPort",
        &["gateway", "programs", "toolkeep"],
        "only tools of this program act on behalf of their caller",
    ),
    ("PrincipalToken::seal", &["tool", "gateway"], "only the pipeline seals a principal"),
    (
        "IntentReceipt::with_abandon_hook",
        &["ledger", "testkit", "bench"],
        "only a ledger says that an intent is on record",
    ),
];

/// One Rust file, read once.
#[derive(Debug)]
pub(crate) struct RustSource<'a> {
    pub(crate) path: &'a str,
    pub(crate) masked: MaskedSource,
    /// First line of the tests at the end; `None` without tests.
    first_test_line: Option<usize>,
}

impl<'a> RustSource<'a> {
    /// Parses a file; `None` if it is not Rust.
    pub(crate) fn from_text(file: &'a TrackedText) -> Option<Self> {
        file.has_extension("rs").then(|| {
            let masked = mask_source(&file.content);
            let tests_from =
                if is_test_file(&file.path) { Some(1) } else { inline_tests_line(&masked.code) };
            Self { path: &file.path, masked, first_test_line: tests_from }
        })
    }

    /// Returns the name of the file's crate.
    pub(crate) fn crate_name(&self) -> &'a str {
        let inside = self.path.strip_prefix("crates/").unwrap_or(self.path);
        inside.split('/').next().unwrap_or(inside)
    }

    /// Returns the lines of code outside of tests, with their numbers.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.first_test_line.unwrap_or(usize::MAX);
        numbered_lines(&self.masked.code).take_while(move |(number, _)| *number < end)
    }

    /// Returns the full paths of the tests in this file, such as `gateway::waits::tests::it_waits`.
    pub(crate) fn test_paths(&self) -> Vec<String> {
        // A file without a module of tests may be one as a whole, as its parent declares.
        let from = self.first_test_line.unwrap_or(1);
        let inline = if from > 1 { "tests::" } else { "" };
        let module = module_path(self.path);
        // A macro that generates tests from functions names one of them per line.
        let named = |name: &str| {
            let mut lines = self.masked.code.lines().map(|line| line.trim().trim_end_matches(','));
            lines.any(|line| line == name)
        };
        let mut is_test = false;
        let mut tests = Vec::new();
        for (_, line) in numbered_lines(&self.masked.code).filter(|(number, _)| *number >= from) {
            let line = line.trim();
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[test]") || line.contains("::test");
            } else if let Some((_, rest)) = line.split_once("fn ") {
                let name = rest.split(['(', '<']).next().unwrap_or(rest);
                if !is_test && !named(name) {
                    continue;
                }
                tests.push(format!("{module}{inline}{name}"));
                is_test = false;
            } else if line.ends_with(';') || line.ends_with('}') {
                is_test = false;
            }
        }
        tests
    }
}

/// Returns the module path of a file, with its crate in front and `::` at the end.
fn module_path(path: &str) -> String {
    let inside = path.strip_prefix("crates/").unwrap_or(path).trim_end_matches(".rs");
    let parts = inside.split('/').enumerate();
    // The folder `src` or `tests` of a crate is no module; a folder `tests` within `src` is one.
    let modules = parts.filter(|(at, part)| *at != 1 && !matches!(*part, "lib" | "main"));
    modules.map(|(_, part)| part.replace('-', "_") + "::").collect()
}

fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Returns whether the whole file is tests, by its path.
fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Returns the line at which the tests at the end of a file begin.
fn inline_tests_line(code: &str) -> Option<usize> {
    let lines: Vec<(usize, &str)> = numbered_lines(code).collect();
    lines.windows(2).find_map(|pair| match pair {
        [(number, first), (_, second)] => {
            let opens = second.contains("mod ") && second.trim_end().ends_with('{');
            (first.trim() == "#[cfg(test)]" && opens).then_some(*number)
        }
        _ => None,
    })
}

/// Checks every rule on `source`.
pub(crate) fn check_source(source: &RustSource<'_>) -> Vec<TidyFinding> {
    let mut findings = check_size(source);
    findings.extend(check_forbidden(source));
    findings.extend(check_reserved(source));
    findings.extend(silent_defaults::check_defaults(source));
    if PURE_CRATES.contains(&source.crate_name()) && source.path.contains("/src/") {
        findings.extend(check_purity(source));
    }
    findings
}

fn check_size(source: &RustSource<'_>) -> Vec<TidyFinding> {
    let all = source.masked.code.lines().count();
    let product = source.first_test_line.map_or(all, |from| from - 1);
    let mut findings = Vec::new();
    let mut limit = |lines: usize, most: usize, what: &str| {
        if lines > most {
            let what = format!("{lines} lines{what}, at most {most}");
            findings.push(TidyFinding::new(
                source.path,
                0,
                what,
                "split it by what changes together",
            ));
        }
    };
    limit(product, LINE_LIMITS.0, " without tests");
    limit(all - product, LINE_LIMITS.1, " of tests");
    if source.path.ends_with("src/main.rs") {
        limit(product, MAX_MAIN_LINES, " in a main.rs");
    }
    findings
}

fn check_forbidden(source: &RustSource<'_>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (number, line) in numbered_lines(&source.masked.code) {
        for (word, fix) in FORBIDDEN_WORDS {
            if line.contains(word) {
                findings.push(TidyFinding::new(source.path, number, format!("`{word}`"), *fix));
            }
        }
    }
    findings
}

fn check_reserved(source: &RustSource<'_>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (number, line) in source.product_lines() {
        for (function, crates, reason) in RESERVED_CALLS {
            if line.contains(function) && !crates.contains(&source.crate_name()) {
                let what = format!("`{function}` outside {}", crates.join(" and "));
                findings.push(TidyFinding::new(source.path, number, what, *reason));
            }
        }
    }
    findings
}

fn check_purity(source: &RustSource<'_>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (number, line) in source.product_lines() {
        if let Some(word) = find_impurity(line) {
            let what = format!("`{word}` in the pure crate {}", source.crate_name());
            let fix = "take it as an argument or a port, and do it in an adapter";
            findings.push(TidyFinding::new(source.path, number, what, fix));
        }
    }
    findings
}

/// Finds an access to the world outside of the program in this line.
fn find_impurity(line: &str) -> Option<String> {
    let plain = IMPURE_MODULES.iter().map(|module| format!("std::{module}"));
    let clocks = ["SystemTime", "Instant::now", "tokio::", "println!", "eprintln!"];
    let mut segments = plain.chain(clocks.map(str::to_owned));
    segments.find(|word| has_word(line, word)).or_else(|| {
        let group = line.split_once("std::{")?.1;
        let mut names = group.split([',', '{', '}', ';']).map(str::trim);
        names
            .find(|name| IMPURE_MODULES.contains(&name.split("::").next().unwrap_or_default()))
            .map(|name| format!("std::{name}"))
    })
}

/// Returns whether `word` occurs in `line` without a letter directly after it.
fn has_word(line: &str, word: &str) -> bool {
    let ends = word.ends_with(|c: char| !c.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| {
        let after = line.get(at + word.len()..).and_then(|rest| rest.chars().next());
        ends || !after.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::{RustSource, check_source, find_impurity};
    use crate::tidy::texts;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let files = texts(&[(path, text)]);
        let source = RustSource::from_text(&files[0]).unwrap();
        check_source(&source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn small_files_pass_and_large_ones_do_not() {
        let lines = |count: usize| "x;\n".repeat(count);
        let tests = |count: usize| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(count - 3));
        assert_eq!(findings("crates/a/src/lib.rs", &lines(400)), [""; 0]);
        assert_eq!(findings("crates/a/src/lib.rs", &(lines(400) + &tests(800))), [""; 0]);
        assert_eq!(
            findings("crates/a/src/lib.rs", &lines(401)),
            [
                "crates/a/src/lib.rs: 401 lines without tests, at most 400; split it by what changes together"
            ]
        );
        assert_eq!(findings("crates/a/src/lib.rs", &(lines(400) + &tests(801))).len(), 1);
        assert_eq!(findings("crates/a/src/a/tests.rs", &lines(800)), [""; 0]);
        assert_eq!(findings("crates/a/tests/it/b.rs", &lines(801)).len(), 1);
        assert_eq!(findings("crates/a/src/main.rs", &lines(60)), [""; 0]);
        assert_eq!(findings("crates/a/src/main.rs", &lines(61)).len(), 1);
    }

    #[test]
    fn unfinished_code_is_found_and_its_mention_is_not() {
        for fault in [
            "#[allow(dead_code)]",
            "#![allow(dead_code)]",
            "#[ignore]",
            "todo!()",
            "  #[ignore = \"slow\"]",
        ] {
            assert_eq!(findings("crates/a/src/b.rs", fault).len(), 1, "{fault}");
            assert_eq!(findings("crates/a/src/b.rs", &format!("// {fault}")), [""; 0]);
        }
        assert_eq!(
            findings("crates/a/src/b.rs", "const A: &str = \"#[allow(x)] todo!()\";"),
            [""; 0]
        );
        assert_eq!(findings("crates/a/src/b.rs", "#[expect(dead_code, reason = \"x\")]"), [""; 0]);
    }

    #[test]
    fn reserved_functions_have_one_caller() {
        let text = "let granted = RecordedCall::from_receipt(&call, &ticket);";
        assert_eq!(findings("crates/gateway/src/call.rs", text), [""; 0]);
        assert_eq!(findings("crates/upstreams/tests/it/a.rs", text), [""; 0]);
        assert_eq!(
            findings("crates/server/src/rest.rs", text),
            [
                "crates/server/src/rest.rs:1: `RecordedCall::from_receipt` outside gateway and testkit; only the pipeline calls an executor"
            ]
        );
        assert_eq!(
            findings("crates/gateway/src/call.rs", "IntentReceipt::with_abandon_hook(id, drop)")
                .len(),
            1
        );
        let inline = "#[cfg(test)]\nmod tests {\nIntentReceipt::with_abandon_hook(id, drop)\n}";
        assert_eq!(findings("crates/gateway/src/call.rs", inline), [""; 0]);
    }

    #[test]
    fn pure_crates_reach_for_nothing() {
        for fault in [
            "use std::fs;",
            "std::env::var(\"A\")",
            "SystemTime::now()",
            "use std::{fmt, fs};",
            "use std::{net::IpAddr};",
            "tokio::spawn(x)",
        ] {
            assert_eq!(findings("crates/policy/src/a.rs", fault).len(), 1, "{fault}");
            assert_eq!(findings("crates/store/src/a.rs", fault), [""; 0], "{fault}");
            assert_eq!(findings("crates/policy/tests/it/a.rs", fault), [""; 0], "{fault}");
        }
        for fine in [
            "use std::fmt;",
            "use std::{fmt, sync::Arc};",
            "let environment = 1;",
            "std::environment",
        ] {
            assert_eq!(find_impurity(fine), None);
        }
    }
}
