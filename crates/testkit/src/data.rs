//! Attack inputs and other data that is kept outside of this repository, in the folder that `TOOLKEEP_DATA`
//! names, or else `shared/data` beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where it is.
pub fn folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("TOOLKEEP_DATA").map_or_else(beside, PathBuf::from)
}

/// The rows of a file there: JSON, one on each line, packed where its name ends with `.gz`.
///
/// # Panics
/// Where the file is not there, has no row, or a line is no row: a test that judged nothing proves nothing.
pub fn rows(file: &str) -> Vec<Value> {
    rows_as(file)
}

/// The same, each row read as what it is.
///
/// # Panics
/// As [`rows`].
pub fn rows_as<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = folder().join(file);
    assert!(
        path.exists(),
        "{} does not exist; set TOOLKEEP_DATA, or run `cargo xtask test --without data`",
        path.display()
    );
    let row = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}: {error}: {line}"))
    };
    let rows: Vec<T> = text(&path).lines().map(row).collect();
    assert!(!rows.is_empty(), "{file} has no rows");
    rows
}

fn text(path: &Path) -> String {
    if path.extension().is_none_or(|kind| kind != "gz") {
        return std::fs::read_to_string(path).expect("a text");
    }
    #[expect(clippy::disallowed_methods, reason = "unpacked with what every machine has")]
    let unpacked = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip");
    assert!(unpacked.status.success(), "{}", path.display());
    String::from_utf8(unpacked.stdout).expect("a text")
}
