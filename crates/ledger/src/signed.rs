//! Checkpoints as others can check them: C2SP `tlog-checkpoint`, signed as `signed-note` with Ed25519.
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
//! A signature tells whose word a checkpoint is. It proves something about the record only where the
//! checkpoint, or the key, was kept where the record's files are not.

mod kept;
mod key;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tool::{Digest, Wall};

use crate::chain::Checkpoint;

pub use kept::Seals;
pub use key::{BadKey, RecordKey, VerifyKey};

/// The largest note that is read, in bytes.
pub(crate) const NOTE: u64 = 4 << 10;
/// What stands before a signature.
const DASH: &str = "\u{2014} ";

/// Why a text is no checkpoint of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadNote {
    /// It does not read as one.
    #[error("this is no signed checkpoint: {0}")]
    Form(&'static str),
    /// No signature of this key is on it.
    #[error("no signature of the key `{0}` is on it")]
    Unsigned(String),
    /// The signature does not hold.
    #[error(
        "the signature of the key `{0}` does not hold: the text was changed, or another key signed it"
    )]
    Signature(String),
}

/// The name of a writer's key and log.
pub(crate) fn origin(installation: &str, writer: &str) -> String {
    format!("toolkeep/{installation}/{writer}")
}

/// A checkpoint that was read from a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// What it says; without the roots of subtrees.
    pub checkpoint: Checkpoint,
    /// Its first line.
    pub origin: String,
}

impl RecordKey {
    /// The checkpoint as a signed note.
    pub fn note(&self, checkpoint: &Checkpoint) -> String {
        let origin = origin(&self.installation(), &checkpoint.writer);
        let text = format!(
            "{origin}\n{}\n{}\nchain {}\nthrough {}\nat {}\n",
            checkpoint.count,
            BASE64.encode(checkpoint.root.0),
            checkpoint.head,
            checkpoint.through,
            checkpoint.at.0,
        );
        self.signed(&origin, &text)
    }

    /// `text`, which ends a line, as a signed note.
    pub(crate) fn signed(&self, name: &str, text: &str) -> String {
        let mut signature = self.verify_key(name).id().to_vec();
        signature.extend(self.sign(text.as_bytes()));
        format!("{text}\n{DASH}{name} {}\n", BASE64.encode(signature))
    }
}

impl VerifyKey {
    /// The text of a note, where a signature of this key is on it and holds.
    ///
    /// # Errors
    /// Why not.
    pub fn opened<'a>(&self, note: &'a str) -> Result<&'a str, BadNote> {
        self.opened_up_to(note, NOTE)
    }

    /// The same of a note that may be `most` bytes long.
    pub(crate) fn opened_up_to<'a>(&self, note: &'a str, most: u64) -> Result<&'a str, BadNote> {
        if note.len() as u64 > most {
            return Err(BadNote::Form("it is too long"));
        }
        let (text, signatures) = note
            .rsplit_once("\n\n")
            .ok_or(BadNote::Form("no empty line stands before signatures"))?;
        let text = note
            .get(..=text.len())
            .ok_or(BadNote::Form("no empty line stands before signatures"))?;
        if !signatures.ends_with('\n') {
            return Err(BadNote::Form("its last line has no end"));
        }
        for line in signatures.lines() {
            let line =
                line.strip_prefix(DASH).ok_or(BadNote::Form("a signature's line is none"))?;
            let (name, encoded) =
                line.split_once(' ').ok_or(BadNote::Form("a signature has no name"))?;
            let bytes = BASE64.decode(encoded);
            let bytes = bytes.map_err(|_| BadNote::Form("a signature is no base64"))?;
            let Some((id, signature)) = bytes.split_at_checked(4) else {
                return Err(BadNote::Form("a signature is too short"));
            };
            // Signatures of others stand beside ours, as the format has it.
            if name == self.name() && id == self.id() {
                let holds = self.holds(text.as_bytes(), signature);
                return holds.then_some(text).ok_or_else(|| BadNote::Signature(self.to_string()));
            }
        }
        Err(BadNote::Unsigned(self.to_string()))
    }

    /// The checkpoint in a note.
    ///
    /// # Errors
    /// Where it is none, or not signed by this key.
    pub fn checkpoint(&self, note: &str) -> Result<Noted, BadNote> {
        let noted = unproved(self.opened(note)?)?;
        // The key's name says of which log it may speak.
        if noted.origin == self.name() {
            Ok(noted)
        } else {
            Err(BadNote::Form("it is of another log"))
        }
    }
}

/// What a note says, whoever says it.
///
/// # Errors
/// Where it does not read as one.
pub fn unproved(note: &str) -> Result<Noted, BadNote> {
    let bad = BadNote::Form;
    let mut lines = note.lines();
    let origin = lines.next().filter(|line| !line.is_empty()).ok_or(bad("it has no origin"))?;
    let writer = origin.rsplit_once('/').map(|(_, writer)| writer);
    let writer = writer.filter(|_| origin.starts_with("toolkeep/"));
    let writer = writer.ok_or(bad("its first line is no origin of Toolkeep's"))?;
    let count =
        lines.next().and_then(|line| line.parse().ok()).ok_or(bad("its size is no number"))?;
    let root = lines.next().and_then(|line| BASE64.decode(line).ok());
    let root = root.and_then(|root| root.try_into().ok()).ok_or(bad("its root is no hash"))?;
    let mut after = |word: &str| lines.next().and_then(|line| line.strip_prefix(word));
    let head = after("chain ").and_then(|text| text.parse::<Digest>().ok());
    let head = head.ok_or(bad("its chain is no hash"))?;
    let through = after("through ").and_then(|text| text.parse().ok());
    let through = through.ok_or(bad("it does not say through which record it goes"))?;
    let at = after("at ").and_then(|text| text.parse().ok()).ok_or(bad("it has no time"))?;
    let checkpoint = Checkpoint {
        writer: writer.to_owned(),
        count,
        through,
        head,
        root: Digest(root),
        peaks: Vec::new(),
        at: Wall(at),
    };
    Ok(Noted { checkpoint, origin: origin.to_owned() })
}

/// The notes in a file that holds several, one behind the other.
pub fn notes(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches('\n');
        let signatures = rest.find("\n\n")? + 2;
        let tail = rest.get(signatures..)?;
        let lines = tail.split_inclusive('\n').take_while(|line| line.starts_with(DASH));
        let end = signatures + lines.map(str::len).sum::<usize>();
        let note = rest.get(..end)?;
        rest = rest.get(end..)?;
        Some(note)
    })
}

#[cfg(test)]
mod tests;
