//! Rules on documents: each error code has a page, golden documents exist, promises name their
//! tests, and commands can be run.

use std::collections::HashSet;

use super::TidyFinding;
use super::source_rules::RustSource;
use super::tracked_files::TrackedText;

/// Documents with a limit of lines.
const LINE_LIMITS: &[(&str, usize)] = &[("ARCHITECTURE.md", 300), ("AGENTS.md", 120)];

/// Documents that golden tests write. If one of them exists, all must exist.
const GOLDEN_DOCUMENTS: &[&str] =
    &["docs/reference/cli.md", "docs/reference/config.schema.json", "docs/reference/openapi.json"];

const CODES_FILE: &str = "crates/tool/src/error_code.rs";
const ERROR_PAGES: &str = "docs/errors/";

/// Checks every rule on documents.
pub(crate) fn check_documents(
    texts: &[TrackedText],
    sources: &[RustSource<'_>],
) -> Vec<TidyFinding> {
    let mut findings = check_sizes(texts);
    findings.extend(check_golden(texts));
    findings.extend(check_error_pages(texts));
    findings.extend(check_promises(texts, sources));
    findings.extend(texts.iter().filter(|t| is_guide(t)).flat_map(check_console_blocks));
    findings
}

fn check_sizes(texts: &[TrackedText]) -> Vec<TidyFinding> {
    let exceeds_limit = |text: &TrackedText| {
        let (_, max_lines) = LINE_LIMITS.iter().find(|(path, _)| *path == text.path)?;
        let lines = text.content.lines().count();
        let what = format!("{lines} lines, at most {max_lines}");
        (lines > *max_lines).then(|| TidyFinding::new(&text.path, 0, what, "say less"))
    };
    texts.iter().filter_map(exceeds_limit).collect()
}

fn check_golden(texts: &[TrackedText]) -> Vec<TidyFinding> {
    let exists = |path: &&&str| texts.iter().any(|text| text.path == **path);
    if !GOLDEN_DOCUMENTS.iter().any(|path| exists(&path)) {
        return Vec::new();
    }
    let missing = GOLDEN_DOCUMENTS.iter().filter(|path| !exists(path));
    missing
        .map(|path| TidyFinding::new(path, 0, "is missing", "run `cargo xtask generate`"))
        .collect()
}

/// One page a code and one code a page, once there are pages.
fn check_error_pages(texts: &[TrackedText]) -> Vec<TidyFinding> {
    let page = |text: &TrackedText| {
        let name = text.path.strip_prefix(ERROR_PAGES)?.strip_suffix(".md")?;
        Some(name.to_owned())
    };
    let pages: Vec<String> = texts.iter().filter_map(page).collect();
    let Some(codes) = texts.iter().find(|text| text.path == CODES_FILE).map(error_codes) else {
        return Vec::new();
    };
    if pages.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, code) in codes.iter().filter(|(_, code)| !pages.contains(code)) {
        let what = format!("the code `{code}` has no page");
        findings.push(TidyFinding::new(
            CODES_FILE,
            *line,
            what,
            format!("write {ERROR_PAGES}{code}.md"),
        ));
    }
    for page in pages.iter().filter(|page| !codes.iter().any(|(_, code)| code == *page)) {
        let path = format!("{ERROR_PAGES}{page}.md");
        findings.push(TidyFinding::new(
            &path,
            0,
            "no error code has this name",
            "rename or remove it",
        ));
    }
    findings
}

/// The codes, from lines like `Busy = "busy", "Too many calls at once.";`.
fn error_codes(text: &TrackedText) -> Vec<(usize, String)> {
    let code = |(number, line): (usize, &str)| {
        let (variant, rest) = line.trim().split_once(" = \"")?;
        let is_name =
            variant.starts_with(char::is_uppercase) && variant.chars().all(char::is_alphanumeric);
        let (word, rest) = rest.split_once('"')?;
        (is_name && rest.starts_with(", \"") && rest.ends_with(';'))
            .then(|| (number, word.to_owned()))
    };
    text.numbered_lines().filter_map(code).collect()
}

/// Documents with tables whose last column names tests.
const PROMISE_DOCUMENTS: &[&str] = &["SECURITY.md", "docs/reference/acceptance.md"];

/// Folder of pages whose tables end in a column of tests, and its index, which has none.
const COMPATIBILITY: (&str, &str) =
    ("docs/reference/compatibility/", "docs/reference/compatibility/README.md");

