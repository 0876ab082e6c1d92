//! Signed checkpoints that were stored elsewhere, and the keys that verify them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ledger::LedgerCheckpoint;
use ledger::signed_checkpoint::{CheckpointSigningKey, VerifierKey, parse_unverified, split_notes};

use super::MAX_CHECKPOINT_FILE_BYTES;
use crate::record::{file_error, read_text_file};
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::DataDir;
use cli_core::printer::sanitize_text;

/// Maximum size of a key file, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 4 << 10;

/// The signed checkpoints and keys that were given.
#[derive(Debug, Default)]
pub(in crate::record) struct SignedCheckpoints {
    /// The checkpoints with a valid signature.
    pub(in crate::record) checkpoints: Vec<LedgerCheckpoint>,
    /// Whether the key is that of the data directory.
    pub(super) used_local_key: bool,
    /// Number of notes not signed by the key of the data directory: from another time or
    /// installation.
    pub(super) unknown_signers: usize,
    given_keys: Vec<VerifierKey>,
    local_key: Option<CheckpointSigningKey>,
}

impl SignedCheckpoints {
    pub(in crate::record) fn from_files(
        files: &[PathBuf],
        keys: &[String],
        data_dir: &DataDir,
    ) -> Result<Self, CommandError> {
        let given = keys.iter().map(|key| parse_verify_key(key)).collect::<Result<Vec<_>, _>>()?;
        if files.is_empty() {
            // A record that was never signed has no key, and is verified without one.
            let own = read_record_key(data_dir).ok().filter(|_| given.is_empty());
            return Ok(Self { given_keys: given, local_key: own, ..Self::default() });
        }
        let own = if given.is_empty() { Some(read_record_key(data_dir)?) } else { None };
        let mut signed = Self { used_local_key: own.is_some(), ..Self::default() };
        for file in files {
            let text = read_text_file(file, MAX_CHECKPOINT_FILE_BYTES)?;
            let before = signed.checkpoints.len() + signed.unknown_signers;
            for note in split_notes(&text) {
                signed.add_note(file, note, (&given, own.as_ref()))?;
            }
            // A file that proves nothing must not look like a proof.
            if signed.checkpoints.len() + signed.unknown_signers == before {
                return Err(file_error(file, "contains no signed checkpoint"));
            }
        }
        if signed.checkpoints.is_empty() {
            let failure = file_error(
                files.first().map_or(Path::new(""), PathBuf::as_path),
                "contains no checkpoint that this key signed",
            );
            return Err(failure.with_help("pass the key of the signer: `--signer KEY`"));
        }
        (signed.given_keys, signed.local_key) = (given, own);
        Ok(signed)
    }

    /// Whether there is any key.
    pub(super) fn has_keys(&self) -> bool {
        self.local_key.is_some() || !self.given_keys.is_empty()
    }

    /// Whether the key is that of the data directory.
    pub(super) fn has_local_key(&self) -> bool {
        self.local_key.is_some()
    }

    /// The keys that may have signed a writer's tombstones.
    pub(super) fn writer_keys(&self, writer: &str) -> Vec<VerifierKey> {
        let own = self.local_key.as_ref().map(|key| key.verifier_key_of(writer));
        self.given_keys.iter().cloned().chain(own).collect()
    }

    fn add_note(
        &mut self,
        file: &Path,
        note: &str,
        (given, own): (&[VerifierKey], Option<&CheckpointSigningKey>),
    ) -> Result<(), CommandError> {
        let noted = parse_unverified(note).map_err(|error| file_error(file, &error.to_string()))?;
        let own = own.map(|key| key.verifier_key_of(&noted.checkpoint.writer));
        let mut keys = given.iter().chain(&own);
        let Some(key) = keys.find(|key| key.name() == noted.origin) else {
            self.unknown_signers += 1;
            return Ok(());
        };
        let noted = key.verify_checkpoint(note).map_err(|error| {
            let message = format!("`{}`: invalid checkpoint: {error}", file.display());
            CommandError::new(ExitStatus::Failed, message)
        })?;
        self.checkpoints.push(noted.checkpoint);
        Ok(())
    }

    /// The writers with at least one checkpoint.
    pub(super) fn writers(&self) -> BTreeSet<&str> {
        self.checkpoints.iter().map(|checkpoint| checkpoint.writer.as_str()).collect()
    }
}

fn parse_verify_key(given: &str) -> Result<VerifierKey, CommandError> {
    let text = match given.parse::<VerifierKey>() {
        Ok(key) => return Ok(key),
        Err(error) if !Path::new(given).is_file() => {
            let message = format!("`{}`: {error}", sanitize_text(given));
            return Err(CommandError::new(ExitStatus::UsageError, message).with_help(
                "pass the output of `toolkeep record checkpoint --public`, or a file that contains \
                 it",
            ));
        }
        Err(_) => read_text_file(Path::new(given), MAX_KEY_FILE_BYTES)?,
    };
    text.parse::<VerifierKey>().map_err(|error| file_error(Path::new(given), &error.to_string()))
}

fn read_record_key(data: &DataDir) -> Result<CheckpointSigningKey, CommandError> {
    let path = data.record_key_file();
    CheckpointSigningKey::from_hex(&read_text_file(&path, MAX_KEY_FILE_BYTES)?)
        .map_err(|error| file_error(&path, &error.to_string()))
}
