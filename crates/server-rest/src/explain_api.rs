//! `/v1/explain`: the policy's decision for a call that is not executed, with its reasons.

use std::borrow::Cow;

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::{Principal, RequestRestrictions, Right};
use policy::DecisionExplanation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{CallArguments, CallerType, ErrorCode, Json};

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::request_restrictions;
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

/// The policy's decision on a call.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainReply {
    /// Name of the tool.
    tool: String,
    /// ID of the key.
    key: String,
    /// Decision: `allow`; `hold` (needs approval); `deny`; `hidden` (the tool does not exist for
    /// this key).
    decision: &'static str,
    /// Reason code.
    reason: &'static str,
    /// Reason for people.
    text: Cow<'static, str>,
    /// Policy layer that decided. This and the following fields require the right `policy:explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<String>,
    /// Rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Location of the rule in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "place")]
    position: Option<SourcePositionReply>,
    /// Error in the evaluation of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "fault")]
    evaluation_error: Option<String>,
    /// Data that this key's calls received within the last hour, as used in conditions:
    /// `untrusted`, `private`.
    taint: Vec<&'static str>,
    /// SHA-256 of the policy, as in records.
    policy: String,
}

/// A location in a file.
#[derive(Debug, Serialize, JsonSchema)]
struct SourcePositionReply {
    line: usize,
    column: usize,
}

async fn explain_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<ExplainBody>,
) -> Result<Reply<ExplainReply>, ApiError> {
    let may = principal.has_right(Right::PolicyExplain);
    let by = if body.is_chained { CallerType::Chain } else { CallerType::Direct };
    let narrowing = RequestRestrictions {
        is_read_only: body.read_only,
        denies_network: body.no_web,
        task_type: body.task_type,
    };
    let subject_principal = match body.key.as_deref().filter(|key| *key != principal.key_id()) {
        None => principal.clone(),
        Some(key) if may => resolve_key(&state, &principal, key)?,
        Some(_) => {
            let remedy = Right::PolicyExplain.remedy();
            let error = ApiError::missing_right(Right::PolicyExplain);
            return Err(error.with_help(format!("omit `as`, or {remedy}")));
        }
    };
    let who = request_restrictions::apply_restrictions(&state, &subject_principal, &narrowing)?;
    let gateway = &state.components.gateway;
    let view = gateway.view_for(&who, by);
    let tool = state.tool_lists.resolve_tool_name(&view, &body.tool);
    let args = CallArguments::from_json(body.arguments.unwrap_or_else(Json::empty_object));
    let args = args.map_err(|error| {
        ApiError::new(ErrorCode::InvalidRequest, format!("the arguments: {error}"))
    })?;
    let seen = may || view.find_tool(&tool).is_some();
    let explanation =
        seen.then(|| gateway.explain_decision(&view, (&who, by), &tool, &args)).flatten();
    let mut told = explanation.unwrap_or_else(DecisionExplanation::unknown_tool);
    if !may {
        told = DecisionExplanation::new(told.decision, told.reason);
    }
    let policy = view.policy_digest().to_string();
    let taint = gateway.caller_taint(&who).names();
    let place = told.position.map(|at| SourcePositionReply { line: at.line, column: at.column });
    let (decision, reason, text) = (told.decision, told.reason.as_str(), told.reason_text);
    let (layer, rule, fault, key) =
        (told.layer, told.rule, told.evaluation_error, who.key_id().to_owned());
    let told = ExplainReply {
        tool,
        key,
        decision,
        reason,
        text,
        layer,
        rule,
        position: place,
        evaluation_error: fault,
        taint,
        policy,
    };
    Ok(Reply(told))
}

/// Finds another key of the requester's organization; the default organization may name any key.
fn resolve_key(state: &ServerState, asker: &Principal, key: &str) -> Result<Principal, ApiError> {
    let ring = state.components.keys.key_ring();
    let shown: String = key.chars().take(64).collect();
    let missing =
        || ApiError::new(ErrorCode::NotFound, format!("no key `{}`", shown.escape_debug()));
    let record = ring.find_record(key).ok_or_else(missing)?;
    if record.org != *asker.org() && *asker.org() != tool::Org::default() {
        return Err(missing());
    }
    let now = state.components.clock.wall_now();
    if record.revoked_at.is_some() || record.expires_at.is_some_and(|expires| expires <= now) {
        let message = format!("the key `{}` is no longer valid", shown.escape_debug());
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    ring.principal_of_key(key).cloned().ok_or_else(missing)
}