/// Checks that every row of a promise table names existing tests, or states that its proof is open.
fn check_promises(texts: &[TrackedText], sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let (folder, index) = COMPATIBILITY;
    let has_tests =
        |path: &str| PROMISE_DOCUMENTS.contains(&path) || path.starts_with(folder) && path != index;
    let files = texts.iter().filter(|text| has_tests(&text.path));
    let python: HashSet<&str> = texts.iter().flat_map(python_tests).collect();
    let tests: Vec<String> = sources.iter().flat_map(RustSource::test_paths).collect();
    let proven = |test: &str| {
        let found = tests.iter().filter(|path| is_path_suffix(test, path)).count();
        found + usize::from(python.contains(test))
    };
    files.flat_map(|file| check_promise_rows(file, &proven)).collect()
}

/// Whether `name` is the whole `path` or its last segments.
fn is_path_suffix(name: &str, path: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// Returns the tests of a Python file, functions of the form `def test_NAME(`, without the prefix.
fn python_tests(file: &TrackedText) -> impl Iterator<Item = &str> {
    let is_test = file.has_extension("py") && file.path.contains("/tests/test_");
    let lines = file.content.lines().filter(move |_| is_test);
    lines.filter_map(|line| line.strip_prefix("def test_")?.split('(').next())
}

fn check_promise_rows(file: &TrackedText, proven: &dyn Fn(&str) -> usize) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (number, line) in file.numbered_lines().filter(|(_, line)| line.starts_with('|')) {
        let proof = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default().trim();
        if proof.chars().all(|c| "-: ".contains(c)) || ["proof", "test"].contains(&proof) {
            continue;
        }
        if let Some(rest) = proof.strip_prefix("open") {
            if rest.strip_prefix(':').is_none_or(|reason| reason.trim().is_empty()) {
                let what = "an open proof without a reason";
                findings.push(TidyFinding::new(
                    &file.path,
                    number,
                    what,
                    "write `open: what is missing`",
                ));
            }
            continue;
        }
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            let what = "a promise without a test";
            let fix = "name the test in backticks, or write `open: what is missing`";
            findings.push(TidyFinding::new(&file.path, number, what, fix));
        }
        for name in names {
            let (what, fix) = match proven(name) {
                1 => continue,
                0 => (format!("there is no test `{name}`"), "name the test that proves it"),
                found => (format!("{found} tests are named `{name}`"), "write more of its path"),
            };
            findings.push(TidyFinding::new(&file.path, number, what, fix));
        }
    }
    findings
}

fn is_guide(file: &TrackedText) -> bool {
    file.path == "README.md" || (file.path.starts_with("docs/guide/") && file.has_extension("md"))
}

/// Start of the only shell command that no test runs: it fetches the code that contains the test.
const FETCH_COMMAND: &str = "git clone ";

