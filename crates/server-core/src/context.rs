//! Restrictions that a caller applies to one of its own requests: `read_only`, `no_web` and
//! `task_type`.
//!
//! They are sent in the query or in headers of any interface, or beside the arguments if the body
//! of the interface allows it. They only restrict, so they require no right.

use std::borrow::Cow;

use axum::extract::Query;
use http::{HeaderMap, Uri};
use identity::{Narrowing, Principal};
use tool::Code;

use crate::error::ApiError;
use crate::route::Param;
use crate::state::Doors;

const READ_ONLY: &str = "read_only";
const NO_WEB: &str = "no_web";
const TASK_TYPE: &str = "task_type";
/// The parameters with the equivalent headers.
const NAMES: [(&str, &str); 3] = [
    (READ_ONLY, "toolkeep-read-only"),
    (NO_WEB, "toolkeep-no-web"),
    (TASK_TYPE, "toolkeep-task-type"),
];
/// Prefix of those headers.
const OURS: &str = "toolkeep-";
/// Maximum length of a task type in characters.
const TASK: usize = 64;

/// OpenAPI description of the parameter `read_only`.
pub const READ_ONLY_PARAM: Param = Param {
    name: READ_ONLY,
    what: "true: only tools without effects; also as the header Toolkeep-Read-Only",
    kind: "boolean",
};
/// OpenAPI description of the parameter `no_web`.
pub const NO_WEB_PARAM: Param = Param {
    name: NO_WEB,
    what: "true: no tool that reaches the network; also as the header Toolkeep-No-Web",
    kind: "boolean",
};
/// OpenAPI description of the parameter `task_type`.
pub const TASK_TYPE_PARAM: Param = Param {
    name: TASK_TYPE,
    what: "the kind of task: math, thinking, instruction_precision or one of the policy's; also as the \
           header Toolkeep-Task-Type",
    kind: "string",
};

/// Applies the restrictions of the request to the principal.
///
/// # Errors
/// Returns an error for an invalid value: ignoring a restriction would grant more than the caller
/// wanted.
pub fn narrowed(
    doors: &Doors,
    principal: Principal,
    (headers, uri): (&HeaderMap, &Uri),
) -> Result<Principal, ApiError> {
    // Such headers are rare: one scan over the header names is cheaper than one lookup for each.
    let in_headers = headers.keys().any(|name| name.as_str().starts_with(OURS));
    let query = uri.query().unwrap_or_default();
    if !in_headers && query.is_empty() {
        return Ok(principal);
    }
    let mut words = Vec::new();
    for (name, header) in NAMES {
        for value in headers.get_all(header) {
            let text = value.to_str().map_err(|_| unreadable(name))?;
            words.push((name.to_owned(), text.trim().to_owned()));
        }
    }
    // An invalid query is rejected by the route itself.
    if let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) {
        words.extend(pairs.into_iter().filter(|(name, _)| known(name)));
    }
    let mut narrowing = Narrowing::default();
    for (name, word) in &words {
        add(&mut narrowing, name, word)?;
    }
    apply(doors, &principal, &narrowing)
}

/// Applies restrictions that were parsed already.
///
/// # Errors
/// Returns an error for an unknown task type.
pub fn apply(
    doors: &Doors,
    principal: &Principal,
    narrowing: &Narrowing,
) -> Result<Principal, ApiError> {
    if *narrowing == Narrowing::default() {
        return Ok(principal.clone());
    }
    if let Some(task) = &narrowing.task_type {
        let policy = doors.parts.gateway.policy();
        if !policy.knows_task(task) {
            let known: Vec<_> = policy.tasks().collect();
            let shown: String = task.chars().take(TASK).collect();
            let told = format!("unknown task type `{}`", shown.escape_debug());
            return Err(ApiError::new(Code::InvalidRequest, told)
                .fix(format!("use one of {}", known.join(", "))));
        }
    }
    Ok(principal.narrowed(narrowing))
}

/// Removes these parameters from a URI, since the route rejects unknown ones.
pub(crate) fn without(uri: &Uri) -> Cow<'_, Uri> {
    let of_ours = |part: &&str| known(part.split('=').next().unwrap_or_default());
    let query = uri.query().unwrap_or_default();
    if !query.split('&').any(|part| of_ours(&part)) {
        return Cow::Borrowed(uri);
    }
    let kept: Vec<_> = query.split('&').filter(|part| !of_ours(part)).collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    let text = format!("{}{mark}{}", uri.path(), kept.join("&"));
    text.parse().map_or(Cow::Borrowed(uri), Cow::Owned)
}

fn known(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

fn add(narrowing: &mut Narrowing, name: &str, word: &str) -> Result<(), ApiError> {
    let truth = || match word {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(unreadable(name)),
    };
    match name {
        READ_ONLY => narrowing.read_only |= truth()?,
        NO_WEB => narrowing.no_web |= truth()?,
        _ => {
            let other = narrowing.task_type.as_ref().is_some_and(|task| task != word);
            if other || word.is_empty() {
                return Err(unreadable(name));
            }
            narrowing.task_type = Some(word.to_owned());
        }
    }
    Ok(())
}

fn unreadable(name: &str) -> ApiError {
    let fix = match name {
        TASK_TYPE => "say one task type",
        _ => "say `true` or `false`",
    };
    ApiError::new(Code::InvalidRequest, format!("`{name}` cannot be read")).fix(fix)
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn the_other_parameters_stay_as_they_are() {
        for (given, left) in [
            ("/v1/tools", "/v1/tools"),
            ("/v1/tools?limit=3", "/v1/tools?limit=3"),
            ("/v1/tools?read_only=true", "/v1/tools"),
            ("/v1/tools?a=%26&no_web=true&b=c&task_type=math", "/v1/tools?a=%26&b=c"),
            ("/v1/tools?read%5fonly=true", "/v1/tools?read%5fonly=true"),
        ] {
            assert_eq!(without(&given.parse().unwrap()).to_string(), left);
        }
    }
}
