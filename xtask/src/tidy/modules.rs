//! Files that no module declares: they would never be compiled, and their tests never run.

use std::collections::BTreeMap;

use super::Finding;
use super::source::Source;

/// Roots of a target: nobody declares them.
const ROOTS: &[&str] = &["lib.rs", "main.rs", "build.rs"];

/// Finds the files under `src` and `tests` that are no `mod` of their parent, and tests that make a
/// binary of their own.
pub(crate) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let by_path: BTreeMap<&str, &Source<'_>> = sources.iter().map(|s| (s.path, s)).collect();
    sources.iter().filter_map(|source| finding(source.path, &by_path)).collect()
}

fn finding(path: &str, by_path: &BTreeMap<&str, &Source<'_>>) -> Option<Finding> {
    let (folder, file) = path.rsplit_once('/')?;
    let inside = folder.split('/').any(|part| part == "src" || part == "tests");
    if !inside || ROOTS.contains(&file) || folder.ends_with("src/bin") {
        return None;
    }
    if folder.rsplit('/').next() == Some("tests") && !folder.contains("/src") {
        let fix =
            "move it under tests/it/ and declare it in tests/it/main.rs: one test binary a crate";
        return Some(Finding::new(path, 0, "a test binary of its own", fix));
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
    Some(Finding::new(path, 0, "no module declares this file", fix))
}

#[cfg(test)]
mod tests {
    use super::{Source, check};
    use crate::tidy::texts;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = texts(files);
        let sources: Vec<Source<'_>> = files.iter().filter_map(Source::read).collect();
        check(&sources).iter().map(|finding| finding.path.clone()).collect()
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
