//! The newest signed checkpoint, which stands beside the segments: `WRITER.checkpoint`.

use std::io;

use super::check::Outside;
use crate::disk::{Open, read_all};
use crate::finding::{Fault, Finding};
use crate::progress::Found;
use crate::segment::Site;
use crate::signed::{NOTE, VerifyKey, unproved};

/// What was read.
#[derive(Debug, Default)]
pub(super) struct CheckpointFile {
    pub(super) checkpoint: Option<Outside>,
    pub(super) finding: Option<Finding>,
}

impl CheckpointFile {
    /// Reads it, and checks who signed it where `keys` are given. One that the record does not know of may be missing:
    /// it is signed a second after its records at the latest, and by a server only.
    pub(super) fn read(site: &Site, found: &Found, keys: Option<&[VerifyKey]>) -> Self {
        let signed = match found {
            Found::Whole(progress) => progress.signed,
            Found::Absent | Found::Damaged(_) => 0,
        };
        let text = match read(site) {
            Ok(Some(note)) => match parse(site, &note, keys) {
                Ok(checkpoint) if checkpoint.checkpoint.through >= signed => {
                    return Self { checkpoint: Some(checkpoint), finding: None };
                }
                Ok(older) => {
                    let through = older.checkpoint.through;
                    format!("goes to record {through}, and one that went to {signed} was there")
                }
                Err(why) => format!("is damaged: {why}"),
            },
            Ok(None) if signed == 0 => return Self::default(),
            Ok(None) => format!("is missing, and went to record {signed}"),
            Err(error) => format!("cannot be read: {error}"),
        };
        let name = site.checkpoint().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let finding = Finding {
            writer: site.writer.clone(),
            segment: name,
            offset: 0,
            seq: None,
            fault: Fault::Checkpoint,
            text,
        };
        Self { checkpoint: None, finding: Some(finding) }
    }
}

fn parse(site: &Site, note: &str, keys: Option<&[VerifyKey]>) -> Result<Outside, String> {
    let noted = unproved(note).map_err(|error| error.to_string())?;
    if noted.checkpoint.writer != site.writer {
        return Err(format!("it is of the writer `{}`", noted.checkpoint.writer.escape_debug()));
    }
    if let Some(keys) = keys {
        let key = keys.iter().find(|key| key.name() == noted.origin).ok_or_else(|| {
            format!(
                "it is signed for `{}`, and no key of that name was given",
                noted.origin.escape_debug()
            )
        })?;
        key.checkpoint(note).map_err(|error| error.to_string())?;
    }
    Ok(Outside { checkpoint: noted.checkpoint, beside: true })
}

fn read(site: &Site) -> io::Result<Option<String>> {
    let file = match site.disk.open(&site.checkpoint(), Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // One byte more than the longest note, so that a longer one is none.
    let mut bytes = vec![0; usize::try_from(NOTE + 1).map_err(io::Error::other)?];
    let have = read_all(file.as_ref(), 0, &mut bytes)?;
    bytes.truncate(have);
    // A note that is no text is no note.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
