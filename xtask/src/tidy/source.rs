//! Rules on one Rust file: sizes, forbidden words, and who may call what.

use super::files::Text;
use super::lexer::{Masked, mask};
use super::{Finding, defaults};

/// The crates that do no I/O, start no task, read no clock and no environment.
pub(crate) const PURE: &[&str] =
    &["json", "tool", "identity", "catalog", "policy", "formats", "mcp"];

/// Most lines of a file without its tests, and of a file of tests.
const SIZES: (usize, usize) = (400, 800);
/// Most lines of a `main.rs`.
const MAIN: usize = 60;

/// Modules of `std` that a pure crate has no business with.
const IMPURE: &[&str] = &["fs", "net", "env", "process", "thread"];

/// Words that leave something unfinished or unsaid, with what to do instead.
const UNWANTED: &[(&str, &str)] = &[
    ("#[allow(", "use `#[expect(lint, reason = \"…\")]`"),
    ("#![allow(", "use `#![expect(lint, reason = \"…\")]`"),
    ("#[ignore", "make the test run, or remove it"),
    ("todo!(", "write it, or leave it out"),
    ("unimplemented!(", "write it, or leave it out"),
];

/// Who may name a function that only one place may call: the function, its crates, the reason.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("Granted::of", &["gateway", "testkit"], "only the pipeline calls an executor"),
    (
        "PrincipalPort",
        &["gateway", "programs", "toolkeep"],
        "only tools of this program act on behalf of their caller",
    ),
    ("PrincipalToken::seal", &["tool", "gateway"], "only the pipeline seals a principal"),
    (
        "Ticket::issue",
        &["ledger", "testkit", "bench"],
        "only a ledger says that an intent is on record",
    ),
];

/// One Rust file, read once.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) masked: Masked,
    /// The line from which all is tests; none where there are none.
    tests_from: Option<usize>,
}

impl<'a> Source<'a> {
    /// `None` for what is no Rust.
    pub(crate) fn read(file: &'a Text) -> Option<Self> {
        file.is("rs").then(|| {
            let masked = mask(&file.text);
            let tests_from = if is_test(&file.path) { Some(1) } else { inline_tests(&masked.code) };
            Self { path: &file.path, masked, tests_from }
        })
    }

