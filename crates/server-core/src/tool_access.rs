//! Access of keys to tools: the matrix under the active policy, and the changes that another policy
//! would make.

mod key_selection;
mod policy_comparison;

use std::sync::Arc;

use catalog::CatalogEntry;
use gateway::CatalogView;
use identity::{KeyRecord, KeyRing, Principal, Right, RightsClass};
use policy::{DecisionReason, PolicyChange, ToolAccess, ToolAccessKind, ToolFacts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{CallerType, ErrorCode, Org, WallTime};

use crate::authorization_checks::require_right;
use crate::decision_explanation::resolve_key;
use crate::error::ApiError;
use crate::page_query::{cut_page, run_blocking};
use crate::query_string::check_limit;
use crate::server_state::ServerState;
use key_selection::KeySelection;
use policy_comparison::{KeysByClass, PolicyComparison};

/// Maximum number of keys of a matrix.
pub const MAX_MATRIX_KEYS: usize = 8;
/// Maximum and default number of tools per page.
const MAX_PAGE_SIZE: usize = 200;
/// Maximum number of decisions that a comparison of policies makes.
const MAX_COMPARISONS: usize = 1_000_000;
/// Maximum size of a policy that is compared, in bytes.
const MAX_POLICY_BYTES: usize = 256 << 10;
/// Maximum number of changes that a comparison returns.
const MAX_CHANGES: usize = 500;
/// Maximum number of keys that an entry names.
const MAX_NAMED_KEYS: usize = 20;

/// The requested part of the matrix.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessMatrixQuery {
    /// IDs of keys, separated by commas; one key of each combination of rights if absent.
    pub keys: Option<String>,
    /// Only tools whose name contains this text.
    pub tool: Option<String>,
    /// Number of tools per page.
    pub limit: Option<usize>,
    /// Name after which the page begins.
    pub after: Option<String>,
}

/// A page of the matrix.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessMatrixReply {
    /// The keys, in the order of each tool's `access`.
    pub keys: Vec<AccessKeyReply>,
    /// Tools in alphabetical order.
    pub tools: Vec<ToolAccessReply>,
    /// Value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

/// A key of the matrix.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AccessKeyReply {
    /// ID of the key.
    pub id: String,
    /// User that the key stands for.
    pub subject: String,
    /// Level of the key.
    pub level: String,
    /// Roles of the key.
    pub roles: Vec<String>,
}

/// The access of the keys to one tool.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolAccessReply {
    /// Name of the tool.
    pub tool: String,
    /// Source of the tool.
    pub source: String,
    /// Access of each key.
    pub access: Vec<AccessReply>,
}

/// The access of a key to a tool, without the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct AccessReply {
    /// Decision: `allow`; `hold` (each call needs an approval); `deny`; `conditional` (rules decide
    /// each call); `hidden` (the tool does not exist for this key).
    pub decision: &'static str,
    /// Reason code.
    pub reason: &'static str,
    /// Names of the rules that decide each call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

impl From<&ToolAccess> for AccessReply {
    fn from(access: &ToolAccess) -> Self {
        Self {
            decision: access.kind.as_str(),
            reason: access.reason.as_str(),
            rules: access.rule_names().into_iter().map(str::to_owned).collect(),
        }
    }
}

impl AccessReply {
    /// The access to a tool that is not in the toolset of the key.
    fn outside_toolset() -> Self {
        let reason = DecisionReason::Unknown.as_str();
        Self { decision: ToolAccessKind::Hidden.as_str(), reason, rules: Vec::new() }
    }
}

/// A policy to compare with the active one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPreviewBody {
    /// The policy as the configuration file states it: the value of its key `policy`, or a text with
    /// this key. Variables are not expanded.
    pub policy: String,
}

