//! Signed checkpoints that were stored elsewhere, and the keys that verify them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ledger::Checkpoint;
use ledger::signed::{RecordKey, VerifyKey, notes, unproved};

use super::KEPT;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::clean;

/// Maximum size of a key file, in bytes.
const KEY: u64 = 4 << 10;

/// The signed checkpoints and keys that were given.
#[derive(Debug, Default)]
pub(in crate::record) struct Signed {
    /// The checkpoints with a valid signature.
    pub(in crate::record) checkpoints: Vec<Checkpoint>,
    /// Whether the key is that of the data directory.
    pub(super) own_key: bool,
    /// Number of notes not signed by the key of the data directory: from another time or
    /// installation.
    pub(super) foreign: usize,
    given: Vec<VerifyKey>,
    own: Option<RecordKey>,
}

impl Signed {
    pub(in crate::record) fn read(
        files: &[PathBuf],
        keys: &[String],
        data: &DataDir,
    ) -> Result<Self, Failure> {
        let given = keys.iter().map(|key| key_of(key)).collect::<Result<Vec<_>, _>>()?;
        if files.is_empty() {
            // A record that was never signed has no key, and is verified without one.
            let own = own(data).ok().filter(|_| given.is_empty());
            return Ok(Self { given, own, ..Self::default() });
        }
        let own = if given.is_empty() { Some(own(data)?) } else { None };
        let mut signed = Self { own_key: own.is_some(), ..Self::default() };
        for file in files {
            let text = read(file, KEPT)?;
            let before = signed.checkpoints.len() + signed.foreign;
            for note in notes(&text) {
                signed.add(file, note, (&given, own.as_ref()))?;
            }
            // A file that proves nothing must not look like a proof.
            if signed.checkpoints.len() + signed.foreign == before {
                return Err(told(file, "holds no signed checkpoint"));
            }
        }
        if signed.checkpoints.is_empty() {
            let failure = told(
                files.first().map_or(Path::new(""), PathBuf::as_path),
                "holds no checkpoint that this key signed",
            );
            return Err(failure.fix("give the key that signed it: `--signer KEY`"));
        }
        (signed.given, signed.own) = (given, own);
        Ok(signed)
    }

    /// Whether there is any key.
    pub(super) fn has_signers(&self) -> bool {
        self.own.is_some() || !self.given.is_empty()
    }

    /// Whether the key is that of the data directory.
    pub(super) fn own_signer(&self) -> bool {
        self.own.is_some()
    }

    /// The keys that may have signed a writer's tombstones.
    pub(super) fn signers(&self, writer: &str) -> Vec<VerifyKey> {
        let own = self.own.as_ref().map(|key| key.of_writer(writer));
        self.given.iter().cloned().chain(own).collect()
    }

    fn add(
        &mut self,
        file: &Path,
        note: &str,
        (given, own): (&[VerifyKey], Option<&RecordKey>),
    ) -> Result<(), Failure> {
        let noted = unproved(note).map_err(|error| told(file, &error.to_string()))?;
        let own = own.map(|key| key.of_writer(&noted.checkpoint.writer));
        let mut keys = given.iter().chain(&own);
        let Some(key) = keys.find(|key| key.name() == noted.origin) else {
            self.foreign += 1;
            return Ok(());
        };
        let noted = key.checkpoint(note).map_err(|error| {
            let message =
                format!("`{}`: a checkpoint in it does not hold: {error}", file.display());
            Failure::new(Exit::Failed, message)
        })?;
        self.checkpoints.push(noted.checkpoint);
        Ok(())
    }

    /// The writers with at least one checkpoint.
    pub(super) fn writers(&self) -> BTreeSet<&str> {
        self.checkpoints.iter().map(|checkpoint| checkpoint.writer.as_str()).collect()
    }
}

fn key_of(given: &str) -> Result<VerifyKey, Failure> {
    let text = match given.parse::<VerifyKey>() {
        Ok(key) => return Ok(key),
        Err(error) if !Path::new(given).is_file() => {
            let message = format!("`{}`: {error}", clean(given));
            return Err(Failure::new(Exit::Usage, message).fix(
                "it is what `toolkeep record checkpoint --public` prints, or a file with that",
            ));
        }
        Err(_) => read(Path::new(given), KEY)?,
    };
    text.parse::<VerifyKey>().map_err(|error| told(Path::new(given), &error.to_string()))
}

fn own(data: &DataDir) -> Result<RecordKey, Failure> {
    let path = data.record_key();
    RecordKey::read(&read(&path, KEY)?).map_err(|error| told(&path, &error.to_string()))
}

fn read(file: &Path, most: u64) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| told(file, &format!("cannot be read: {error}"));
    if std::fs::metadata(file).map_err(cannot)?.len() > most {
        return Err(told(file, &format!("has more than {most} bytes")));
    }
    std::fs::read_to_string(file).map_err(cannot)
}

fn told(file: &Path, what: &str) -> Failure {
    Failure::new(Exit::Usage, format!("`{}` {what}", file.display()))
}
