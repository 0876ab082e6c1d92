//! Attacks by malicious archives.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::shared_data::read_rows_as;

use super::table::{Family, Row, text, tree};
use crate::stage::Stage;

pub(super) async fn run() -> Family {
    let rows = read_rows_as::<Row>("attacks/archives.jsonl");
    let (mut tried, mut refused, mut escapes, mut naive) = (0, 0, 0, 0);
    for row in &rows {
        let (Some(name), Some(bytes)) = (text(row, "name"), bytes(row)) else { continue };
        let stage = Stage::new().await;
        fs::write(stage.work().join("x"), &bytes).unwrap();
        let before = tree(stage.home.path(), &stage.work());
        let marked = |path: &str| fs::symlink_metadata(path).is_ok();
        let baits = ["/tmp/evil", "/tmp/gw_pwned_4", "/etc/cron.d/evil"];
        let there = baits.map(marked);
        let opened = stage.call("archive_open", &json!({ "path": "x" })).await;
        let done =
            stage.call("archive_extract", &json!({ "archive_name": "x", "into": "out" })).await;
        tried += 2;
        let whole = opened.as_ref().is_ok_and(|it| it["status"] == "valid") && done.is_ok();
        refused += if whole { 0 } else { 2 };
        escapes += usize::from(tree(stage.home.path(), &stage.work()) != before);
        escapes += usize::from(baits.map(marked) != there);
        escapes += usize::from(other_kinds(&stage.work().join("out")));
        naive += usize::from(leads_out(name, &bytes));
        let bad = text(row, "expect").is_some_and(|it| it == "error" || it.starts_with("error:"));
        assert!(!bad || done.is_err() || done.is_ok_and(|it| it["extracted"] == 0), "{name}");
    }
    assert!(tried > 60, "{tried}");
    let tools = "archive_open, archive_extract";
    Family {
        name: "archives that lie",
        tools,
        control: "joining an entry's name to the folder leads outside",
        tried,
        refused,
        escapes,
        naive,
    }
}

fn bytes(row: &Row) -> Option<Vec<u8>> {
    let plain = text(row, "b64").map(|it| STANDARD.decode(it).unwrap());
    let packed = text(row, "zlib_b64").map(|it| {
        let (mut out, packed) = (Vec::new(), STANDARD.decode(it).unwrap());
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut out).unwrap();
        out
    });
    let empty = (row.get("bytes") == Some(&Value::from(0))).then(Vec::new);
    plain.or(packed).or(empty)
}

/// Whether the extraction created anything except files and folders with plain permissions.
fn other_kinds(at: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(entries) = fs::read_dir(at) else { return false };
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let odd = !(kind.is_file() || kind.is_dir());
        odd || (kind.is_file() && meta.permissions().mode() & 0o7000 != 0)
            || (kind.is_dir() && other_kinds(&path))
    })
}

/// Whether joining an entry's name to a folder leads out of it.
fn leads_out(name: &str, bytes: &[u8]) -> bool {
    let mut names = Vec::new();
    if name.starts_with("zip")
        && let Ok(zip) = zip::ZipArchive::new(std::io::Cursor::new(bytes))
    {
        names.extend(zip.file_names_raw().map(|it| String::from_utf8_lossy(it).into_owned()));
    }
    if name.starts_with("tar") {
        let mut tar = tar::Archive::new(bytes);
        let paths = tar.entries().unwrap().filter_map(Result::ok);
        names.extend(paths.map(|it| String::from_utf8_lossy(&it.path_bytes()).into_owned()));
    }
    names.iter().any(|name| {
        let mut depth = 0_i32;
        name.starts_with('/')
            || name.split('/').any(|part| {
                depth += match part {
                    "" | "." => 0,
                    ".." => -1,
                    _ => 1,
                };
                depth < 0
            })
    })
}
