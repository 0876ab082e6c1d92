//! Replacement of a result over the size limit: a preview and the artifact that holds the whole.
//!
//! MCP clients validate a result against the output schema of its tool, unless it is an error. So
//! the replacement for such a tool contains the complete structured content, if that is small
//! enough, or is an error.

use serde_json::{Value, json};
use tool::artifact::{ARTIFACT_META_KEY, ArtifactError, ArtifactStore, StoredArtifact};
use tool::{Caller, Json, Outcome, OutcomeBody};

/// Number of preview characters.
const PREVIEW_CHARS: usize = 2_000;
/// Maximum size of a replacement without its structured content in bytes: each preview character
/// can take 12.
const PLACEHOLDER_OVERHEAD_BYTES: usize = 32 << 10;

/// A result that is too large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargeResult<'a> {
    pub(crate) outcome: &'a Outcome,
    /// True if its tool has an output schema.
    pub(crate) has_schema: bool,
    /// Maximum size of a result in bytes.
    pub(crate) max_result_bytes: usize,
}

impl LargeResult<'_> {
    /// Stores the whole result and returns its replacement.
    pub(crate) async fn store_and_replace(
        self,
        artifacts: &dyn ArtifactStore,
        owner: &Caller,
    ) -> Result<Outcome, ArtifactError> {
        let (OutcomeBody::Value(whole) | OutcomeBody::Mcp(whole)) = &self.outcome.body;
        let kept = artifacts.store_artifact(owner, whole.bytes().clone()).await?;
        let preview: String = whole.as_str().chars().take(PREVIEW_CHARS).collect();
        let is_error = self.outcome.is_error;
        Ok(Outcome { body: self.replacement_body(&kept, &preview), is_error })
    }

    fn replacement_body(self, kept: &StoredArtifact, preview: &str) -> OutcomeBody {
        let artefact = json!({"id": kept.id, "bytes": kept.size_bytes, "expires": kept.expires_at.to_string()});
        match &self.outcome.body {
            OutcomeBody::Value(_) if !self.has_schema => {
                let rest = rest_text(kept);
                OutcomeBody::Value(Json::encode(
                    &json!({"artefact": artefact, "preview": preview, "rest": rest}),
                ))
            }
            OutcomeBody::Value(_) => {
                OutcomeBody::Mcp(self.text_only_result(kept, (preview, &artefact)))
            }
            OutcomeBody::Mcp(whole) => {
                let structured = whole.get("structuredContent").filter(|_| self.has_schema);
                let fits = |it: &Json| {
                    it.bytes().len().saturating_add(PLACEHOLDER_OVERHEAD_BYTES)
                        <= self.max_result_bytes
                };
                match structured.filter(fits) {
                    Some(structured) => {
                        let texts = [preview, &rest_text(kept)];
                        let result = mcp_result(texts, self.outcome.is_error, &artefact);
                        OutcomeBody::Mcp(result.with_member("structuredContent", &structured))
                    }
                    None => OutcomeBody::Mcp(self.text_only_result(kept, (preview, &artefact))),
                }
            }
        }
    }

    fn text_only_result(self, kept: &StoredArtifact, (preview, artefact): (&str, &Value)) -> Json {
        if !self.has_schema || self.outcome.is_error {
            return mcp_result([preview, &rest_text(kept)], self.outcome.is_error, artefact);
        }
        let told = format!(
            "the tool ran and succeeded; do not call it again for this. Its result exceeds the \
             limit of {} bytes (`limits.result_bytes`), so its structured content is omitted; {}",
            self.max_result_bytes,
            rest_text(kept)
        );
        mcp_result([preview, &told], true, artefact)
    }
}

fn rest_text(
    StoredArtifact { id, size_bytes: bytes, expires_at: expires }: &StoredArtifact,
) -> String {
    format!(
        "the full result has {bytes} bytes and is stored until {expires}: read it with the tool \
         `read_artefact` or `search_artefact`, or at /v1/artefacts/{id}"
    )
}

/// Builds an MCP result.
fn mcp_result([preview, rest]: [&str; 2], is_error: bool, artefact: &Value) -> Json {
    Json::encode(&json!({
        "content": [{"type": "text", "text": preview}, {"type": "text", "text": rest}],
        "isError": is_error,
        "_meta": {ARTIFACT_META_KEY: artefact},
    }))
}