/// The changes that a policy would make.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PolicyPreviewReply {
    /// SHA-256 of the compared policy, as in records.
    pub policy: String,
    /// SHA-256 of the active policy.
    pub active: String,
    /// Changed rules: `path`, `was` and `is`.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub rules: Vec<PolicyChange>,
    /// Number of valid keys whose access was compared.
    pub keys: usize,
    /// Number of tools whose access was compared.
    pub tools: usize,
    /// Changes of access, by tool.
    pub changes: Vec<AccessChangeReply>,
    /// Number of further changes.
    pub more: usize,
    /// Whether all keys and tools were compared: the work is bounded.
    pub complete: bool,
}

/// A change of access to one tool.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessChangeReply {
    /// Name of the tool.
    pub tool: String,
    /// Source of the tool.
    pub source: String,
    /// Access under the active policy.
    #[serde(rename = "was")]
    pub before: AccessReply,
    /// Access under the compared policy.
    #[serde(rename = "is")]
    pub after: AccessReply,
    /// Keys with this change, at most 20.
    pub keys: Vec<AccessKeyReply>,
    /// Number of all keys with this change.
    pub key_count: usize,
}

/// Lists the access of keys to tools under the active policy.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; [`ErrorCode::NotFound`] for an unknown key;
/// [`ErrorCode::InvalidRequest`] for too many keys or an invalid page.
pub async fn list_access(
    state: &ServerState,
    principal: &Principal,
    query: AccessMatrixQuery,
) -> Result<AccessMatrixReply, ApiError> {
    require_right(principal, Right::PolicyExplain)?;
    let limit = check_limit(query.limit, MAX_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let ids = query.keys.as_deref().filter(|keys| !keys.is_empty());
    let named = ids.map(|ids| named_keys(state, principal, ids)).transpose()?;
    let ring = state.components.keys.key_ring();
    let (now, asker) = (state.components.clock.wall_now(), principal.clone());
    let gateway = Arc::clone(&state.components.gateway);
    let view = gateway.view_for(principal, CallerType::Direct);
    run_blocking(move || {
        let keys = named.unwrap_or_else(|| distinct_keys(&ring, &asker, now));
        let wanted = query.tool.unwrap_or_default().to_lowercase();
        let after = query.after.unwrap_or_default();
        let mut tools: Vec<_> = visible_tools(&view, &asker)
            .filter(|entry| entry.name.as_str() > after.as_str())
            .filter(|entry| entry.name.as_str().to_lowercase().contains(&wanted))
            .collect();
        tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        tools.truncate(limit + 1);
        let policies: Vec<_> = keys
            .iter()
            .map(|(_, rights)| view.policy().for_class(rights, CallerType::Direct, now))
            .collect();
        let selections: Vec<_> =
            keys.iter().map(|(_, rights)| KeySelection::of_class(&gateway, rights)).collect();
        let mut tools: Vec<_> = tools
            .into_iter()
            .map(|entry| {
                let facts = ToolFacts::from_tool(&entry.tool_key, &entry.tool);
                let access = policies.iter().zip(&selections).map(|(policy, selection)| {
                    if selection.contains(entry) {
                        (&policy.tool_access(&facts)).into()
                    } else {
                        AccessReply::outside_toolset()
                    }
                });
                ToolAccessReply {
                    tool: entry.name.to_string(),
                    source: entry.tool_key.source.to_string(),
                    access: access.collect(),
                }
            })
            .collect();
        drop(policies);
        let next = cut_page(&mut tools, limit, |tool| &tool.tool);
        let keys = keys.into_iter().map(|(key, _)| key).collect();
        AccessMatrixReply { keys, tools, next }
    })
    .await
}

/// Compares the access under another policy with that under the active one, for all valid keys that
/// the principal may know. Nothing is changed.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; [`ErrorCode::InvalidConfig`] for a text that is no
/// policy; [`ErrorCode::NotFound`] without a configuration.
pub async fn preview_policy(
    state: &ServerState,
    principal: &Principal,
    body: PolicyPreviewBody,
) -> Result<PolicyPreviewReply, ApiError> {
    require_right(principal, Right::PolicyExplain)?;
    if body.policy.len() > MAX_POLICY_BYTES {
        let message = format!("`policy` has more than {} KiB", MAX_POLICY_BYTES >> 10);
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let configuration = state.components.require_configuration()?;
    let (asker, now) = (principal.clone(), state.components.clock.wall_now());
    let gateway = Arc::clone(&state.components.gateway);
    let view = gateway.view_for(principal, CallerType::Direct);
    let ring = state.components.keys.key_ring();
    run_blocking(move || {
        let policy = configuration.parse_policy(&body.policy).map_err(|errors| {
            let message = format!("the policy is not valid: {}", errors.join("; "));
            ApiError::new(ErrorCode::InvalidConfig, message)
        })?;
        let classes = keys_by_class(&ring, &asker, now);
        let comparison = PolicyComparison {
            gateway: &gateway,
            view: &view,
            policy: &policy,
            asker: &asker,
            now,
        };
        Ok(comparison.compare(&classes))
    })
    .await?
}

/// The tools that exist for the principal's organization.
fn visible_tools<'a>(
    view: &'a CatalogView,
    principal: &'a Principal,
) -> impl Iterator<Item = &'a std::sync::Arc<CatalogEntry>> {
    let is_own = |entry: &&std::sync::Arc<CatalogEntry>| {
        let org = &entry.tool_key.org;
        org == principal.org() || *org == Org::default() || *principal.org() == Org::default()
    };
    view.full_catalog().list_tools().filter(is_own)
}

