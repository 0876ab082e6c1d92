//! Images in results: MCP image content, and an artifact if a store is available.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use tool::artefact::Kept;

/// A picture.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) bytes: Bytes,
    /// Its kind, such as `image/png`.
    pub(crate) mime: &'static str,
}

/// MCP's result: what the picture shows in words, and the picture itself.
pub(crate) fn result(value: Value, picture: &Picture, kept: Option<&Kept>) -> Value {
    let mut value = value;
    if let (Some(object), Some(kept)) = (value.as_object_mut(), kept) {
        let artefact = json!({
            "id": kept.id, "bytes": kept.bytes, "expires": kept.expires.to_string(),
            "url": format!("/v1/artefacts/{}", kept.id),
        });
        object.insert("artefact".to_owned(), artefact);
    }
    json!({
        "content": [
            { "type": "text", "text": value.to_string() },
            { "type": "image", "data": STANDARD.encode(&picture.bytes), "mimeType": picture.mime },
        ],
        "structuredContent": value,
        "isError": false,
    })
}
