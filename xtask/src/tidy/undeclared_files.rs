//! Files that no module declares: they would never be compiled, and their tests never run.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::source_rules::RustSource;

/// Root files of a target, which no `mod` declares.
const TARGET_ROOTS: &[&str] = &["lib.rs", "main.rs", "build.rs"];

/// Finds files under `src` and `tests` that their parent does not declare, and tests that form a
/// binary of their own.
pub(crate) fn check_modules(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let by_path: BTreeMap<&str, &RustSource<'_>> = sources.iter().map(|s| (s.path, s)).collect();
    sources.iter().filter_map(|source| undeclared_file(source.path, &by_path)).collect()
}

fn undeclared_file(path: &str, by_path: &BTreeMap<&str, &RustSource<'_>>) -> Option<TidyFinding> {
    let (folder, file) = path.rsplit_once('/')?;
    let inside = folder.split('/').any(|part| part == "src" || part == "tests");
    if !inside || TARGET_ROOTS.contains(&file) || folder.ends_with("src/bin") {
        return None;
    }
    if folder.rsplit('/').next() == Some("tests") && !folder.contains("/src") {
        let fix =
            "move it under tests/it/ and declare it in tests/it/main.rs: one test binary a crate";
        return Some(TidyFinding::new(path, 0, "a test binary of its own", fix));
    }
    let name = file.strip_suffix(".rs")?;
    let parents = [format!("{folder}.rs"), format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
    let declared = format!("mod {name};");
    let declares = |parent: &String| {
        by_path.get(parent.as_str()).is_some_and(|source| {
            source.masked.code.lines().any(|line| line.trim_end().ends_with(&declared))
        })
    };
    if parents.iter().any(declares) {
        return None;
    }
    let parent = parents.iter().find(|parent| by_path.contains_key(parent.as_str()))?;
    let fix = format!("add `{declared}` to {parent}, or remove the file");
    Some(TidyFinding::new(path, 0, "no module declares this file", fix))
}

#[cfg(test)]
mod tests {
    use super::{RustSource, check_modules};
    use crate::tidy::texts;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = texts(files);
        let sources: Vec<RustSource<'_>> = files.iter().filter_map(RustSource::from_text).collect();
        check_modules(&sources).iter().map(|finding| finding.path.clone()).collect()
    }

    #[test]
    fn declared_files_pass() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\npub mod c;"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;"),
            ("crates/a/src/b/tests.rs", ""),
            ("crates/a/src/c.rs", ""),
            ("crates/a/tests/it/main.rs", "mod d;"),
            ("crates/a/tests/it/d.rs", "mod e;"),
            ("crates/a/tests/it/d/e.rs", ""),
            ("crates/a/build.rs", ""),
        ];
        assert_eq!(findings(&files), [""; 0]);
    }

    #[test]
    fn forgotten_files_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; // mod c;"),
            ("crates/a/src/b.rs", ""),
            ("crates/a/src/c.rs", ""),
            ("crates/a/tests/it/main.rs", "mod de;\nconst A: &str = \"mod e;\";"),
            ("crates/a/tests/it/de.rs", ""),
            ("crates/a/tests/it/e.rs", ""),
            ("crates/a/tests/alone.rs", ""),
        ];
        let expected = ["crates/a/src/c.rs", "crates/a/tests/it/e.rs", "crates/a/tests/alone.rs"];
        assert_eq!(findings(&files), expected);
    }
}
