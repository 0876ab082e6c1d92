//! Replacement of a result over the size limit: a preview and the artifact that holds the whole.
//!
//! MCP clients validate a result against the output schema of its tool, unless it is an error. So
//! the replacement for such a tool contains the complete structured content, if that is small
//! enough, or is an error.

use serde_json::{Value, json};
use tool::artefact::{ArtefactError, Artefacts, Kept, META};
use tool::{Body, Caller, Json, Outcome};

/// Number of preview characters.
const PREVIEW: usize = 2_000;
/// Maximum size of a replacement without its structured content in bytes: each preview character
/// can take 12.
const AROUND: usize = 32 << 10;

/// A result that is too large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargeAnswer<'a> {
    pub(crate) outcome: &'a Outcome,
    /// True if its tool has an output schema.
    pub(crate) has_schema: bool,
    /// Maximum size of a result in bytes.
    pub(crate) limit: usize,
}

impl LargeAnswer<'_> {
    /// Stores the whole result and returns its replacement.
    pub(crate) async fn kept(
        self,
        artefacts: &dyn Artefacts,
        owner: &Caller,
    ) -> Result<Outcome, ArtefactError> {
        let (Body::Value(whole) | Body::Mcp(whole)) = &self.outcome.body;
        let kept = artefacts.keep(owner, whole.bytes().clone()).await?;
        let preview: String = whole.as_str().chars().take(PREVIEW).collect();
        let is_error = self.outcome.is_error;
        Ok(Outcome { body: self.body(&kept, &preview), is_error })
    }

    fn body(self, kept: &Kept, preview: &str) -> Body {
        let artefact =
            json!({"id": kept.id, "bytes": kept.bytes, "expires": kept.expires.to_string()});
        match &self.outcome.body {
            Body::Value(_) if !self.has_schema => {
                let rest = rest(kept);
                Body::Value(Json::of(
                    &json!({"artefact": artefact, "preview": preview, "rest": rest}),
                ))
            }
            Body::Value(_) => Body::Mcp(self.without_structure(kept, (preview, &artefact))),
            Body::Mcp(whole) => {
                let structured = whole.get("structuredContent").filter(|_| self.has_schema);
                let fits = |it: &Json| it.bytes().len().saturating_add(AROUND) <= self.limit;
                match structured.filter(fits) {
                    Some(structured) => {
                        let texts = [preview, &rest(kept)];
                        let result = result(texts, self.outcome.is_error, &artefact);
                        Body::Mcp(result.with("structuredContent", &structured))
                    }
                    None => Body::Mcp(self.without_structure(kept, (preview, &artefact))),
                }
            }
        }
    }

    fn without_structure(self, kept: &Kept, (preview, artefact): (&str, &Value)) -> Json {
        if !self.has_schema || self.outcome.is_error {
            return result([preview, &rest(kept)], self.outcome.is_error, artefact);
        }
        let told = format!(
            "the tool ran and succeeded; do not call it again for this. Its answer is above the limit of {} bytes \
             (`limits.result_bytes`), so that its structured content is left out; {}",
            self.limit,
            rest(kept)
        );
        result([preview, &told], true, artefact)
    }
}

fn rest(Kept { id, bytes, expires }: &Kept) -> String {
    format!(
        "the whole answer has {bytes} bytes and is kept until {expires}: read it with the tool `read_artefact` \
         or `search_artefact`, or at /v1/artefacts/{id}"
    )
}

/// Builds an MCP result.
fn result([preview, rest]: [&str; 2], is_error: bool, artefact: &Value) -> Json {
    Json::of(&json!({
        "content": [{"type": "text", "text": preview}, {"type": "text", "text": rest}],
        "isError": is_error,
        "_meta": {META: artefact},
    }))
}
