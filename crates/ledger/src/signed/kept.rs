//! Where signed checkpoints are put: beside the record, and at a second place that the operator names.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tool::{LedgerError, Mono};

use super::RecordKey;
use crate::chain::Checkpoint;
use crate::failure::failed;
use crate::file_ledger::FileLedger;
use crate::retain::{Keep, Retained};

/// The second place gets one no more often than this: each speaks of all that came before.
const APART: Duration = Duration::from_mins(1);
/// The second place begins anew past this, in bytes; the old file stays beside it as `.1`.
const FULL: u64 = 8 << 20;

/// Writes signed checkpoints down. Not for a thread that others wait for: it syncs.
#[derive(Debug)]
pub struct Seals {
    key: RecordKey,
    dir: PathBuf,
    also: Option<PathBuf>,
    last: Option<Checkpoint>,
    put: Option<(Mono, u64)>,
}

impl Seals {
    /// For the record in `dir`; `also` is a file, better on another disk or another machine's.
    pub fn new(key: RecordKey, dir: PathBuf, also: Option<PathBuf>) -> Self {
        Self { key, dir, also, last: None, put: None }
    }

    /// Where the last signed checkpoint of a writer stands.
    pub fn path(dir: &Path, writer: &str) -> PathBuf {
        dir.join(format!("{writer}.checkpoint"))
    }

    /// Removes what `keep` does not keep of what was signed; see [`FileLedger::retain`].
    ///
    /// # Errors
    /// The disk's.
    pub fn retain(&self, ledger: &FileLedger, keep: Keep) -> Result<Retained, LedgerError> {
        match &self.last {
            Some(signed) => ledger.retain(keep, signed, &self.key),
            None => Ok(Retained::default()),
        }
    }

    /// Another second place from here on.
    pub fn set_also(&mut self, also: Option<PathBuf>) {
        if self.also != also {
            (self.also, self.put) = (also, None);
        }
    }

    /// Writes the last checkpoint of a ledger down where it is news, and has the ledger say that it is there. `last`: none
    /// comes behind it, so that the second place gets it whatever the time.
    ///
    /// # Errors
    /// One of the places cannot be written; the other one is, all the same.
    pub fn seal(&mut self, ledger: &FileLedger, now: Mono, last: bool) -> Result<(), LedgerError> {
        let Some(checkpoint) = ledger.checkpoint() else { return Ok(()) };
        let kept = self.keep(&checkpoint, now, last);
        if self.last.as_ref() == Some(&checkpoint) {
            ledger.inner.signed(checkpoint.through);
        }
        kept
    }

    fn keep(&mut self, checkpoint: &Checkpoint, now: Mono, last: bool) -> Result<(), LedgerError> {
        let note = self.key.note(checkpoint);
        let mut told = Ok(());
        if self.last.as_ref() != Some(checkpoint) {
            let path = Self::path(&self.dir, &checkpoint.writer);
            match replace(&path, note.as_bytes()) {
                Ok(()) => self.last = Some(checkpoint.clone()),
                Err(error) => told = Err(failed("the checkpoint cannot be kept", &path, &error)),
            }
        }
        let news = self.put.is_none_or(|(_, count)| count != checkpoint.count);
        let due = self.put.is_none_or(|(at, _)| last || now.since(at) >= APART);
        if let Some(also) = self.also.as_ref().filter(|_| news && due) {
            match add(also, &format!("{note}\n")) {
                Ok(()) => self.put = Some((now, checkpoint.count)),
                Err(error) => {
                    let what = "the checkpoint cannot be kept at its second place";
                    told = Err(failed(what, also, &error));
                }
            }
        }
        told
    }
}

/// Atomically, and on the disk when it comes back.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unnamed = path.with_extension("checkpoint.tmp");
    let mut file = File::create(&unnamed)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&unnamed, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

fn add(path: &Path, note: &str) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|known| known.len() > FULL) {
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

    use tool::{Mono, Wall};

    use super::Seals;
    use crate::chain::Chain;
    use crate::signed::{RecordKey, notes};

    #[test]
    fn the_second_place_has_one_a_minute_and_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let also = dir.path().join("also");
        let key = RecordKey::fresh().unwrap();
        let public = key.of_writer("main");
        let mut seals = Seals::new(key, dir.path().to_owned(), Some(also.clone()));
        let mut chain = Chain::new("main");
        for second in 0..150 {
            chain.push(second + 1, b"frame");
            let last = second == 149;
            let checkpoint = chain.checkpoint("main", Wall(second));
            seals.keep(&checkpoint, Mono(Duration::from_secs(second)), last).unwrap();
            seals.keep(&checkpoint, Mono(Duration::from_secs(second)), last).unwrap();
        }
        let read = |path| std::fs::read_to_string(path).unwrap();
        let note = read(Seals::path(dir.path(), "main"));
        assert_eq!(public.checkpoint(&note).unwrap().checkpoint.count, 150);
        let all = read(also);
        let counts: Vec<_> =
            notes(&all).map(|note| public.checkpoint(note).unwrap().checkpoint.count).collect();
        assert_eq!(counts, [1, 61, 121, 150]);
    }

    #[test]
    fn a_second_place_that_is_away_is_told_and_takes_nothing_from_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let also = dir.path().join("away/also");
        let key = RecordKey::fresh().unwrap();
        let mut seals = Seals::new(key, dir.path().to_owned(), Some(also));
        let checkpoint = Chain::new("main").checkpoint("main", Wall(1));
        let error = seals.keep(&checkpoint, Mono(Duration::ZERO), false).unwrap_err();
        assert!(error.message.contains("second place"), "{error}");
        assert!(Seals::path(dir.path(), "main").exists());
    }
}
