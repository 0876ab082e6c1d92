//! Tests of malicious and valid archives.

use std::fs;
use std::io::{Cursor, Write as _};
use std::sync::Arc;

use rooted_fs::rooted_dir::{AccessMode, RootedDir};
use serde_json::{Value, json};
use tool::OutcomeBody;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::recent_archives::RecentArchives;
use super::{archive_extract, archive_file, archive_open, archive_search};
use crate::system::file_roots::FileRoots;
use crate::tests::execute;
use builtin_manifests::ToolFamily;
use tool_manifest::BuiltinTool;

struct Place {
    home: tempfile::TempDir,
    tools: Vec<BuiltinTool>,
}

fn place() -> Place {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    let root = RootedDir::open_root(&work, AccessMode::ReadWrite).unwrap();
    let archives = RecentArchives::new(Arc::new(FileRoots::new(vec![(work, root)])));
    let registry = ToolFamily::General.registry();
    let tools = [
        archive_open::build_tool(registry, Arc::clone(&archives)),
        archive_extract::build_tool(registry, Arc::clone(&archives)),
        archive_file::build_tool(registry, Arc::clone(&archives)),
        archive_search::build_tool(registry, archives),
    ];
    Place { home, tools: tools.into_iter().flatten().collect() }
}

impl Place {
    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.home.path().join("work").join(name), bytes).unwrap();
    }
    async fn call(&self, tool: &str, args: Value) -> Result<Value, String> {
        let builtin = self.tools.iter().find(|it| it.tool.name.as_str() == tool).unwrap();
        let outcome = execute(builtin.clone(), &args.to_string()).await;
        let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
        let value = json.to_value();
        if outcome.is_error { Err(value.as_str().unwrap().to_owned()) } else { Ok(value) }
    }
    /// Returns the results of opening and of extracting an archive.
    async fn both(&self, name: &str, bytes: &[u8]) -> [Result<Value, String>; 2] {
        self.put(name, bytes);
        [
            self.call("archive_open", json!({ "path": name })).await,
            self.call("archive_extract", json!({ "archive_name": name, "into": "out" })).await,
        ]
    }
    fn holds(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.home.path().join(path)).ok()
    }
}

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn tarred(files: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, kind, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_mode(0o4777);
        header.set_size(content.len() as u64);
        // Written as bytes, since archive libraries refuse some of these names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

const FILE: tar::EntryType = tar::EntryType::Regular;

#[tokio::test]
async fn what_goes_in_comes_out() {
    let place = place();
    place.put("a.zip", &zipped(&[("x/y.txt", b"why"), ("z", b"zed")]));
    let opened = place.call("archive_open", json!({ "path": "a.zip" })).await.unwrap();
    assert_eq!((&opened["total_files"], &opened["status"]), (&json!(2), &json!("valid")));
    // Without a name, the archive opened last is used.
    let done = place.call("archive_extract", json!({})).await.unwrap();
    assert_eq!((&done["extracted"], &done["stored_in"]), (&json!(2), &json!("a.extracted")));
    assert_eq!(place.holds("work/a.extracted/x/y.txt").as_deref(), Some("why"));
    let file = place.call("archive_file", json!({ "filename": "z" })).await.unwrap();
    assert_eq!(file, "zed");
    let some = json!({ "files": ["z"], "into": "some" });
    assert_eq!(place.call("archive_extract", some).await.unwrap()["skipped"], 1);
    assert_eq!(
        (place.holds("work/some/z").is_some(), place.holds("work/some/x/y.txt")),
        (true, None)
    );
    let told = place.call("archive_extract", json!({ "files": ["w"] })).await.unwrap_err();
    assert_eq!(told, "files: `w` is not in the archive; see archive_open");
}

#[tokio::test]
async fn nothing_is_open_before_it_was_opened() {
    let told = place().call("archive_search", json!({ "query": "x" })).await.unwrap_err();
    assert_eq!(told, "no archive is open; call archive_open, or give a path as `archive_name`");
    let told = place().call("archive_open", json!({ "path": "../x" })).await.unwrap_err();
    assert!(told.contains("there is no"), "{told}");
}

#[tokio::test]
async fn names_links_and_devices_that_lead_out_stay_in() {
    let place = place();
    let files = [
        ("good", FILE, &b"good"[..]),
        ("../up", FILE, b"OUT"),
        ("/tmp/toolkeep-abs", FILE, b"OUT"),
        ("link", tar::EntryType::Symlink, b""),
        ("link/through", FILE, b"OUT"),
        ("hard", tar::EntryType::Link, b""),
        ("null", tar::EntryType::Char, b""),
        ("pipe", tar::EntryType::Fifo, b""),
        ("good", FILE, b"again"),
    ];
    let [opened, done] = place.both("t.tar", &tarred(&files)).await;
    let (opened, done) = (opened.unwrap(), done.unwrap());
    assert_eq!(opened["status"], "suspicious");
    assert_eq!(opened["issues"].as_array().unwrap().len(), 7, "{opened}");
    // `link/through` is a file in a folder of that name: no link was created.
    assert_eq!(done["files"], json!(["good", "link/through"]));
    assert_eq!(place.holds("work/out/good").as_deref(), Some("good"));
    assert_eq!(place.holds("up"), None);
    assert_eq!(place.holds("work/up"), None);
    assert!(!fs::exists("/tmp/toolkeep-abs").unwrap());
    let made = fs::symlink_metadata(place.home.path().join("work/out/link")).unwrap();
    assert!(made.is_dir());
    // Neither set-id bits nor permissions of other users were extracted.
    let mode = fs::metadata(place.home.path().join("work/out/good")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o7111, 0);
}

#[tokio::test]
async fn a_link_that_is_there_already_is_not_written_through() {
    let place = place();
    let (work, outside) = (place.home.path().join("work"), place.home.path().join("outside"));
    fs::create_dir(&outside).unwrap();
    fs::create_dir(work.join("out")).unwrap();
    std::os::unix::fs::symlink(&outside, work.join("out/x")).unwrap();
    // Control: the link leads there.
    fs::write(work.join("out/x/control"), "").unwrap();
    assert!(outside.join("control").exists());
    let [_, done] = place.both("a.zip", &zipped(&[("x/y.txt", b"OUT")])).await;
    assert!(done.unwrap_err().contains("there is no"));
    assert!(!outside.join("y.txt").exists());
}

#[tokio::test]
async fn bombs_are_refused_before_they_are_written() {
    let place = place();
    let zeros = vec![0; 3 << 20];
    let many: Vec<_> = (0..1_001).map(|at| format!("f{at}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let tar = tarred(&[("zeros", FILE, &zeros)]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(&tar).unwrap();
    let cases = [
        ("ratio.zip", zipped(&[("zeros", &zeros)]), "[suspicious]"),
        ("ratio.tar.gz", gz.finish().unwrap(), "[suspicious]"),
        ("count.zip", zipped(&many), "[too_many_files]"),
    ];
    for (name, bytes, status) in cases {
        for told in place.both(name, &bytes).await {
            let told = told.unwrap_err();
            assert!(told.contains(status), "{name}: {told}");
        }
        assert_eq!(place.holds("work/out/zeros"), None);
    }
    // Control: the uncompressed archive has the declared size.
    let [_, done] = place.both("plain.tar", &tar).await;
    assert_eq!(done.unwrap()["extracted"], 1);
}

#[tokio::test]
async fn headers_that_disagree_are_refused() {
    let place = place();
    let good = zipped(&[("aaaa", b"content"), ("bbbb", b"more")]);
    assert!(place.both("good.zip", &good).await.iter().all(Result::is_ok), "the control");
    let at = |bytes: &[u8], what: &[u8], nth: usize| {
        bytes.windows(what.len()).enumerate().filter(|(_, it)| *it == what).nth(nth).unwrap().0
    };
    let mut other = good.clone();
    let place_of = at(&other, b"aaaa", 0);
    other[place_of] = b'c';
    // The second entry refers to the data of the first.
    let mut overlap = good.clone();
    let directory = at(&overlap, b"PK\x01\x02", 1);
    overlap[directory + 42..directory + 46].copy_from_slice(&[0; 4]);
    let mut junk = b"#!/bin/sh\n".to_vec();
    junk.extend(&good);
    let mut cut = good.clone();
    cut.truncate(cut.len() - 10);
    let dup = zipped(&[("aaaa", b"1"), ("aaab", b"2")]);
    let dup: Vec<u8> =
        String::from_utf8_lossy(&dup).is_empty().then(Vec::new).unwrap_or_else(|| {
            let mut dup = dup.clone();
            for nth in 0..2 {
                let there = at(&dup, b"aaab", 0);
                assert!(nth < 2);
                dup[there + 3] = b'a';
            }
            dup
        });
    let cases = [
        ("name.zip", other),
        ("overlap.zip", overlap),
        ("junk.zip", junk),
        ("cut.zip", cut),
        ("twice.zip", dup),
        ("empty.zip", Vec::new()),
        ("text.zip", b"hello".to_vec()),
    ];
    for (name, bytes) in cases {
        for told in place.both(name, &bytes).await {
            let told = told.unwrap_err();
            assert!(told.contains("[invalid]"), "{name}: {told}");
        }
    }
}

#[tokio::test]
async fn a_search_is_bounded_and_tells_where() {
    let place = place();
    let text = "# Top\nNeedle one\n\n## Below\nplain\na needle two\n".repeat(40);
    let long = format!("{}needle{}", "ä".repeat(500), "x".repeat(500));
    place.put(
        "s.zip",
        &zipped(&[("doc.md", text.as_bytes()), ("long", long.as_bytes()), ("bin", b"needle\0")]),
    );
    let args = json!({ "archive_name": "s.zip", "query": "NEEDLE", "max_results": 3 });
    let found = place.call("archive_search", args).await.unwrap();
    assert_eq!(found.as_array().unwrap().len(), 3);
    assert_eq!(
        found[1],
        json!({ "archive": "s.zip", "file": "doc.md", "line": 6, "section": "Below", "match": "a needle two" })
    );
    let all = json!({ "archive_name": "s.zip", "query": "needle", "max_results": 500 });
    let all = place.call("archive_search", all).await.unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 81, "80 lines, one long one, and none of what is no text");
    let long = all[80]["match"].as_str().unwrap();
    assert!(long.chars().count() == 200 && long.contains("needle"), "{long}");
}
