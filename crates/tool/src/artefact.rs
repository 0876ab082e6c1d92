//! The port to answers that are too large to be given whole: kept for a while, for their caller alone.

use std::fmt;

use bytes::Bytes;

use crate::{Boxed, Caller, Json, Wall};

/// The member of an MCP result's `_meta` that names the artefact it stands for.
pub const META: &str = "toolkeep/artefact";
/// The longest MCP result that can stand for an artefact, in bytes.
const STAND_IN: usize = 64 << 10;

/// What an MCP result that stands for an artefact says, as one value: `artefact`, `preview`, `rest`. `None` for any other
/// result, and for one that has structured content.
pub fn preview_of(result: &Json) -> Option<Json> {
    if result.bytes().len() > STAND_IN || !result.as_str().contains(META) {
        return None;
    }
    let [meta, structured, content] = result.pick(["_meta", "structuredContent", "content"]);
    if structured.is_some() {
        return None;
    }
    let artefact = meta?.get(META)?;
    let [preview, rest] = <[Json; 2]>::try_from(content?.elements()).ok()?;
    let (preview, rest) = (preview.get("text")?, rest.get("text")?);
    Some(Json::fields([("artefact", &artefact), ("preview", &preview), ("rest", &rest)]))
}

/// Keeps large answers. They are no part of the record: they end by themselves, and with the process.
pub trait Artefacts: Send + Sync + fmt::Debug {
    /// Keeps an answer for `owner`; the oldest go where there is no room.
    ///
    /// # Errors
    /// [`ArtefactError::Unavailable`], also where it is larger than all the room there is.
    fn keep<'a>(&'a self, owner: &'a Caller, body: Bytes)
    -> Boxed<'a, Result<Kept, ArtefactError>>;

    /// A part of one, from a byte on, `most` bytes at the longest.
    ///
    /// # Errors
    /// [`ArtefactError::Missing`] where it is not there, is over, or is another's: one answer for all.
    fn read<'a>(
        &'a self,
        owner: &'a Caller,
        id: &'a str,
        range: (u64, usize),
    ) -> Boxed<'a, Result<Part, ArtefactError>>;
}

/// An answer that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Names it; cannot be guessed.
    pub id: String,
    /// Its length.
    pub bytes: u64,
    /// Until when.
    pub expires: Wall,
}

/// A part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The bytes.
    pub bytes: Bytes,
    /// Length of the whole.
    pub total: u64,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtefactError {
    /// Not there, over, or another's.
    #[error("there is no such artefact: it may be over")]
    Missing,
    /// It cannot be kept or read.
    #[error("{0}")]
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::preview_of;
    use crate::Json;

    #[test]
    fn only_a_result_that_stands_for_an_artefact_is_read_as_one() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let result = json!({"content": [text("abc"), text("the rest")],
            "_meta": {"toolkeep/artefact": {"id": "art_1"}}});
        let preview = preview_of(&Json::of(&result)).unwrap().value();
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
            assert_eq!(preview_of(&Json::of(&other)), None, "{key}");
        }
    }
}
