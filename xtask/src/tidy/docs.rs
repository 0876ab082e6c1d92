//! Documents against the code: a page for each error code, golden documents there, promises with
//! their tests, commands that can be run.

use std::collections::HashSet;

use super::Finding;
use super::files::Text;
use super::source::Source;

/// Documents with a limit of lines.
const SIZES: &[(&str, usize)] = &[("ARCHITECTURE.md", 300), ("AGENTS.md", 120)];

/// Documents that golden tests write. They come together: where one stands, all must.
const GOLDEN: &[&str] =
    &["docs/reference/cli.md", "docs/reference/config.schema.json", "docs/reference/openapi.json"];

const CODES: &str = "crates/tool/src/code.rs";
const PAGES: &str = "docs/errors/";

/// Every rule on the documents.
pub(crate) fn check(texts: &[Text], sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = sizes(texts);
    findings.extend(golden(texts));
    findings.extend(pages(texts));
    findings.extend(promises(texts, sources));
    findings.extend(texts.iter().filter(|t| is_guide(t)).flat_map(consoles));
    findings
}

fn sizes(texts: &[Text]) -> Vec<Finding> {
    let over = |text: &Text| {
        let (_, most) = SIZES.iter().find(|(path, _)| *path == text.path)?;
        let lines = text.text.lines().count();
        let what = format!("{lines} lines, at most {most}");
        (lines > *most).then(|| Finding::new(&text.path, 0, what, "say less"))
    };
    texts.iter().filter_map(over).collect()
}

fn golden(texts: &[Text]) -> Vec<Finding> {
    let has = |path: &&&str| texts.iter().any(|text| text.path == **path);
    if !GOLDEN.iter().any(|path| has(&path)) {
        return Vec::new();
    }
    let missing = GOLDEN.iter().filter(|path| !has(path));
    missing.map(|path| Finding::new(path, 0, "is missing", "run `cargo xtask generate`")).collect()
}

/// One page a code and one code a page, once there are pages.
fn pages(texts: &[Text]) -> Vec<Finding> {
    let page = |text: &Text| {
        let name = text.path.strip_prefix(PAGES)?.strip_suffix(".md")?;
        Some(name.to_owned())
    };
    let pages: Vec<String> = texts.iter().filter_map(page).collect();
    let Some(codes) = texts.iter().find(|text| text.path == CODES).map(codes) else {
        return Vec::new();
    };
    if pages.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, code) in codes.iter().filter(|(_, code)| !pages.contains(code)) {
        let what = format!("the code `{code}` has no page");
        findings.push(Finding::new(CODES, *line, what, format!("write {PAGES}{code}.md")));
    }
    for page in pages.iter().filter(|page| !codes.iter().any(|(_, code)| code == *page)) {
        let path = format!("{PAGES}{page}.md");
        findings.push(Finding::new(&path, 0, "no error code has this name", "rename or remove it"));
    }
    findings
}

/// The codes, from lines like `Busy = "busy", "Too many calls at once.";`.
fn codes(text: &Text) -> Vec<(usize, String)> {
    let code = |(number, line): (usize, &str)| {
        let (variant, rest) = line.trim().split_once(" = \"")?;
        let is_name =
            variant.starts_with(char::is_uppercase) && variant.chars().all(char::is_alphanumeric);
        let (word, rest) = rest.split_once('"')?;
        (is_name && rest.starts_with(", \"") && rest.ends_with(';'))
            .then(|| (number, word.to_owned()))
    };
    text.lines().filter_map(code).collect()
}

/// Documents whose tables end in a column of tests.
const PROMISES: &[&str] =
    &["SECURITY.md", "docs/reference/specs.md", "docs/reference/acceptance.md"];