fn named_keys(
    state: &ServerState,
    principal: &Principal,
    ids: &str,
) -> Result<Vec<(AccessKeyReply, RightsClass)>, ApiError> {
    let ids: Vec<_> = ids.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    if ids.len() > MAX_MATRIX_KEYS {
        let message =
            format!("`keys` names {} keys; at most {MAX_MATRIX_KEYS} are allowed", ids.len());
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let read = |id: &str| {
        let key = resolve_key(state, principal, id)?;
        Ok((access_key(&key), key.rights_class().clone()))
    };
    ids.into_iter().map(read).collect()
}

/// One key of each combination of rights, the principal's own first.
fn distinct_keys(
    ring: &KeyRing,
    principal: &Principal,
    now: WallTime,
) -> Vec<(AccessKeyReply, RightsClass)> {
    let mut found = vec![(access_key(principal), principal.rights_class().clone())];
    for key in valid_keys(ring, principal, now) {
        if found.len() >= MAX_MATRIX_KEYS {
            break;
        }
        if found.iter().all(|(_, rights)| rights != key.rights_class()) {
            found.push((access_key(key), key.rights_class().clone()));
        }
    }
    found
}

fn keys_by_class(ring: &KeyRing, principal: &Principal, now: WallTime) -> KeysByClass {
    let mut classes = KeysByClass::new();
    for key in valid_keys(ring, principal, now) {
        classes.entry(key.rights_class().clone()).or_default().push(access_key(key));
    }
    classes
}

/// The valid keys of the principal's organization, by ID.
fn valid_keys<'a>(
    ring: &'a KeyRing,
    principal: &Principal,
    now: WallTime,
) -> impl Iterator<Item = &'a Principal> {
    let org = principal.org().clone();
    let is_valid = move |record: &&KeyRecord| {
        record.org == org && ring.invalid_reason(record.id.as_str(), now).is_none()
    };
    let records = ring.sorted_records().into_iter().filter(is_valid);
    records.filter_map(|record| ring.principal_of_key(record.id.as_str()))
}

fn access_key(key: &Principal) -> AccessKeyReply {
    AccessKeyReply {
        id: key.key_id().to_owned(),
        subject: key.subject().to_owned(),
        level: key.level().as_str().to_owned(),
        roles: key.rights_class().roles().iter().map(ToString::to_string).collect(),
    }
}
