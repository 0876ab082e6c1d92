//! Data directories in other formats, made from one of this version as older versions wrote them.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

/// Rows of the store in format 1: the table is an index of its keys.
const STORE_FORMAT_1: &str = "
    DROP INDEX kv_removed;
    ALTER TABLE kv RENAME TO kv_2;
    CREATE TABLE kv (
        key TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL UNIQUE, bytes BLOB NOT NULL,
        removed INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO kv SELECT key, version, bytes, removed FROM kv_2;
    DROP TABLE kv_2;
    CREATE INDEX kv_removed ON kv (version) WHERE removed = 1;
    PRAGMA user_version = 1;
";

/// Makes the formats of the first version: rows without MACs, a store in format 1, and segments in
/// format 1.
pub(super) fn make_older(data: &Path) {
    Connection::open(data.join("store.db")).unwrap().execute_batch(STORE_FORMAT_1).unwrap();
    fs::remove_file(data.join("store.macs")).unwrap();
    set_segment_version(&data.join("records"), 1);
}

/// Changes the version of a store alone.
pub(super) fn set_store_version(file: &Path, version: u32) {
    let store = Connection::open(file).unwrap();
    store.pragma_update(None, "user_version", version).unwrap();
}

/// Changes the version in the header of every segment, with a valid checksum.
pub(super) fn set_segment_version(records: &Path, version: u16) {
    let mut count = 0;
    for entry in fs::read_dir(records).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "seg") {
            let mut bytes = fs::read(&path).unwrap();
            assert_eq!(crc32(&bytes[..124]).to_le_bytes(), bytes[124..128], "the known checksum");
            bytes[8..10].copy_from_slice(&version.to_le_bytes());
            let sum = crc32(&bytes[..124]).to_le_bytes();
            bytes[124..128].copy_from_slice(&sum);
            fs::write(path, bytes).unwrap();
            count += 1;
        }
    }
    assert!(count > 0, "no segment in {}", records.display());
}

/// CRC-32 of the header, by its definition.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
    let add = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
    !bytes.iter().fold(!0, add)
}
