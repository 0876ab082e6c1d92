//! Publication of signed checkpoints: one file beside the ledger, and a second path that the
//! operator configures.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tool::{LedgerError, MonotonicTime};

use super::CheckpointSigningKey;
use crate::error_messages::io_failure;
use crate::file_ledger::FileLedger;
use crate::hash_chain::LedgerCheckpoint;
use crate::retention::{RetentionPolicy, RetentionReport};

/// Minimum interval of the second path. Each checkpoint covers all earlier ones.
const SECOND_PATH_INTERVAL: Duration = Duration::from_mins(1);
/// Size in bytes at which the second file is rotated; the old file is kept as `.1`.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// Publishes signed checkpoints. It syncs, so it must not run on a latency-sensitive thread.
#[derive(Debug)]
pub struct CheckpointPublisher {
    key: CheckpointSigningKey,
    dir: PathBuf,
    second_path: Option<PathBuf>,
    last_checkpoint: Option<LedgerCheckpoint>,
    last_published: Option<PublishedCheckpoint>,
}

/// Checkpoint that was last appended to the second file.
#[derive(Debug)]
struct PublishedCheckpoint {
    published_at: MonotonicTime,
    frame_count: u64,
}

impl CheckpointPublisher {
    /// Creates the publisher for the record in `dir`; `mirror` is a file, preferably on another
    /// disk or machine.
    pub fn new(key: CheckpointSigningKey, dir: PathBuf, mirror: Option<PathBuf>) -> Self {
        Self { key, dir, second_path: mirror, last_checkpoint: None, last_published: None }
    }

    /// Returns the path of a writer's last signed checkpoint.
    pub fn checkpoint_path(dir: &Path, writer: &str) -> PathBuf {
        dir.join(format!("{writer}.checkpoint"))
    }

    /// Removes the sealed segments that `policy` does not retain; see
    /// [`FileLedger::apply_retention`].
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn apply_retention(
        &self,
        ledger: &FileLedger,
        policy: RetentionPolicy,
    ) -> Result<RetentionReport, LedgerError> {
        match &self.last_checkpoint {
            Some(signed) => ledger.apply_retention(policy, signed, &self.key),
            None => Ok(RetentionReport::default()),
        }
    }

    /// Replaces the second path.
    pub fn set_second_path(&mut self, mirror: Option<PathBuf>) {
        if self.second_path != mirror {
            (self.second_path, self.last_published) = (mirror, None);
        }
    }

    /// Publishes the last checkpoint of a ledger if it is new, and records that in the ledger. With
    /// `is_final`, the second path is written regardless of the interval, because no further
    /// checkpoint follows.
    ///
    /// # Errors
    /// One of the paths cannot be written; the other one is written nevertheless.
    pub fn publish_latest(
        &mut self,
        ledger: &FileLedger,
        now: MonotonicTime,
        is_final: bool,
    ) -> Result<(), LedgerError> {
        let Some(checkpoint) = ledger.last_checkpoint() else { return Ok(()) };
        let kept = self.publish_checkpoint(&checkpoint, now, is_final);
        if self.last_checkpoint.as_ref() == Some(&checkpoint) {
            ledger.inner.set_signed_through(checkpoint.last_seq);
        }
        kept
    }

    fn publish_checkpoint(
        &mut self,
        checkpoint: &LedgerCheckpoint,
        now: MonotonicTime,
        is_final: bool,
    ) -> Result<(), LedgerError> {
        let note = self.key.sign_checkpoint(checkpoint);
        let mut told = Ok(());
        if self.last_checkpoint.as_ref() != Some(checkpoint) {
            let path = Self::checkpoint_path(&self.dir, &checkpoint.writer);
            match replace_file(&path, note.as_bytes()) {
                Ok(()) => self.last_checkpoint = Some(checkpoint.clone()),
                Err(error) => {
                    told = Err(io_failure("cannot store the checkpoint", &path, &error));
                }
            }
        }
        let last = self.last_published.as_ref();
        let news = last.is_none_or(|last| last.frame_count != checkpoint.frame_count);
        let due = last.is_none_or(|last| {
            is_final || now.saturating_duration_since(last.published_at) >= SECOND_PATH_INTERVAL
        });
        if let Some(also) = self.second_path.as_ref().filter(|_| news && due) {
            match append_note(also, &format!("{note}\n")) {
                Ok(()) => {
                    let frame_count = checkpoint.frame_count;
                    self.last_published =
                        Some(PublishedCheckpoint { published_at: now, frame_count });
                }
                Err(error) => {
                    let what = "cannot store the copy of the checkpoint";
                    told = Err(io_failure(what, also, &error));
                }
            }
        }
        told
    }
}

/// Replaces a file atomically and waits until it is durable.
fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unnamed = path.with_extension("checkpoint.tmp");
    let mut file = File::create(&unnamed)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&unnamed, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

fn append_note(path: &Path, note: &str) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|known| known.len() > MAX_FILE_BYTES) {
        let mut old = path.as_os_str().to_owned();
        old.push(".1");
        std::fs::rename(path, old)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.write_all(note.as_bytes())?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tool::{MonotonicTime, WallTime};

    use super::CheckpointPublisher;
    use crate::hash_chain::HashChain;
    use crate::signed_checkpoint::{CheckpointSigningKey, split_notes};

    #[test]
    fn the_second_place_has_one_a_minute_and_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let also = dir.path().join("also");
        let key = CheckpointSigningKey::generate().unwrap();
        let public = key.verifier_key_of("main");
        let mut seals = CheckpointPublisher::new(key, dir.path().to_owned(), Some(also.clone()));
        let mut chain = HashChain::new("main");
        for second in 0..150 {
            chain.append_frame(second + 1, b"frame");
            let last = second == 149;
            let checkpoint = chain.to_checkpoint("main", WallTime(second));
            seals
                .publish_checkpoint(&checkpoint, MonotonicTime(Duration::from_secs(second)), last)
                .unwrap();
            seals
                .publish_checkpoint(&checkpoint, MonotonicTime(Duration::from_secs(second)), last)
                .unwrap();
        }
        let read = |path| std::fs::read_to_string(path).unwrap();
        let note = read(CheckpointPublisher::checkpoint_path(dir.path(), "main"));
        assert_eq!(public.verify_checkpoint(&note).unwrap().checkpoint.frame_count, 150);
        let all = read(also);
        let counts: Vec<_> = split_notes(&all)
            .map(|note| public.verify_checkpoint(note).unwrap().checkpoint.frame_count)
            .collect();
        assert_eq!(counts, [1, 61, 121, 150]);
    }

    #[test]
    fn a_second_place_that_is_away_is_told_and_takes_nothing_from_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let also = dir.path().join("away/also");
        let key = CheckpointSigningKey::generate().unwrap();
        let mut seals = CheckpointPublisher::new(key, dir.path().to_owned(), Some(also));
        let checkpoint = HashChain::new("main").to_checkpoint("main", WallTime(1));
        let error = seals
            .publish_checkpoint(&checkpoint, MonotonicTime(Duration::ZERO), false)
            .unwrap_err();
        assert!(error.message.contains("the copy of the checkpoint"), "{error}");
        assert!(CheckpointPublisher::checkpoint_path(dir.path(), "main").exists());
    }
}
