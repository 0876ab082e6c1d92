//! Table of all attack families in docs/reference/builtins.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{archives, paths, patterns, torture, urls};

pub(super) type Row = Map<String, Value>;

/// Results of one attack family.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) tools: &'static str,
    /// Number of calls.
    pub(super) tried: usize,
    /// Number of failed calls, each with a reason.
    pub(super) refused: usize,
    /// Number of files, folders, bytes or connections outside.
    pub(super) escapes: usize,
    /// Unprotected control, which this run executed.
    pub(super) control: &'static str,
    /// Number of escapes of the control.
    pub(super) naive: usize,
}

pub(super) fn text<'a>(row: &'a Row, field: &str) -> Option<&'a str> {
    row.get(field).and_then(Value::as_str)
}

/// Returns all files below `at`, except those below `without`.
pub(super) fn tree(at: &Path, without: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![at.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry == without {
                continue;
            }
            let is_folder = std::fs::symlink_metadata(&entry).unwrap().is_dir();
            let content = if is_folder { Vec::new() } else { std::fs::read(&entry).unwrap() };
            if is_folder {
                folders.push(entry.clone());
            }
            found.insert(entry, content);
        }
    }
    found
}

/// No family may escape, and the control of each must.
#[tokio::test]
async fn golden_no_attack_gets_out() {
    let families = [
        urls::run().await,
        paths::run().await,
        archives::run().await,
        patterns::run().await,
        torture::run().await,
    ];
    // Row counts are not listed, since the attack inputs may grow.
    let mut table = "| inputs | tools | control: the naive way |\n|---|---|---|\n".to_owned();
    for it in &families {
        println!(
            "{}: {} calls, {} refused, the control got out {} times",
            it.name, it.tried, it.refused, it.naive
        );
        assert_eq!(it.escapes, 0, "{}", it.name);
        assert!(it.tried > 0 && it.naive > 0, "{}: the control must get out", it.name);
        writeln!(table, "| {} | {} | {} |", it.name, it.tools, it.control).unwrap();
    }
    crate::page::part("attacks", &table);
}
