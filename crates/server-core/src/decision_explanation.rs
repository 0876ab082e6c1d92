//! The policy's decision on a hypothetical call, for every interface that explains one.

use std::borrow::Cow;

use identity::{Principal, RequestRestrictions, Right};
use policy::DecisionExplanation;
use schemars::JsonSchema;
use serde::Serialize;
use tool::{CallArguments, CallerType, ErrorCode, Json};

use crate::error::ApiError;
use crate::request_restrictions;
use crate::server_state::ServerState;

/// A call that is not executed.
#[derive(Debug)]
pub struct HypotheticalCall {
    /// Name or alias of the tool.
    pub tool: String,
    /// Arguments of the call; `{}` if absent.
    pub arguments: Option<Json>,
    /// ID of the calling key; the requester's own if absent.
    pub key: Option<String>,
    /// Whether a program makes the call.
    pub is_chained: bool,
    /// Restrictions of the call.
    pub restrictions: RequestRestrictions,
}

/// The policy's decision on a call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExplainReply {
    /// Name of the tool.
    pub tool: String,
    /// ID of the key.
    pub key: String,
    /// Decision: `allow`; `hold` (needs approval); `deny`; `hidden` (the tool does not exist for
    /// this key).
    pub decision: &'static str,
    /// Reason code.
    pub reason: &'static str,
    /// Reason for people.
    pub text: Cow<'static, str>,
    /// Policy layer that decided. This and the following fields require the right `policy:explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Location of the rule in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "place")]
    pub position: Option<SourcePositionReply>,
    /// Error in the evaluation of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "fault")]
    pub evaluation_error: Option<String>,
    /// Data that this key's calls received within the last hour, as used in conditions:
    /// `untrusted`, `private`.
    pub taint: Vec<&'static str>,
    /// SHA-256 of the policy, as in records.
    pub policy: String,
}

/// A location in a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourcePositionReply {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// Explains the policy's decision on `call`. Another key, and the layer and rule that decided, require the right
/// `policy:explain`.
///
/// # Errors
/// The right is missing, the key is unknown or no longer valid, or the arguments are no object.
pub fn explain_call(
    state: &ServerState,
    principal: &Principal,
    call: HypotheticalCall,
) -> Result<ExplainReply, ApiError> {
    let may_explain = principal.has_right(Right::PolicyExplain);
    let caller_type = if call.is_chained { CallerType::Chain } else { CallerType::Direct };
    let subject = match call.key.as_deref().filter(|key| *key != principal.key_id()) {
        None => principal.clone(),
        Some(key) if may_explain => resolve_key(state, principal, key)?,
        Some(_) => {
            let remedy = Right::PolicyExplain.remedy();
            let error = ApiError::missing_right(Right::PolicyExplain);
            return Err(error.with_help(format!("omit `as`, or {remedy}")));
        }
    };
    let subject = request_restrictions::apply_restrictions(state, &subject, &call.restrictions)?;
    let gateway = &state.components.gateway;
    let view = gateway.view_for(&subject, caller_type);
    let tool = state.tool_lists.resolve_tool_name(&view, &call.tool);
    let arguments = CallArguments::from_json(call.arguments.unwrap_or_else(Json::empty_object));
    let arguments = arguments.map_err(|error| {
        ApiError::new(ErrorCode::InvalidRequest, format!("the arguments: {error}"))
    })?;
    let is_visible = may_explain || view.find_tool(&tool).is_some();
    let explained = is_visible
        .then(|| gateway.explain_decision(&view, (&subject, caller_type), &tool, &arguments))
        .flatten();
    let mut explained = explained.unwrap_or_else(DecisionExplanation::unknown_tool);
    if !may_explain {
        explained = DecisionExplanation::new(explained.decision, explained.reason);
    }
    let position = explained.position;
    Ok(ExplainReply {
        tool,
        key: subject.key_id().to_owned(),
        decision: explained.decision,
        reason: explained.reason.as_str(),
        text: explained.reason_text,
        layer: explained.layer,
        rule: explained.rule,
        position: position.map(|at| SourcePositionReply { line: at.line, column: at.column }),
        evaluation_error: explained.evaluation_error,
        taint: gateway.caller_taint(&subject).names(),
        policy: view.policy_digest().to_string(),
    })
}

/// Finds another key of the requester's organization; the default organization may name any key.
pub(crate) fn resolve_key(
    state: &ServerState,
    asker: &Principal,
    key: &str,
) -> Result<Principal, ApiError> {
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
