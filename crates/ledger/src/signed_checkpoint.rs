//! Signed checkpoints for external verification: C2SP `tlog-checkpoint`, signed as `signed-note`
//! with Ed25519.
//!
//! ```text
//! toolkeep/0123456789abcdef/main       origin: installation and writer; the key has the same name
//! 1042                                 frames in the tree
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2…=   root of the tree, RFC 6962
//! chain sha256:…                       head of the hash chain
//! through 1042                         number of the last frame
//! at 1700000000000                     when, in milliseconds since 1970
//!
//! — toolkeep/0123456789abcdef/main NyiF…=
//! ```
//!
//! A signature proves the origin of a checkpoint. It is evidence about the record only if the
//! checkpoint or the key was stored apart from the record's files.

mod checkpoint_files;
mod signing_keys;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tool::{Digest, WallTime};

use crate::hash_chain::LedgerCheckpoint;

pub use checkpoint_files::CheckpointPublisher;
pub use signing_keys::{CheckpointSigningKey, KeyError, VerifierKey};

/// The largest note that is read, in bytes.
pub(crate) const MAX_NOTE_BYTES: u64 = 4 << 10;
/// Prefix of a signature line.
const SIGNATURE_PREFIX: &str = "\u{2014} ";

/// Why a text is no checkpoint of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// The text is not a signed checkpoint.
    #[error("invalid signed checkpoint: {0}")]
    Malformed(&'static str),
    /// No signature of this key is on it.
    #[error("it has no signature of the key `{0}`")]
    Unsigned(String),
    /// The signature does not hold.
    #[error(
        "the signature of the key `{0}` is invalid: the text was changed, or another key signed it"
    )]
    InvalidSignature(String),
}

/// Returns the name of a writer's key and log.
pub(crate) fn key_name(installation: &str, writer: &str) -> String {
    format!("toolkeep/{installation}/{writer}")
}

/// A checkpoint that was read from a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteCheckpoint {
    /// The checkpoint, without the roots of subtrees.
    pub checkpoint: LedgerCheckpoint,
    /// Its first line.
    pub origin: String,
}

impl CheckpointSigningKey {
    /// Returns the checkpoint as a signed note.
    pub fn sign_checkpoint(&self, checkpoint: &LedgerCheckpoint) -> String {
        let origin = key_name(&self.installation_id(), &checkpoint.writer);
        let text = format!(
            "{origin}\n{}\n{}\nchain {}\nthrough {}\nat {}\n",
            checkpoint.frame_count,
            BASE64.encode(checkpoint.root.0),
            checkpoint.head,
            checkpoint.last_seq,
            checkpoint.created_at.0,
        );
        self.sign_note(&origin, &text)
    }

    /// Signs `text`, which ends with a newline, as a signed note.
    pub(crate) fn sign_note(&self, name: &str, text: &str) -> String {
        let mut signature = self.verifier_key(name).key_id().to_vec();
        signature.extend(self.sign_bytes(text.as_bytes()));
        format!("{text}\n{SIGNATURE_PREFIX}{name} {}\n", BASE64.encode(signature))
    }
}

