//! Rows that were not written through Toolkeep: who can write to the database alone changes nothing that counts.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rusqlite::Connection;
use store::{MacFile, RejectedRow, RowRejection, SqliteStore};
use tool::store::WritePrecondition;
use tool::{Secret, Store as _, StoreError, Version, VersionedValue};

struct Installation {
    folder: tempfile::TempDir,
}

impl Installation {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    fn macs(&self) -> MacFile {
        MacFile { path: self.folder.path().join("store.macs"), secret: Secret::new("elsewhere") }
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open_protected(self.database(), &self.macs()).unwrap()
    }

    /// What someone does who can write to the database alone.
    fn attack(&self, sql: &str) {
        let changed = Connection::open(self.database()).unwrap().execute(sql, []).unwrap();
        assert_eq!(changed, 1, "{sql}");
    }
}

#[expect(clippy::unnecessary_wraps, reason = "what a store's `put` takes")]
fn text(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

async fn make(store: &SqliteStore, key: &str, value: &str) -> Version {
    store.put_value(key, WritePrecondition::Absent, text(value)).await.unwrap()
}

/// Whether readers get a damaged record in the place of its value.
fn is_damaged(row: &VersionedValue) -> bool {
    std::str::from_utf8(&row.bytes).is_err() && !row.is_removal
}

async fn reads_damaged(store: &SqliteStore, key: &str) -> bool {
    let one = store.get_value(key).await.unwrap().unwrap();
    let all = store.scan_prefix("key/", None, 100).await.unwrap();
    let of_all = all.iter().find(|row| row.key == key).unwrap();
    let paged = store.scan_prefix("key/", Some("key/"), 100).await.unwrap();
    assert_eq!(paged, all);
    is_damaged(&one) && is_damaged(of_all)
}

fn rejected(store: &SqliteStore) -> Vec<(String, RowRejection)> {
    let all = store.rejected_rows().borrow().clone();
    all.into_iter().map(|RejectedRow { key, rejection }| (key, rejection)).collect()
}

/// Each thing that a writer of the database can do to `key/b`, and what it is.
const ATTACKS: [(&str, &str, RowRejection); 5] = [
    (
        "key/new",
        "INSERT INTO kv (key, version, bytes, removed) VALUES ('key/new', 900, CAST('owner' AS BLOB), 0)",
        RowRejection::Added,
    ),
    (
        "key/b",
        "UPDATE kv SET bytes = CAST('owner' AS BLOB) WHERE key = 'key/b'",
        RowRejection::Changed,
    ),
    // What was written and counted once, before it was revoked.
    (
        "key/b",
        "UPDATE kv SET bytes = CAST('b1' AS BLOB) WHERE key = 'key/b'",
        RowRejection::Changed,
    ),
    ("key/b", "DELETE FROM kv WHERE key = 'key/b'", RowRejection::Removed),
    ("key/b", "UPDATE kv SET removed = 1 WHERE key = 'key/b'", RowRejection::Removed),
];

async fn with_rows(installation: &Installation) -> SqliteStore {
    let store = installation.open();
    make(&store, "key/a", "a").await;
    let first = make(&store, "key/b", "b1").await;
    store.put_value("key/b", WritePrecondition::Version(first), text("b2")).await.unwrap();
    make(&store, "key/c", "c").await;
    store
}

#[tokio::test]
async fn what_someone_else_did_to_a_row_makes_it_a_damaged_record() {
    for (key, sql, rejection) in ATTACKS {
        for restarts in [false, true] {
            let installation = Installation::new();
            let mut store = with_rows(&installation).await;
            if restarts {
                drop(store);
                installation.attack(sql);
                store = installation.open();
                // All are looked at before any is read.
                assert_eq!(rejected(&store), [(key.to_owned(), rejection)], "{sql}");
            } else {
                installation.attack(sql);
            }
            assert!(reads_damaged(&store, key).await, "{sql}");
            assert_eq!(rejected(&store), [(key.to_owned(), rejection)], "{sql}");
            // No other row is taken down.
            assert_eq!(store.get_value("key/a").await.unwrap().unwrap().bytes, "a");
            let all = store.scan_prefix("key/", None, 100).await.unwrap();
            assert_eq!(
                all.iter().filter(|row| !is_damaged(row)).count(),
                if key == "key/b" { 2 } else { 3 }
            );
            let page = store.scan_prefix("key/", Some("key/a"), 1).await.unwrap();
            assert_eq!((page.len(), page[0].key.as_str()), (1, "key/b"), "{sql}");
            // The control: without MACs the row counts as it was written, or is gone.
            let plain = SqliteStore::open_file(installation.database()).unwrap();
            let seen = plain.get_value(key).await.unwrap();
            assert!(seen.is_none_or(|row| !is_damaged(&row)), "{sql}");
            // The control: the proper way works.
            make(&store, "key/proper", "owner").await;
            assert_eq!(store.get_value("key/proper").await.unwrap().unwrap().bytes, "owner");
        }
    }
}

/// Cached values have no MAC: neither their writing nor their removal by others is reported.
#[tokio::test]
async fn cached_rows_are_never_rejected() {
    let installation = Installation::new();
    let store = with_rows(&installation).await;
    make(&store, "cache/manifest", "1").await;
    assert!(store.accept_row("cache/manifest").await.is_ok_and(|accepted| !accepted));
    drop(store);
    let store = installation.open();
    assert_eq!(rejected(&store), []);
    drop(store);
    installation.attack("DELETE FROM kv WHERE key = 'cache/manifest'");
    installation.attack("DELETE FROM kv WHERE key = 'key/b'");
    let store = installation.open();
    // The control: the same removal of a protected row is reported.
    assert_eq!(rejected(&store), [("key/b".to_owned(), RowRejection::Removed)]);
    assert_eq!(store.scan_prefix("cache/", None, 9).await.unwrap(), []);
    assert_eq!(store.get_value("cache/manifest").await.unwrap(), None);
}

#[tokio::test]
async fn a_change_that_news_tell_of_is_damaged_too_and_no_removal() {
    for (key, sql, _) in ATTACKS {
        let installation = Installation::new();
        let store = with_rows(&installation).await;
        let sql = sql
            .replace(" WHERE", ", version = 900 WHERE")
            .replace("FROM kv, version = 900", "FROM kv");
        installation.attack(&sql);
        let news = store.changes_since(Version(4)).await.unwrap();
        assert!(news.iter().all(|row| row.key == key && is_damaged(row)), "{sql}: {news:?}");
        assert_eq!(news.len(), usize::from(!sql.starts_with("DELETE")));
    }
}

#[tokio::test]
async fn an_older_copy_of_the_whole_database_counts_for_nothing_that_changed_since() {
    let installation = Installation::new();
    let store = with_rows(&installation).await;
    let copy = installation.folder.path().join("copy.db");
    let whole = Connection::open(installation.database()).unwrap();
    whole.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    drop(whole);
    let stands = store.get_value("key/b").await.unwrap().unwrap().version;
    store.put_value("key/b", WritePrecondition::Version(stands), text("revoked")).await.unwrap();
    make(&store, "key/d", "d").await;
    let stands = store.get_value("key/a").await.unwrap().unwrap().version;
    store.put_value("key/a", WritePrecondition::Version(stands), None).await.unwrap();
    drop(store);
    replace_database(&installation.database(), &copy);
    let store = installation.open();
    let expected = [
        ("key/a", RowRejection::Added),
        ("key/b", RowRejection::Changed),
        ("key/d", RowRejection::Removed),
    ];
    assert_eq!(rejected(&store), expected.map(|(key, rejection)| (key.to_owned(), rejection)));
    assert_eq!(store.get_value("key/c").await.unwrap().unwrap().bytes, "c");
}

fn replace_database(database: &Path, by: &Path) {
    // The last connection removes its log when it closes.
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    while Path::new(&log).exists() {
        std::thread::yield_now();
    }
    fs::copy(by, database).unwrap();
}

#[tokio::test]
async fn a_removed_row_is_not_made_anew_by_who_thinks_there_is_none() {
    let installation = Installation::new();
    let store = with_rows(&installation).await;
    installation.attack("DELETE FROM kv WHERE key = 'key/b'");
    let made = store.put_value("key/b", WritePrecondition::Absent, text("mine")).await;
    assert!(matches!(made, Err(StoreError::Conflict { .. })), "{made:?}");
    // Who has read what is there may write it again, and then it counts.
    let read = store.get_value("key/b").await.unwrap().unwrap();
    store
        .put_value("key/b", WritePrecondition::Version(read.version), text("again"))
        .await
        .unwrap();
    assert_eq!(store.get_value("key/b").await.unwrap().unwrap().bytes, "again");
    assert_eq!(rejected(&store), []);
    // Or remove it.
    installation.attack("DELETE FROM kv WHERE key = 'key/b'");
    let read = store.get_value("key/b").await.unwrap().unwrap();
    store.put_value("key/b", WritePrecondition::Version(read.version), None).await.unwrap();
    assert_eq!(store.get_value("key/b").await.unwrap(), None);
    make(&store, "key/b", "anew").await;
}

#[tokio::test]
async fn rejected_rows_count_again_once_they_are_accepted() {
    for (key, sql, _) in ATTACKS {
        let installation = Installation::new();
        drop(with_rows(&installation).await);
        installation.attack(sql);
        let store = installation.open();
        assert!(!store.accept_row("key/a").await.unwrap(), "it was not rejected");
        assert!(store.accept_row(key).await.unwrap());
        assert_eq!(rejected(&store), []);
        drop(store);
        let store = installation.open();
        assert_eq!(rejected(&store), [], "{sql}");
        let plain = SqliteStore::open_file(installation.database()).unwrap();
        assert_eq!(store.get_value(key).await.unwrap(), plain.get_value(key).await.unwrap());
    }
}

#[tokio::test]
async fn a_check_finds_the_same_and_writes_nothing() {
    let installation = Installation::new();
    let store = with_rows(&installation).await;
    let (database, macs) = (installation.database(), installation.macs());
    let check = || SqliteStore::check_rows(&database, &macs).unwrap();
    assert_eq!(check(), []);
    installation.attack("DELETE FROM kv WHERE key = 'key/b'");
    let before = fs::read(&macs.path).unwrap();
    assert_eq!(
        check(),
        [RejectedRow { key: "key/b".to_owned(), rejection: RowRejection::Removed }]
    );
    assert_eq!(fs::read(&macs.path).unwrap(), before);
    drop(store);
}

/// The database as it was before a write, or after it, with each state that the file of MACs may have at a kill.
#[tokio::test]
async fn killed_between_the_two_files_nothing_is_lost_and_nobody_is_locked_out() {
    let installation = Installation::new();
    let store = with_rows(&installation).await;
    let before = fs::read(installation.macs().path).unwrap();
    let stands = store.get_value("key/b").await.unwrap().unwrap().version;
    store.put_value("key/b", WritePrecondition::Version(stands), text("b3")).await.unwrap();
    let after = fs::read(installation.macs().path).unwrap();
    drop(store);
    assert!(after.starts_with(&before) && after.ends_with(b".\n"));
    let synced = after.len() - 2;
    for length in before.len()..=after.len() {
        for (value, may_stand) in [("b2", length < after.len()), ("b3", length >= synced)] {
            installation.attack(&format!(
                "UPDATE kv SET bytes = CAST('{value}' AS BLOB) WHERE key = 'key/b'"
            ));
            fs::write(installation.macs().path, &after[..length]).unwrap();
            let store = installation.open();
            // Committed before its MAC was on the disk is what no kill leaves, and the whole file with the older row
            // is the attack: the control.
            assert_eq!(!reads_damaged(&store, "key/b").await, may_stand, "{length} {value}");
            // And it goes on from there.
            let read = store.get_value("key/b").await.unwrap().unwrap();
            store
                .put_value("key/b", WritePrecondition::Version(read.version), text("b4"))
                .await
                .unwrap();
            drop(store);
            assert_eq!(rejected(&installation.open()), []);
        }
    }
}

#[tokio::test]
async fn rows_of_an_older_version_are_adopted_once() {
    let installation = Installation::new();
    let plain = SqliteStore::open_file(installation.database()).unwrap();
    make(&plain, "key/b", "b1").await;
    drop(plain);
    let store = installation.open();
    assert_eq!(store.get_value("key/b").await.unwrap().unwrap().bytes, "b1");
    drop(store);
    installation
        .attack("INSERT INTO kv (key, version, bytes, removed) VALUES ('key/new', 900, x'31', 0)");
    let store = installation.open();
    assert!(reads_damaged(&store, "key/new").await);
    drop(store);
    // Nothing in the database makes it the first time again; the control: without the file it is.
    let file = Connection::open(installation.database()).unwrap();
    file.execute("DELETE FROM counter WHERE name = 'floor'", []).unwrap();
    drop(file);
    assert!(reads_damaged(&installation.open(), "key/new").await);
    fs::remove_file(installation.macs().path).unwrap();
    assert!(!reads_damaged(&installation.open(), "key/new").await);
}

#[tokio::test]
async fn a_damaged_file_of_macs_is_an_error_that_names_it() {
    let installation = Installation::new();
    drop(with_rows(&installation).await);
    let path = installation.macs().path;
    let whole = fs::read_to_string(&path).unwrap();
    for bent in [whole.replacen('=', "+", 1), whole.replace("toolkeep", "other")] {
        fs::write(&path, bent).unwrap();
        let error = SqliteStore::open_protected(installation.database(), &installation.macs());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("store.macs") && error.contains("restore it from a backup"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_file_of_macs_of_a_newer_version_is_refused_and_named() {
    let installation = Installation::new();
    assert_eq!(MacFile::read_format(&installation.macs().path), Ok(None));
    drop(with_rows(&installation).await);
    let path = installation.macs().path;
    assert_eq!(MacFile::read_format(&path), Ok(Some(MacFile::FORMAT.written)));
    let whole = fs::read_to_string(&path).unwrap();
    let newer = whole.replacen("row MACs 1 ", "row MACs 12 ", 1);
    fs::write(&path, &newer).unwrap();
    assert_eq!(MacFile::read_format(&path), Ok(Some(12)));
    let error = SqliteStore::open_protected(installation.database(), &installation.macs());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("a newer version of toolkeep wrote it (format 12"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
    fs::write(&path, "another file\n").unwrap();
    assert!(MacFile::read_format(&path).unwrap_err().to_string().contains("store.macs"));
}

#[tokio::test]
async fn a_write_appends_as_much_beside_many_rows_as_beside_few() {
    let installation = Installation::new();
    let store = installation.open();
    let size = || fs::metadata(installation.macs().path).unwrap().len();
    let mut last = make(&store, "key/last", "0").await;
    let mut appended = Vec::new();
    for rows in [0, 300] {
        for row in 0..rows {
            make(&store, &format!("key/{row}"), "x").await;
        }
        let before = size();
        last =
            store.put_value("key/last", WritePrecondition::Version(last), text("1")).await.unwrap();
        appended.push(size() - before);
    }
    assert_eq!(appended[0], appended[1]);
    // The control: the file is written anew when it is much longer than its rows are many.
    for _ in 0..1_000 {
        last =
            store.put_value("key/last", WritePrecondition::Version(last), text("1")).await.unwrap();
    }
    assert!(size() < 1_000 * appended[0], "{}", size());
    drop(store);
    assert_eq!(rejected(&installation.open()), []);
}
