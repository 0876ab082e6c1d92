//! What is given instead of an answer that is too large: its beginning, and where the rest is.

use serde_json::json;
use tool::artefact::{ArtefactError, Artefacts};
use tool::{Body, Caller, Json, Outcome};

/// Characters of the beginning.
const PREVIEW: usize = 2_000;

/// Keeps the whole, and makes what stands for it.
pub(crate) async fn large(
    artefacts: &dyn Artefacts,
    owner: &Caller,
    outcome: &Outcome,
) -> Result<Outcome, ArtefactError> {
    let (Body::Value(whole) | Body::Mcp(whole)) = &outcome.body;
    let kept = artefacts.keep(owner, whole.bytes().clone()).await?;
    let preview: String = whole.as_str().chars().take(PREVIEW).collect();
    let (id, bytes, expires) = (&kept.id, kept.bytes, kept.expires.to_string());
    let rest = format!(
        "the whole answer has {bytes} bytes and is kept until {expires}: read it with the tool `read_artefact` \
         or `search_artefact`, or at /v1/artefacts/{id}"
    );
    let artefact = json!({"id": id, "bytes": bytes, "expires": expires});
    let body = match &outcome.body {
        Body::Value(_) => {
            Body::Value(Json::of(&json!({"artefact": artefact, "preview": preview, "rest": rest})))
        }
        Body::Mcp(_) => Body::Mcp(Json::of(&json!({
            "content": [{"type": "text", "text": preview}, {"type": "text", "text": rest}],
            "isError": outcome.is_error,
            "_meta": {"toolkeep/artefact": artefact},
        }))),
    };
    Ok(Outcome { body, is_error: outcome.is_error })
}
