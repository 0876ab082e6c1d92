//! Path traversal attacks, as arguments of every tool that takes a path.

use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;

use serde_json::{Value, json};
use testkit::shared_data::read_rows_as;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::table::{Family, Row, text, tree};
use crate::stage::Stage;

/// Usual targets, in every parent folder.
const BAITS: [&str; 4] = ["etc/passwd", "WINDOWS/win.ini", "boot.ini", "winnt/win.ini"];
const OUTSIDE: &str = "OUTSIDE-73";

pub(super) async fn run() -> Family {
    let rows = read_rows_as::<Row>("attacks/path_traversal.jsonl");
    let stage = Stage::with(Some(crate::git_status::launcher()), None).await;
    let (home, work) = (stage.home.path().to_owned(), stage.work());
    for above in ["", "a", "a/b", "a/b/c"] {
        for bait in BAITS {
            let path = home.join(above).join(bait);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, OUTSIDE).unwrap();
        }
    }
    fs::write(work.join("one.zip"), zipped("x", b"inside")).unwrap();
    let before = tree(&home, &work);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let (mut tried, mut refused, mut escapes, mut naive) = (0, 0, 0, 0);
    for path in rows.iter().filter_map(|row| text(row, "path")) {
        let there = fs::symlink_metadata(path).is_ok();
        for (tool, args) in calls(path) {
            tried += 1;
            match stage.call(tool, &args).await {
                Ok(answered) => {
                    let said = answered.to_string();
                    let first = passwd.lines().next().unwrap();
                    escapes += usize::from(said.contains(OUTSIDE) || said.contains(first));
                }
                Err(_) => refused += 1,
            }
        }
        // As the name of an archive entry.
        fs::write(work.join("evil.zip"), zipped(path, b"got out")).unwrap();
        tried += 1;
        let args = json!({ "archive_name": "evil.zip", "into": "out" });
        let done = stage.call("archive_extract", &args);
        let came = done.await.is_ok_and(|done| done["extracted"] == 1);
        refused += usize::from(!came);
        escapes += usize::from(fs::symlink_metadata(path).is_ok() != there);
        let got = naively(&work.join(path)).unwrap_or_default();
        naive += usize::from(got == OUTSIDE || got == passwd);
    }
    assert!(tried > 5_000, "{tried}");
    escapes += usize::from(tree(&home, &work) != before);
    let tools = "read_file, write_file, list_directory, archive_open, archive_extract, archive_file, git_status";
    Family {
        name: "paths that lead out",
        tools,
        control: "joining the path to the folder reads what lies outside",
        tried,
        refused,
        escapes,
        naive,
    }
}

fn calls(path: &str) -> [(&'static str, Value); 7] {
    [
        ("read_file", json!({ "path": path })),
        ("write_file", json!({ "path": path, "content": "written" })),
        ("list_directory", json!({ "path": path })),
        ("archive_open", json!({ "path": path })),
        ("archive_extract", json!({ "archive_name": "one.zip", "into": path })),
        ("archive_file", json!({ "archive_name": "one.zip", "filename": path })),
        ("git_status", json!({ "repo_path": path })),
    ]
}

fn zipped(name: &str, content: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // Names that no archive can contain are skipped.
    if zip.start_file(name, SimpleFileOptions::default()).is_ok() {
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Reads the joined path without protection; regular files only, as some rows name endless devices.
fn naively(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    let mut content = String::new();
    if size < 1 << 20 {
        fs::File::open(path).ok()?.take(1 << 20).read_to_string(&mut content).ok()?;
    }
    Some(content)
}
