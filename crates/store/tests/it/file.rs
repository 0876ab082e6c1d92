//! Properties of the file store alone: it outlives the program, is private, and checks its format.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bytes::Bytes;
use rusqlite::Connection;
use store::SqliteStore;
use tool::store::WritePrecondition;
use tool::{Store as _, Version};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const ONE: Option<Bytes> = Some(Bytes::from_static(b"1"));

fn refusal(path: &Path) -> String {
    SqliteStore::open_file(path).unwrap_err().to_string()
}

#[tokio::test]
async fn what_was_written_is_there_after_opening_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open_file(&path).unwrap();
    let first = store.put_value("a", WritePrecondition::Absent, ONE).await.unwrap();
    drop(store);
    let store = SqliteStore::open_file(&path).unwrap();
    assert_eq!(store.get_value("a").await.unwrap().unwrap().version, first);
    assert!(store.put_value("b", WritePrecondition::Absent, ONE).await.unwrap() > first);
}

#[tokio::test]
async fn a_check_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    assert!(SqliteStore::check_file(&path).is_err() && !path.exists());
    let store = SqliteStore::open_file(&path).unwrap();
    store.put_value("a", WritePrecondition::Absent, ONE).await.unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    // Beside the one who writes, too.
    assert_eq!(SqliteStore::check_file(&path), Ok(()));
    assert_eq!(mode(&path), 0o640);
    fs::write(folder.path().join("text"), "no database, only some words of text").unwrap();
    assert!(SqliteStore::check_file(folder.path().join("text")).is_err());
}

#[tokio::test]
async fn two_handles_of_one_file_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (here, there) =
        (SqliteStore::open_file(&path).unwrap(), SqliteStore::open_file(&path).unwrap());
    let first = here.put_value("a", WritePrecondition::Absent, ONE).await.unwrap();
    assert!(there.put_value("a", WritePrecondition::Absent, ONE).await.is_err());
    let second = there.put_value("a", WritePrecondition::Version(first), None).await.unwrap();
    assert_eq!(here.changes_since(first).await.unwrap()[0].version, second);
}

#[tokio::test]
async fn the_files_are_their_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open_file(&path).unwrap();
    store.put_value("a", WritePrecondition::Absent, ONE).await.unwrap();
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
    }
    drop(store);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let _store = SqliteStore::open_file(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_file_of_a_newer_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(SqliteStore::open_file(&path).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 3).unwrap();
    drop(newer);
    assert_eq!(SqliteStore::read_format(&path), Ok(Some(3)));
    let error = refusal(&path);
    let expected = "a newer version of toolkeep wrote it (format 3, this one reads up to 2); \
                    use that version, or another data directory";
    assert!(error.ends_with(expected) && error.contains("store.db"), "{error}");
    let version: i64 = Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(version, 3);
}

#[test]
fn other_files_are_refused_with_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "not a database, but long enough to be read as the header of one").unwrap();
    assert!(refusal(&text).contains("file is not a database"), "{}", refusal(&text));
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(
        SqliteStore::read_format(&foreign).unwrap_err().to_string().contains("another program")
    );
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    assert_eq!(SqliteStore::read_format(&empty), Ok(None));
    let expected = "another program created it; use another data directory";
    assert!(refusal(&foreign).ends_with(expected), "{}", refusal(&foreign));
    assert!(refusal(&folder.path().join("no/such/folder.db")).contains("No such file"));
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open_file(&path).unwrap();
    for index in 0..200 {
        let value = Some(Bytes::from(vec![7; 512]));
        store.put_value(&format!("k/{index}"), WritePrecondition::Absent, value).await.unwrap();
    }
    drop(store);
    let whole = Connection::open(&path).unwrap();
    whole.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    drop(whole);
    let mut bytes = fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(4096).step_by(3) {
        *byte ^= 0xa5;
    }
    fs::write(&path, bytes).unwrap();
    assert!(SqliteStore::check_file(&path).is_err());
    let error = match SqliteStore::open_file(&path) {
        Ok(store) => store.changes_since(Version(0)).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("malformed"), "{error}");
}

/// Pages of one row of a pending call's size, by the pages that many of them take.
fn pages_of_a_row(path: &Path) -> f64 {
    let file = Connection::open(path).unwrap();
    let number = |sql: &str| file.query_row(sql, [], |row| row.get::<_, f64>(0)).unwrap();
    let used = number("PRAGMA page_count") - number("PRAGMA freelist_count");
    used / number("SELECT count(*) FROM kv")
}

#[tokio::test]
async fn a_row_takes_about_its_own_bytes_also_in_a_file_of_an_older_version() {
    const ROWS: usize = 400;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(SqliteStore::open_file(&path).unwrap());
    // As an older version made it.
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "DROP TABLE kv; CREATE TABLE kv (
             key TEXT PRIMARY KEY, version INTEGER NOT NULL UNIQUE, bytes BLOB NOT NULL,
             removed INTEGER NOT NULL
         ) STRICT, WITHOUT ROWID;
         CREATE INDEX kv_removed ON kv (version) WHERE removed = 1;
         UPDATE counter SET value = 401 WHERE name = 'version';
         INSERT INTO kv VALUES ('gone', 401, x'', 1); PRAGMA user_version = 1;",
    )
    .unwrap();
    let mut insert = old.prepare("INSERT INTO kv VALUES (?1, ?2, ?3, 0)").unwrap();
    for row in 0..ROWS {
        let version = i64::try_from(row + 1).unwrap();
        insert.execute((format!("wait/{row:03}"), version, vec![7_u8; 1_060])).unwrap();
    }
    drop(insert);
    drop(old);
    // The control: so it was.
    assert!(pages_of_a_row(&path) > 1.0, "{}", pages_of_a_row(&path));

    let store = SqliteStore::open_file(&path).unwrap();
    let rows = store.scan_prefix("wait/", None, 1_000).await.unwrap();
    assert_eq!((rows.len(), rows[7].version, rows[7].bytes.len()), (ROWS, Version(8), 1_060));
    let news = store.changes_since(Version(400)).await.unwrap();
    assert_eq!((news.len(), news[0].key.as_str(), news[0].is_removal), (1, "gone", true));
    assert_eq!(
        store.put_value("wait/400", WritePrecondition::Absent, ONE).await.unwrap(),
        Version(402)
    );
    assert!(pages_of_a_row(&path) < 0.4, "{}", pages_of_a_row(&path));
    drop(store);
    drop(SqliteStore::open_file(&path).unwrap());
}