impl VerifierKey {
    /// Returns the text of a note after verifying a signature of this key.
    ///
    /// # Errors
    /// The reason why the note is not accepted.
    pub fn verify_note<'a>(&self, note: &'a str) -> Result<&'a str, NoteError> {
        self.verify_note_up_to(note, MAX_NOTE_BYTES)
    }

    /// Verifies a note of at most `max_bytes` bytes.
    pub(crate) fn verify_note_up_to<'a>(
        &self,
        note: &'a str,
        max_bytes: u64,
    ) -> Result<&'a str, NoteError> {
        if note.len() as u64 > max_bytes {
            return Err(NoteError::Malformed("it is too long"));
        }
        let (text, signatures) = note
            .rsplit_once("\n\n")
            .ok_or(NoteError::Malformed("it has no empty line before the signatures"))?;
        let text = note
            .get(..=text.len())
            .ok_or(NoteError::Malformed("it has no empty line before the signatures"))?;
        if !signatures.ends_with('\n') {
            return Err(NoteError::Malformed("its last line has no line break"));
        }
        for line in signatures.lines() {
            let line = line
                .strip_prefix(SIGNATURE_PREFIX)
                .ok_or(NoteError::Malformed("a signature line is malformed"))?;
            let (name, encoded) =
                line.split_once(' ').ok_or(NoteError::Malformed("a signature has no name"))?;
            let bytes = BASE64.decode(encoded);
            let bytes =
                bytes.map_err(|_| NoteError::Malformed("a signature is not valid base64"))?;
            let Some((id, signature)) = bytes.split_at_checked(4) else {
                return Err(NoteError::Malformed("a signature is too short"));
            };
            // The format allows signatures of other keys beside this one.
            if name == self.name() && id == self.key_id() {
                let holds = self.is_valid_signature(text.as_bytes(), signature);
                return holds
                    .then_some(text)
                    .ok_or_else(|| NoteError::InvalidSignature(self.to_string()));
            }
        }
        Err(NoteError::Unsigned(self.to_string()))
    }

    /// Parses and verifies the checkpoint of a note.
    ///
    /// # Errors
    /// The note is not a checkpoint, or not signed by this key.
    pub fn verify_checkpoint(&self, note: &str) -> Result<NoteCheckpoint, NoteError> {
        let noted = parse_unverified(self.verify_note(note)?)?;
        // The key's name determines the log that it may sign for.
        if noted.origin == self.name() {
            Ok(noted)
        } else {
            Err(NoteError::Malformed("it belongs to another log"))
        }
    }
}

/// Parses a note without verifying its signature.
///
/// # Errors
/// The note is malformed.
pub fn parse_unverified(note: &str) -> Result<NoteCheckpoint, NoteError> {
    let bad = NoteError::Malformed;
    let mut lines = note.lines();
    let origin = lines.next().filter(|line| !line.is_empty()).ok_or(bad("it has no origin"))?;
    let writer = origin.rsplit_once('/').map(|(_, writer)| writer);
    let writer = writer.filter(|_| origin.starts_with("toolkeep/"));
    let writer = writer.ok_or(bad("its first line is not an origin of Toolkeep"))?;
    let count =
        lines.next().and_then(|line| line.parse().ok()).ok_or(bad("its size is not a number"))?;
    let root = lines.next().and_then(|line| BASE64.decode(line).ok());
    let root = root.and_then(|root| root.try_into().ok()).ok_or(bad("its root is not a hash"))?;
    let mut after = |word: &str| lines.next().and_then(|line| line.strip_prefix(word));
    let head = after("chain ").and_then(|text| text.parse::<Digest>().ok());
    let head = head.ok_or(bad("its chain is not a hash"))?;
    let through = after("through ").and_then(|text| text.parse().ok());
    let through = through.ok_or(bad("it has no last record"))?;
    let at = after("at ").and_then(|text| text.parse().ok()).ok_or(bad("it has no time"))?;
    let checkpoint = LedgerCheckpoint {
        writer: writer.to_owned(),
        frame_count: count,
        last_seq: through,
        head,
        root: Digest(root),
        peaks: Vec::new(),
        created_at: WallTime(at),
    };
    Ok(NoteCheckpoint { checkpoint, origin: origin.to_owned() })
}

/// Splits the concatenated notes of a file.
pub fn split_notes(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches('\n');
        let signatures = rest.find("\n\n")? + 2;
        let tail = rest.get(signatures..)?;
        let lines =
            tail.split_inclusive('\n').take_while(|line| line.starts_with(SIGNATURE_PREFIX));
        let end = signatures + lines.map(str::len).sum::<usize>();
        let note = rest.get(..end)?;
        rest = rest.get(end..)?;
        Some(note)
    })
}

#[cfg(test)]
mod tests;