/// Every row of a table of promises names tests that exist, or says that its proof is open.
fn promises(texts: &[Text], sources: &[Source<'_>]) -> Vec<Finding> {
    let files = texts.iter().filter(|text| PROMISES.contains(&text.path.as_str()));
    let python: HashSet<&str> = texts.iter().flat_map(python_tests).collect();
    let tests: Vec<String> = sources.iter().flat_map(Source::tests).collect();
    let proven = |test: &str| {
        let found = tests.iter().filter(|path| is_end_of(test, path)).count();
        found + usize::from(python.contains(test))
    };
    files.flat_map(|file| promised(file, &proven)).collect()
}

/// Whether `name` is the whole `path` or its last segments.
fn is_end_of(name: &str, path: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// The tests of a Python file, without what makes them tests: `def test_NAME(`.
fn python_tests(file: &Text) -> impl Iterator<Item = &str> {
    let is_test = file.is("py") && file.path.contains("/tests/test_");
    let lines = file.text.lines().filter(move |_| is_test);
    lines.filter_map(|line| line.strip_prefix("def test_")?.split('(').next())
}

fn promised(file: &Text, proven: &dyn Fn(&str) -> usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines().filter(|(_, line)| line.starts_with('|')) {
        let proof = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default().trim();
        if proof.chars().all(|c| "-: ".contains(c)) || ["proof", "test"].contains(&proof) {
            continue;
        }
        if let Some(rest) = proof.strip_prefix("open") {
            if rest.strip_prefix(':').is_none_or(|reason| reason.trim().is_empty()) {
                let what = "an open proof without a reason";
                findings.push(Finding::new(
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
            findings.push(Finding::new(&file.path, number, what, fix));
        }
        for name in names {
            let (what, fix) = match proven(name) {
                1 => continue,
                0 => (format!("there is no test `{name}`"), "name the test that proves it"),
                found => (format!("{found} tests are named `{name}`"), "write more of its path"),
            };
            findings.push(Finding::new(&file.path, number, what, fix));
        }
    }
    findings
}

fn is_guide(file: &Text) -> bool {
    file.path == "README.md" || (file.path.starts_with("docs/guide/") && file.is("md"))
}

/// What begins the one shell command that no test can run: it fetches the code that the test is part of.
const FETCH: &str = "git clone ";

/// Blocks of shell in documents are `console` blocks, so that a test can run them: a `$ ` before each
/// command, what it prints below.
fn consoles(file: &Text) -> Vec<Finding> {
    let fix = "write a ```console block in which each command follows `$ `";
    let mut findings = Vec::new();
    let mut fence = None;
    for (number, line) in file.lines() {
        let Some(word) = line.trim_start().strip_prefix("```") else {
            if fence == Some(("console", number - 1)) && !line.starts_with("$ ") {
                let what = "a console block that begins with no command";
                findings.push(Finding::new(&file.path, number, what, fix));
            }
            continue;
        };
        fence = if fence.is_some() { None } else { Some((word, number)) };
        let shell = matches!(fence, Some(("sh" | "bash" | "shell", _)));
        if shell && !file.lines().nth(number).is_some_and(|(_, next)| next.starts_with(FETCH)) {
            findings.push(Finding::new(
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
    use super::{CODES, GOLDEN, check};
    use crate::tidy::source::Source;
    use crate::tidy::texts;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = texts(files);
        let sources: Vec<Source<'_>> = files.iter().filter_map(Source::read).collect();
        check(&files, &sources).iter().map(ToString::to_string).collect()
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
        let all: Vec<(&str, &str)> = GOLDEN.iter().map(|path| (*path, "")).collect();
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
            CODES,
            "codes! {\n    Busy = \"busy\", \"Too many.\";\n    Gone = \"gone\", \"Away.\";\n}",
        );
        assert_eq!(findings(&[codes]), [""; 0], "no folder yet");
        let (busy, gone) = (("docs/errors/busy.md", ""), ("docs/errors/gone.md", ""));
        assert_eq!(findings(&[codes, busy, gone]), [""; 0]);
        assert_eq!(
            findings(&[codes, busy, ("docs/errors/old.md", "")]),
            [
                "crates/tool/src/code.rs:3: the code `gone` has no page; write docs/errors/gone.md",
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
        let specs =
            |proof: &str| findings(&[("docs/reference/specs.md", &table(proof)), test]).len();
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
