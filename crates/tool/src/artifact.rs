//! Defines the port to the artifact store: results too large to return inline, kept for a limited
//! time and readable only by their caller.

use std::fmt;

use bytes::Bytes;

use crate::{BoxFuture, Caller, Json, WallTime};

/// The member of an MCP result's `_meta` that names the artefact it stands for.
pub const ARTIFACT_META_KEY: &str = "toolkeep/artefact";
/// The longest MCP result that can stand for an artefact, in bytes.
const MAX_PLACEHOLDER_BYTES: usize = 64 << 10;

/// Returns an MCP result that stands for an artifact as one object with `artefact`, `preview` and
/// `rest`. `None` for any other result, and for one that has structured content.
pub fn artifact_preview(result: &Json) -> Option<Json> {
    if result.bytes().len() > MAX_PLACEHOLDER_BYTES || !result.as_str().contains(ARTIFACT_META_KEY)
    {
        return None;
    }
    let [meta, structured, content] = result.pick(["_meta", "structuredContent", "content"]);
    if structured.is_some() {
        return None;
    }
    let artefact = meta?.get(ARTIFACT_META_KEY)?;
    let [preview, rest] = <[Json; 2]>::try_from(content?.elements()).ok()?;
    let (preview, rest) = (preview.get("text")?, rest.get("text")?);
    Some(Json::object_from([("artefact", &artefact), ("preview", &preview), ("rest", &rest)]))
}

/// Stores large results. They are not part of the record: they expire, and end with the process.
pub trait ArtifactStore: Send + Sync + fmt::Debug {
    /// Stores a result for `owner` and evicts the oldest ones if the space is used up.
    ///
    /// # Errors
    /// [`ArtifactError::Unavailable`], also if the result is larger than the whole store.
    fn store_artifact<'a>(
        &'a self,
        owner: &'a Caller,
        body: Bytes,
    ) -> BoxFuture<'a, Result<StoredArtifact, ArtifactError>>;

    /// Reads a range of an artifact; the result ends with the artifact.
    ///
    /// # Errors
    /// [`ArtifactError::NotFound`] if it does not exist, has expired or belongs to another caller;
    /// the three cases look alike.
    fn read_chunk<'a>(
        &'a self,
        owner: &'a Caller,
        id: &'a str,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<ArtifactChunk, ArtifactError>>;
}

/// Range of bytes to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Largest number of bytes.
    pub max_bytes: usize,
}

/// Describes a stored artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArtifact {
    /// Identifier; cannot be guessed.
    pub id: String,
    /// Size of the artifact in bytes.
    pub size_bytes: u64,
    /// Time at which it expires.
    pub expires_at: WallTime,
}

/// A byte range of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactChunk {
    /// Bytes of this range.
    pub bytes: Bytes,
    /// Total size of the artifact in bytes.
    pub total_bytes: u64,
}

/// Errors of the artifact store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// The artifact does not exist, has expired or belongs to another caller.
    #[error("the artifact does not exist or has expired")]
    NotFound,
    /// The artifact cannot be stored or read.
    #[error("{0}")]
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::artifact_preview;
    use crate::Json;

    #[test]
    fn only_a_result_that_stands_for_an_artefact_is_read_as_one() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let result = json!({"content": [text("abc"), text("the rest")],
            "_meta": {"toolkeep/artefact": {"id": "art_1"}}});
        let preview = artifact_preview(&Json::encode(&result)).unwrap().to_value();
        assert_eq!(
            preview,
            json!({"artefact": {"id": "art_1"}, "preview": "abc", "rest": "the rest"})
        );
        for (key, value) in [
            ("structuredContent", json!({})),
            ("_meta", json!({})),
            ("content", json!([text("abc")])),
            ("pad", json!("x".repeat(64 << 10))),
        ] {
            let mut other = result.clone();
            other[key] = value;
            assert_eq!(artifact_preview(&Json::encode(&other)), None, "{key}");
        }
    }
}
