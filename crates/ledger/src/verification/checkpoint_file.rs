//! The newest signed checkpoint, stored beside the segments as `WRITER.checkpoint`.

use std::io;

use super::writer_verifier::ExternalCheckpoint;
use crate::disk::{OpenMode, read_fully};
use crate::integrity_finding::{DamageKind, IntegrityFinding};
use crate::segment::WriterDir;
use crate::signed_checkpoint::{MAX_NOTE_BYTES, VerifierKey, parse_unverified};
use crate::writer_progress::FoundProgress;

/// Result of reading the file.
#[derive(Debug, Default)]
pub(super) struct CheckpointFile {
    pub(super) checkpoint: Option<ExternalCheckpoint>,
    pub(super) finding: Option<IntegrityFinding>,
}

impl CheckpointFile {
    /// Reads the checkpoint, and verifies its signer if `keys` are given. The file may be missing
    /// for the newest checkpoint of the record, which only a server signs, up to a second later.
    pub(super) fn read_and_verify(
        writer_dir: &WriterDir,
        found_progress: &FoundProgress,
        keys: Option<&[VerifierKey]>,
    ) -> Self {
        let signed = match found_progress {
            FoundProgress::Valid(progress) => progress.signed_seq,
            FoundProgress::Absent | FoundProgress::Damaged(_) => 0,
        };
        let text = match read_note(writer_dir) {
            Ok(Some(note)) => match parse_checkpoint(writer_dir, &note, keys) {
                Ok(checkpoint) if checkpoint.checkpoint.last_seq >= signed => {
                    return Self { checkpoint: Some(checkpoint), finding: None };
                }
                Ok(older) => {
                    let through = older.checkpoint.last_seq;
                    format!(
                        "covers the records up to {through}, but a later one covered those up \
                        to {signed}"
                    )
                }
                Err(why) => format!("is damaged: {why}"),
            },
            Ok(None) if signed == 0 => return Self::default(),
            Ok(None) => format!("is missing; it covered the records up to {signed}"),
            Err(error) => format!("cannot be read: {error}"),
        };
        let name = writer_dir
            .checkpoint_path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let finding = IntegrityFinding {
            writer: writer_dir.writer_name.clone(),
            segment: name,
            offset: 0,
            seq: None,
            damage: DamageKind::InvalidCheckpoint,
            message: text,
        };
        Self { checkpoint: None, finding: Some(finding) }
    }
}

fn parse_checkpoint(
    site: &WriterDir,
    note: &str,
    keys: Option<&[VerifierKey]>,
) -> Result<ExternalCheckpoint, String> {
    let noted = parse_unverified(note).map_err(|error| error.to_string())?;
    if noted.checkpoint.writer != site.writer_name {
        return Err(format!(
            "it belongs to the writer \
            `{}`",
            noted.checkpoint.writer.escape_debug()
        ));
    }
    if let Some(keys) = keys {
        let key = keys.iter().find(|key| key.name() == noted.origin).ok_or_else(|| {
            format!(
                "it is signed for `{}`, but no key of that name was given",
                noted.origin.escape_debug()
            )
        })?;
        key.verify_checkpoint(note).map_err(|error| error.to_string())?;
    }
    Ok(ExternalCheckpoint { checkpoint: noted.checkpoint, is_beside_segments: true })
}

fn read_note(site: &WriterDir) -> io::Result<Option<String>> {
    let file = match site.disk.open_file(&site.checkpoint_path(), OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // One byte more than the longest note, so that a longer file is detected.
    let mut bytes = vec![0; usize::try_from(MAX_NOTE_BYTES + 1).map_err(io::Error::other)?];
    let have = read_fully(file.as_ref(), 0, &mut bytes)?;
    bytes.truncate(have);
    // A note that is no text is no note.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