    /// The crate it belongs to.
    pub(crate) fn owner(&self) -> &'a str {
        let inside = self.path.strip_prefix("crates/").unwrap_or(self.path);
        inside.split('/').next().unwrap_or(inside)
    }

    /// Lines of code that are no tests, with their numbers.
    pub(super) fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.tests_from.unwrap_or(usize::MAX);
        numbered(&self.masked.code).take_while(move |(number, _)| *number < end)
    }

    /// The tests of this file by their whole paths, such as `gateway::waits::tests::it_waits` or
    /// `toolkeep::it::data::no_row_gets_out`.
    pub(crate) fn tests(&self) -> Vec<String> {
        // A file without a module of tests may be one as a whole, as its parent declares.
        let from = self.tests_from.unwrap_or(1);
        let inline = if from > 1 { "tests::" } else { "" };
        let module = module_path(self.path);
        // A macro that makes tests of functions names one on each line.
        let named = |name: &str| {
            let mut lines = self.masked.code.lines().map(|line| line.trim().trim_end_matches(','));
            lines.any(|line| line == name)
        };
        let mut is_test = false;
        let mut tests = Vec::new();
        for (_, line) in numbered(&self.masked.code).filter(|(number, _)| *number >= from) {
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

/// The module that a file is, with its crate before it and `::` behind it.
fn module_path(path: &str) -> String {
    let inside = path.strip_prefix("crates/").unwrap_or(path).trim_end_matches(".rs");
    let parts = inside.split('/').enumerate();
    // The folder `src` or `tests` of a crate is no module; a folder `tests` within `src` is one.
    let modules = parts.filter(|(at, part)| *at != 1 && !matches!(*part, "lib" | "main"));
    modules.map(|(_, part)| part.replace('-', "_") + "::").collect()
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Whether the whole file is tests, by where it lies.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The line where the tests at the end of a file begin.
fn inline_tests(code: &str) -> Option<usize> {
    let lines: Vec<(usize, &str)> = numbered(code).collect();
    lines.windows(2).find_map(|pair| match pair {
        [(number, first), (_, second)] => {
            let opens = second.contains("mod ") && second.trim_end().ends_with('{');
            (first.trim() == "#[cfg(test)]" && opens).then_some(*number)
        }
        _ => None,
    })
}

/// Every rule on `source`.
pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = size(source);
    findings.extend(unwanted(source));
    findings.extend(reserved(source));
    findings.extend(defaults::check(source));
    if PURE.contains(&source.owner()) && source.path.contains("/src/") {
        findings.extend(pure(source));
    }
    findings
}

fn size(source: &Source<'_>) -> Vec<Finding> {
    let all = source.masked.code.lines().count();
    let product = source.tests_from.map_or(all, |from| from - 1);
    let mut findings = Vec::new();
    let mut limit = |lines: usize, most: usize, what: &str| {
        if lines > most {
            let what = format!("{lines} lines{what}, at most {most}");
            findings.push(Finding::new(source.path, 0, what, "split it by what changes together"));
        }
    };
    limit(product, SIZES.0, " without tests");
    limit(all - product, SIZES.1, " of tests");
    if source.path.ends_with("src/main.rs") {
        limit(product, MAIN, " in a main.rs");
    }
    findings
}

fn unwanted(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in numbered(&source.masked.code) {
        for (word, fix) in UNWANTED {
            if line.contains(word) {
                findings.push(Finding::new(source.path, number, format!("`{word}`"), *fix));
            }
        }
    }
    findings
}

fn reserved(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.product() {
        for (function, crates, reason) in RESERVED {
            if line.contains(function) && !crates.contains(&source.owner()) {
                let what = format!("`{function}` outside {}", crates.join(" and "));
                findings.push(Finding::new(source.path, number, what, *reason));
            }
        }
    }
    findings
}

fn pure(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.product() {
        if let Some(word) = impurity(line) {
            let what = format!("`{word}` in the pure crate {}", source.owner());
            let fix = "take it as an argument or a port, and do it in an adapter";
            findings.push(Finding::new(source.path, number, what, fix));
        }
    }
    findings
}

/// What in this line reaches out of the program.
fn impurity(line: &str) -> Option<String> {
    let plain = IMPURE.iter().map(|module| format!("std::{module}"));
    let clocks = ["SystemTime", "Instant::now", "tokio::", "println!", "eprintln!"];
    let mut words = plain.chain(clocks.map(str::to_owned));
    words.find(|word| has_word(line, word)).or_else(|| {
        let group = line.split_once("std::{")?.1;
        let mut names = group.split([',', '{', '}', ';']).map(str::trim);
        names
            .find(|name| IMPURE.contains(&name.split("::").next().unwrap_or_default()))
            .map(|name| format!("std::{name}"))
    })
}

/// Whether `word` stands in `line` with no letter right after it.
fn has_word(line: &str, word: &str) -> bool {
    let ends = word.ends_with(|c: char| !c.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| {
        let after = line.get(at + word.len()..).and_then(|rest| rest.chars().next());
        ends || !after.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::{Source, check, impurity};
    use crate::tidy::texts;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let files = texts(&[(path, text)]);
        let source = Source::read(&files[0]).unwrap();
        check(&source).iter().map(ToString::to_string).collect()
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
        let text = "let granted = Granted::of(&call, &ticket);";
        assert_eq!(findings("crates/gateway/src/call.rs", text), [""; 0]);
        assert_eq!(findings("crates/upstreams/tests/it/a.rs", text), [""; 0]);
        assert_eq!(
            findings("crates/server/src/rest.rs", text),
            [
                "crates/server/src/rest.rs:1: `Granted::of` outside gateway and testkit; only the pipeline calls an executor"
            ]
        );
        assert_eq!(findings("crates/gateway/src/call.rs", "Ticket::issue(id, drop)").len(), 1);
        let inline = "#[cfg(test)]\nmod tests {\nTicket::issue(id, drop)\n}";
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
            assert_eq!(impurity(fine), None);
        }
    }
}
