//! `/v1/explain`: the policy's decision for a call that is not executed, with its reasons.

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::{Principal, RequestRestrictions};
use schemars::JsonSchema;
use serde::Deserialize;
use tool::Json;

use server_core::body::DecodedBody;
use server_core::decision_explanation::{self, ExplainReply, HypotheticalCall};
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "post",
            "/v1/explain",
            "Explain the policy's decision on a call",
            post(explain_call),
        )
        .with_body::<ExplainBody>()
        .with_reply::<ExplainReply>(),
    ]
}

/// A hypothetical call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExplainBody {
    /// Name or alias of the tool.
    tool: String,
    /// Arguments of the call; `{}` if absent.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[serde(default)]
    arguments: Option<Json>,
    /// ID of the calling key; your own if absent. Another key requires the right `policy:explain`.
    #[serde(default, rename = "as")]
    key: Option<String>,
    /// Whether a program makes the call.
    #[serde(default)]
    #[serde(rename = "chain")]
    is_chained: bool,
    /// Whether tools with side effects are excluded.
    #[serde(default)]
    read_only: bool,
    /// Whether tools that reach the network are excluded.
    #[serde(default)]
    no_web: bool,
    /// Task type of the call.
    #[serde(default)]
    task_type: Option<String>,
}

async fn explain_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<ExplainBody>,
) -> Result<Reply<ExplainReply>, ApiError> {
    let restrictions = RequestRestrictions {
        is_read_only: body.read_only,
        denies_network: body.no_web,
        task_type: body.task_type,
        ..RequestRestrictions::default()
    };
    let call = HypotheticalCall {
        tool: body.tool,
        arguments: body.arguments,
        key: body.key,
        is_chained: body.is_chained,
        restrictions,
    };
    decision_explanation::explain_call(&state, &principal, call).map(Reply)
}
