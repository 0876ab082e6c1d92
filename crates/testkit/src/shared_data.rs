//! Attack inputs and other data that is stored outside of this repository, in the directory named
//! by `TOOLKEEP_DATA`, or in `shared/data` beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the shared data directory.
pub fn data_folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("TOOLKEEP_DATA").map_or_else(beside, PathBuf::from)
}

/// Reads the rows of a data file: one JSON value per line, compressed if its name ends with `.gz`.
///
/// # Panics
/// Panics if the file does not exist, has no rows, or has an invalid line: a test without data
/// proves nothing.
pub fn read_rows(file: &str) -> Vec<Value> {
    read_rows_as(file)
}

/// Reads the rows of a data file, decoded as `T`.
///
/// # Panics
/// As [`read_rows`].
pub fn read_rows_as<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = data_folder().join(file);
    assert!(
        path.exists(),
        "{} does not exist; set TOOLKEEP_DATA, or run `cargo xtask test --without data`",
        path.display()
    );
    let row = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}: {error}: {line}"))
    };
    let rows: Vec<T> = read_text(&path).lines().map(row).collect();
    assert!(!rows.is_empty(), "{file} has no rows");
    rows
}

fn read_text(path: &Path) -> String {
    if path.extension().is_none_or(|kind| kind != "gz") {
        return std::fs::read_to_string(path).expect("a text");
    }
    #[expect(clippy::disallowed_methods, reason = "unpacked with what every machine has")]
    let unpacked = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip");
    assert!(unpacked.status.success(), "{}", path.display());
    String::from_utf8(unpacked.stdout).expect("a text")
}
