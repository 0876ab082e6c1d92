//! Restrictions that a caller applies to one of its own requests: `read_only`, `no_web`, `task_type`
//! and `toolset`.
//!
//! They are sent in the query or in headers of any interface, or beside the arguments if the body
//! of the interface allows it. They only restrict, so they require no right.

use std::borrow::Cow;

use axum::extract::Query;
use http::{HeaderMap, Uri};
use identity::{Principal, RequestRestrictions};
use tool::ErrorCode;

use crate::error::ApiError;
use crate::route::QueryParam;
use crate::server_state::ServerState;
use crate::toolset_management::no_such_toolset;

const READ_ONLY: &str = "read_only";
const NO_WEB: &str = "no_web";
const TASK_TYPE: &str = "task_type";
const TOOLSET: &str = "toolset";
/// The parameters with the equivalent headers.
const RESTRICTIONS: [(&str, &str); 4] = [
    (READ_ONLY, "toolkeep-read-only"),
    (NO_WEB, "toolkeep-no-web"),
    (TASK_TYPE, "toolkeep-task-type"),
    (TOOLSET, "toolkeep-toolset"),
];
/// Prefix of those headers.
const HEADER_PREFIX: &str = "toolkeep-";
/// Maximum length of a task type in characters.
const MAX_TASK_TYPE_CHARS: usize = 64;

/// OpenAPI description of the parameter `read_only`.
pub const READ_ONLY_PARAM: QueryParam = QueryParam {
    name: READ_ONLY,
    description: "true: exclude tools with side effects; also as the header Toolkeep-Read-Only",
    schema_type: "boolean",
};
/// OpenAPI description of the parameter `no_web`.
pub const NO_WEB_PARAM: QueryParam = QueryParam {
    name: NO_WEB,
    description: "true: exclude tools that reach the network; also as the header Toolkeep-No-Web",
    schema_type: "boolean",
};
/// OpenAPI description of the parameter `task_type`.
pub const TASK_TYPE_PARAM: QueryParam = QueryParam {
    name: TASK_TYPE,
    description: "task type: math, thinking, instruction_precision or one of the policy's; also as the \
           header Toolkeep-Task-Type",
    schema_type: "string",
};

/// OpenAPI description of the parameter `toolset`.
pub const TOOLSET_PARAM: QueryParam = QueryParam {
    name: TOOLSET,
    description: "name of a toolset, outside of which nothing exists for the request; also as the header \
           Toolkeep-Toolset",
    schema_type: "string",
};

/// Applies the restrictions of the request to the principal.
///
/// # Errors
/// Returns an error for an invalid value: ignoring a restriction would grant more than the caller
/// wanted.
pub fn restrict_from_request(
    state: &ServerState,
    principal: Principal,
    (headers, uri): (&HeaderMap, &Uri),
) -> Result<Principal, ApiError> {
    // Such headers are rare: one scan over the header names is cheaper than one lookup for each.
    let in_headers = headers.keys().any(|name| name.as_str().starts_with(HEADER_PREFIX));
    let query = uri.query().unwrap_or_default();
    if !in_headers && query.is_empty() {
        return Ok(principal);
    }
    let mut words = Vec::new();
    for (name, header) in RESTRICTIONS {
        for value in headers.get_all(header) {
            let text = value.to_str().map_err(|_| invalid_value(name))?;
            words.push((name.to_owned(), text.trim().to_owned()));
        }
    }
    // An invalid query is rejected by the route itself.
    if let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) {
        words.extend(pairs.into_iter().filter(|(name, _)| is_restriction_param(name)));
    }
    let mut narrowing = RequestRestrictions::default();
    for (name, word) in &words {
        parse_restriction(&mut narrowing, name, word)?;
    }
    apply_restrictions(state, &principal, &narrowing)
}

/// Applies restrictions that were parsed already.
///
/// # Errors
/// Returns an error for an unknown task type, and for a toolset that does not exist or is not granted.
pub fn apply_restrictions(
    state: &ServerState,
    principal: &Principal,
    restrictions: &RequestRestrictions,
) -> Result<Principal, ApiError> {
    if *restrictions == RequestRestrictions::default() {
        return Ok(principal.clone());
    }
    if let Some(task) = &restrictions.task_type {
        let policy = state.components.gateway.active_policy();
        if !policy.is_known_task_type(task) {
            let known: Vec<_> = policy.task_types().collect();
            let shown: String = task.chars().take(MAX_TASK_TYPE_CHARS).collect();
            let message = format!("unknown task type `{}`", shown.escape_debug());
            return Err(ApiError::new(ErrorCode::InvalidRequest, message)
                .with_help(format!("use one of {}", known.join(", "))));
        }
    }
    let narrowed = principal.with_restrictions(restrictions);
    let named = restrictions.toolsets.first();
    if let Some(name) =
        named.filter(|_| !state.components.gateway.may_use_toolset(narrowed.rights_class()))
    {
        return Err(no_such_toolset(name));
    }
    Ok(narrowed)
}

/// Removes these parameters from a URI, since the route rejects unknown ones.
pub(crate) fn strip_restriction_params(uri: &Uri) -> Cow<'_, Uri> {
    let of_ours = |part: &&str| is_restriction_param(part.split('=').next().unwrap_or_default());
    let query = uri.query().unwrap_or_default();
    if !query.split('&').any(|part| of_ours(&part)) {
        return Cow::Borrowed(uri);
    }
    let kept: Vec<_> = query.split('&').filter(|part| !of_ours(part)).collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    let text = format!("{}{mark}{}", uri.path(), kept.join("&"));
    text.parse().map_or(Cow::Borrowed(uri), Cow::Owned)
}

fn is_restriction_param(name: &str) -> bool {
    RESTRICTIONS.iter().any(|(known, _)| *known == name)
}

fn parse_restriction(
    narrowing: &mut RequestRestrictions,
    name: &str,
    word: &str,
) -> Result<(), ApiError> {
    let truth = || match word {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid_value(name)),
    };
    match name {
        READ_ONLY => narrowing.is_read_only |= truth()?,
        NO_WEB => narrowing.denies_network |= truth()?,
        TOOLSET => {
            if word.is_empty() {
                return Err(invalid_value(name));
            }
            narrowing.toolsets.insert(word.to_owned());
        }
        _ => {
            let other = narrowing.task_type.as_ref().is_some_and(|task| task != word);
            if other || word.is_empty() {
                return Err(invalid_value(name));
            }
            narrowing.task_type = Some(word.to_owned());
        }
    }
    Ok(())
}

fn invalid_value(name: &str) -> ApiError {
    let fix = match name {
        TASK_TYPE => "give one task type",
        TOOLSET => "give the name of a toolset",
        _ => "write `true` or `false`",
    };
    ApiError::new(
        ErrorCode::InvalidRequest,
        format!(
            "the header `{name}` contains invalid \
        characters"
        ),
    )
    .with_help(fix)
}

#[cfg(test)]
mod tests {
    use super::strip_restriction_params;

    #[test]
    fn the_other_parameters_stay_as_they_are() {
        for (given, left) in [
            ("/v1/tools", "/v1/tools"),
            ("/v1/tools?limit=3", "/v1/tools?limit=3"),
            ("/v1/tools?read_only=true", "/v1/tools"),
            ("/v1/tools?a=%26&no_web=true&b=c&task_type=math", "/v1/tools?a=%26&b=c"),
            ("/v1/tools?read%5fonly=true", "/v1/tools?read%5fonly=true"),
        ] {
            assert_eq!(strip_restriction_params(&given.parse().unwrap()).to_string(), left);
        }
    }
}
