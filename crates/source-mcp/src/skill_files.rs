//! Verifies the files of skills: what a server sends has to be what its listed entry says.
//!
//! The entry is pinned, so a file that changes without its entry would otherwise bypass the review.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tool::{Digest, ErrorCode, ExecuteError, FastMap, Json, Skill, SkillFile};

/// Files of the skills of one listing, by their URIs. The executors of a listing have those of that
/// listing, so that what is read is what was shown and reviewed.
#[derive(Debug, Default)]
pub(super) struct SkillFiles(FastMap<Box<str>, SkillFile>);

impl SkillFiles {
    pub(super) fn from_skills<'a>(skills: impl Iterator<Item = &'a Skill>) -> Self {
        let files = skills.flat_map(|skill| skill.files.iter().flatten());
        Self(files.map(|file| (file.uri.as_str().into(), file.clone())).collect())
    }

    /// Verifies the content of a resource if it is a file of a skill.
    ///
    /// # Errors
    /// If size or digest are not those of the listed entry.
    pub(super) fn verify_content(&self, uri: &str, result: &Json) -> Result<(), ExecuteError> {
        let Some(file) = self.0.get(uri) else { return Ok(()) };
        let contents = result.get("contents").map(|list| list.elements()).unwrap_or_default();
        let matches = match contents.as_slice() {
            [content] => content_bytes(content).is_some_and(|bytes| is_content_of(file, &bytes)),
            _ => false,
        };
        if matches {
            return Ok(());
        }
        let message = "the file differs from the listed entry of its skill; refresh the source and \
            review what has changed";
        Err(ExecuteError::maybe_sent(ErrorCode::UpstreamFailed, message))
    }
}

fn is_content_of(file: &SkillFile, bytes: &[u8]) -> bool {
    u64::try_from(bytes.len()) == Ok(file.size)
        && Digest(Sha256::digest(bytes).into()) == file.digest
}

/// The bytes of a resource's content, which is a text or a blob.
fn content_bytes(content: &Json) -> Option<Vec<u8>> {
    match content.pick(["text", "blob"]) {
        [Some(text), None] => Some(text.string_value()?.as_bytes().to_vec()),
        [None, Some(blob)] => STANDARD.decode(blob.string_value()?.as_bytes()).ok(),
        _ => None,
    }
}