/// Checks that shell blocks in documents are `console` blocks, so that a test can run them: `$ `
/// before each command, followed by its output.
fn check_console_blocks(file: &TrackedText) -> Vec<TidyFinding> {
    let fix = "write a ```console block in which each command follows `$ `";
    let mut findings = Vec::new();
    let mut fence = None;
    for (number, line) in file.numbered_lines() {
        let Some(word) = line.trim_start().strip_prefix("```") else {
            if fence == Some(("console", number - 1)) && !line.starts_with("$ ") {
                let what = "a console block that begins with no command";
                findings.push(TidyFinding::new(&file.path, number, what, fix));
            }
            continue;
        };
        fence = if fence.is_some() { None } else { Some((word, number)) };
        let shell = matches!(fence, Some(("sh" | "bash" | "shell", _)));
        if shell
            && !file
                .numbered_lines()
                .nth(number)
                .is_some_and(|(_, next)| next.starts_with(FETCH_COMMAND))
        {
            findings.push(TidyFinding::new(
                &file.path,
                number,
                "a block of shell that no test runs",
                fix,
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{CODES_FILE, GOLDEN_DOCUMENTS, check_documents};
    use crate::tidy::source_rules::RustSource;
    use crate::tidy::texts;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = texts(files);
        let sources: Vec<RustSource<'_>> = files.iter().filter_map(RustSource::from_text).collect();
        check_documents(&files, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documents_have_a_size() {
        assert_eq!(findings(&[("AGENTS.md", &"x\n".repeat(120))]), [""; 0]);
        assert_eq!(
            findings(&[("AGENTS.md", &"x\n".repeat(121))]),
            ["AGENTS.md: 121 lines, at most 120; say less"]
        );
    }

    #[test]
    fn golden_documents_come_together() {
        let all: Vec<(&str, &str)> = GOLDEN_DOCUMENTS.iter().map(|path| (*path, "")).collect();
        assert_eq!(findings(&all), [""; 0]);
        assert_eq!(
            findings(&all[1..]),
            ["docs/reference/cli.md: is missing; run `cargo xtask generate`"]
        );
        assert_eq!(findings(&[]), [""; 0]);
    }

    #[test]
    fn codes_and_pages_agree() {
        let codes = (
            CODES_FILE,
            "codes! {\n    Busy = \"busy\", \"Too many.\";\n    Gone = \"gone\", \"Away.\";\n}",
        );
        assert_eq!(findings(&[codes]), [""; 0], "no folder yet");
        let (busy, gone) = (("docs/errors/busy.md", ""), ("docs/errors/gone.md", ""));
        assert_eq!(findings(&[codes, busy, gone]), [""; 0]);
        assert_eq!(
            findings(&[codes, busy, ("docs/errors/old.md", "")]),
            [
                "crates/tool/src/error_code.rs:3: the code `gone` has no page; write docs/errors/gone.md",
                "docs/errors/old.md: no error code has this name; rename or remove it"
            ]
        );
    }

    #[test]
    fn a_promise_names_its_test() {
        let table =
            |proof: &str| format!("| promise | proof |\n| --- | --- |\n| kept | {proof} |\n");
        let test = ("crates/a/tests/it/b.rs", "#[test]\nfn survives() {}");
        assert_eq!(findings(&[("SECURITY.md", &table("`a::it::b::survives`")), test]), [""; 0]);
        assert_eq!(findings(&[("SECURITY.md", &table("`b::survives`")), test]), [""; 0]);
        assert_eq!(findings(&[("SECURITY.md", &table("open: needs a disk"))]), [""; 0]);
        assert_eq!(findings(&[("SECURITY.md", &table("open"))]).len(), 1);
        assert_eq!(findings(&[("SECURITY.md", &table("opens_nothing"))]).len(), 1);
        assert_eq!(findings(&[("SECURITY.md", &table("believe us")), test]).len(), 1);
        assert_eq!(findings(&[("SECURITY.md", &table("`b::dies`")), test]).len(), 1);
        let specs = |proof: &str| {
            findings(&[("docs/reference/compatibility/module-api.md", &table(proof)), test]).len()
        };
        assert_eq!((specs("`survives`"), specs("`survives`, `dies`"), specs("")), (0, 1, 1));
        let product = ("crates/a/src/b.rs", "fn survives() {}");
        assert_eq!(findings(&[("SECURITY.md", &table("`b::survives`")), product]).len(), 1);
        let python = |path| (path, "def test_lives(told):\n    pass\n\ndef helps():\n    pass\n");
        let found =
            |proof: &str, path| findings(&[("SECURITY.md", &table(proof)), python(path)]).len();
        assert_eq!(found("`lives`", "python/tests/test_a.py"), 0);
        assert_eq!(found("`helps`", "python/tests/test_a.py"), 1);
        assert_eq!(found("`lives`", "python/src/a.py"), 1);
    }

    #[test]
    fn each_segment_of_a_proof_counts_and_one_test_is_meant() {
        let table =
            |proof: &str| format!("| promise | proof |\n| --- | --- |\n| kept | {proof} |\n");
        let test = ("crates/a/tests/it/b.rs", "#[test]\nfn survives() {}");
        assert_eq!(findings(&[("SECURITY.md", &table("`c::survives`")), test]).len(), 1);
        let other = ("crates/a/src/c/tests.rs", "#[tokio::test]\nasync fn survives() {}");
        let both = |proof: &str| findings(&[("SECURITY.md", &table(proof)), test, other]);
        assert_eq!(both("`survives`").len(), 1);
        assert_eq!((both("`it::b::survives`"), both("`c::tests::survives`")), (vec![], vec![]));
        let plain = ("crates/a/tests/it/b.rs", "fn survives() {}");
        assert_eq!(findings(&[("SECURITY.md", &table("`b::survives`")), plain]).len(), 1);
    }

    #[test]
    fn commands_of_the_guide_can_be_run() {
        let good = "```console\n$ toolkeep tool list\nname\n```\n```yaml\nversion: 1\n```\n";
        assert_eq!(findings(&[("docs/guide/a.md", good)]), [""; 0]);
        assert_eq!(findings(&[("docs/guide/a.md", "```console\ntoolkeep\n```\n")]).len(), 1);
        assert_eq!(findings(&[("README.md", "```sh\ngit clone x\n```\n")]).len(), 0);
        assert_eq!(findings(&[("README.md", "```sh\ntoolkeep\n```\n")]).len(), 1);
    }
}
