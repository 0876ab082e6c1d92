//! `/v1/explain`: the policy's decision for a call that is not executed, with its reasons.

use std::borrow::Cow;

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::{Narrowing, Principal, Right};
use policy::Explanation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Args, CallerType, Code, Json};

use server_core::body::Body;
use server_core::context;
use server_core::error::ApiError;
use server_core::route::Route;
use server_core::state::Doors;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("post", "/v1/explain", "What would become of a call, and why", post(explain))
            .body::<Asked>()
            .reply::<Explained>(),
    ]
}

/// A call that is only thought of.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// The tool's name, or its alias.
    tool: String,
    /// Its arguments; `{}` where absent.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[serde(default)]
    arguments: Option<Json>,
    /// Id of the key that would call; your own where absent. Another's needs the right
    /// `policy:explain`.
    #[serde(default, rename = "as")]
    key: Option<String>,
    /// Whether a program would call, in a chain.
    #[serde(default)]
    chain: bool,
    /// Whether only tools without effects are left.
    #[serde(default)]
    read_only: bool,
    /// Whether no tool is left that reaches the network.
    #[serde(default)]
    no_web: bool,
    /// The kind of task.
    #[serde(default)]
    task_type: Option<String>,
}

/// What would become of it.
#[derive(Debug, Serialize, JsonSchema)]
struct Explained {
    /// The tool.
    tool: String,
    /// Id of the key.
    key: String,
    /// `allow`; `hold`: it needs an approval; `deny`: it is refused; `hidden`: to this key there is no
    /// such tool.
    decision: &'static str,
    /// Why, as a code.
    reason: &'static str,
    /// Why, in words.
    text: Cow<'static, str>,
    /// The layer that decided. This and what follows is told with the right `policy:explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<String>,
    /// The rule in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Where the rule stands in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PlaceReply>,
    /// What could not be worked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// What this key's calls have seen within the hour, as conditions ask for it: `untrusted`, `private`.
    taint: Vec<&'static str>,
    /// SHA-256 of the policy, as records name it.
    policy: String,
}

/// A place in a file.
#[derive(Debug, Serialize, JsonSchema)]
struct PlaceReply {
    line: usize,
    column: usize,
}

async fn explain(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(asked): Body<Asked>,
) -> Result<Reply<Explained>, ApiError> {
    let may = principal.may(Right::PolicyExplain);
    let by = if asked.chain { CallerType::Chain } else { CallerType::Direct };
    let narrowing =
        Narrowing { read_only: asked.read_only, no_web: asked.no_web, task_type: asked.task_type };
    let who = match asked.key.as_deref().filter(|key| *key != principal.key()) {
        None => principal.clone(),
        Some(key) if may => another(&doors, &principal, key)?,
        Some(_) => {
            let remedy = Right::PolicyExplain.remedy();
            let error = ApiError::lacks(Right::PolicyExplain);
            return Err(error.fix(format!("leave `as` out, or {remedy}")));
        }
    };
    let who = context::apply(&doors, &who, &narrowing)?;
    let gateway = &doors.parts.gateway;
    let view = gateway.view(&who, by);
    let tool = doors.lists.native(&view, &asked.tool);
    let args = Args::from_json(asked.arguments.unwrap_or_else(Json::empty));
    let args = args
        .map_err(|error| ApiError::new(Code::InvalidRequest, format!("the arguments: {error}")))?;
    let seen = may || view.find(&tool).is_some();
    let told = seen.then(|| gateway.explain(&view, (&who, by), &tool, &args)).flatten();
    let mut told = told.unwrap_or_else(Explanation::unknown);
    if !may {
        told = Explanation::new(told.decision, told.reason);
    }
    let policy = view.policy().to_string();
    let taint = gateway.taint(&who).words();
    let place = told.place.map(|at| PlaceReply { line: at.line, column: at.column });
    let (decision, reason, text) = (told.decision, told.reason.as_str(), told.text);
    let (layer, rule, fault, key) = (told.layer, told.rule, told.fault, who.key().to_owned());
    let told =
        Explained { tool, key, decision, reason, text, layer, rule, place, fault, taint, policy };
    Ok(Reply(told))
}

/// Finds another key of the requester's organization; the default organization may name any key.
fn another(doors: &Doors, asker: &Principal, key: &str) -> Result<Principal, ApiError> {
    let ring = doors.parts.keys.ring();
    let shown: String = key.chars().take(64).collect();
    let missing = || ApiError::new(Code::NotFound, format!("no key `{}`", shown.escape_debug()));
    let record = ring.get(key).ok_or_else(missing)?;
    if record.org != *asker.org() && *asker.org() != tool::Org::default() {
        return Err(missing());
    }
    let now = doors.parts.clock.wall();
    if record.revoked.is_some() || record.expires.is_some_and(|expires| expires <= now) {
        let told = format!("the key `{}` does not hold any more", shown.escape_debug());
        return Err(ApiError::new(Code::Conflict, told));
    }
    ring.principal(key).cloned().ok_or_else(missing)
}
