//! Images in results: MCP image content, and an artifact if a store is available.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use tool::artifact::StoredArtifact;

/// Encoded image with its media type.
#[derive(Debug, Clone)]
pub(crate) struct EncodedImage {
    pub(crate) bytes: Bytes,
    /// Media type, such as `image/png`.
    pub(crate) media_type: &'static str,
}

/// Builds the MCP result: a description of the image, and the image itself.
pub(crate) fn image_result(
    value: Value,
    image: &EncodedImage,
    artifact: Option<&StoredArtifact>,
) -> Value {
    let mut value = value;
    if let (Some(object), Some(artifact)) = (value.as_object_mut(), artifact) {
        let artefact = json!({
            "id": artifact.id,
            "bytes": artifact.size_bytes,
            "expires": artifact.expires_at.to_string(),
            "url": format!("/v1/artefacts/{}", artifact.id),
        });
        object.insert("artefact".to_owned(), artefact);
    }
    json!({
        "content": [
            { "type": "text", "text": value.to_string() },
            {
                "type": "image",
                "data": STANDARD.encode(&image.bytes),
                "mimeType": image.media_type,
            },
        ],
        "structuredContent": value,
        "isError": false,
    })
}
