//! Query string parser: decodes a query into a type. Errors name the unknown parameter and the
//! known ones.

use axum::extract::Query;
use http::Uri;
use serde::de::DeserializeOwned;
use tool::ErrorCode;
use tool::display_text::truncate_and_escape_debug;

use crate::error::ApiError;
use crate::request_restrictions;

/// Prefix that axum adds to query errors.
const AXUM_ERROR_PREFIX: &str = "Failed to deserialize query string: ";
/// Characters of a parameter's name or value in an error.
const MAX_QUOTED_CHARS: usize = 100;

/// Parses the query of a URI, without the parameters that restrict a request.
///
/// # Errors
/// One sentence with the parameter, the problem, and for an unknown parameter the known ones.
pub fn parse_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    match Query::<T>::try_from_uri(&request_restrictions::strip_restriction_params(uri)) {
        Ok(Query(params)) => Ok(params),
        Err(rejection) => Err(format!("the query: {}", rephrase_error(&rejection.body_text()))),
    }
}

/// Returns the number of entries per page: the requested one, or `default` without one.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`] if the limit is zero or greater than `max`.
pub fn check_limit(
    requested: Option<usize>,
    default: usize,
    max: usize,
) -> Result<usize, ApiError> {
    let limit = requested.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("`limit` must be from 1 to {max}");
    Err(ApiError::new(ErrorCode::InvalidRequest, message))
}

/// The library's words in ours. They are `PARAMETER: ERROR`, or the error alone.
fn rephrase_error(text: &str) -> String {
    let text = text.strip_prefix(AXUM_ERROR_PREFIX).unwrap_or(text);
    let (parameter, error) = match text.split_once(": ") {
        Some((parameter, error)) if !parameter.contains(['`', ' ']) => (Some(parameter), error),
        _ => (None, text),
    };
    if let Some((_, rest)) = text.split_once("unknown field `") {
        let (name, known) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        let name = name.strip_suffix("`, there are no fields").unwrap_or(name);
        return format!("unknown parameter `{}`; {}", escape_input(name), list_parameters(known));
    }
    if let Some(name) = quoted_name(error, "duplicate field ") {
        return format!("the parameter `{}` is given twice", escape_input(name));
    }
    if let Some(name) = quoted_name(error, "missing field ") {
        return format!("the parameter `{}` is missing", escape_input(name));
    }
    let wrong = match error {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "is not a whole number"
        }
        "number too large to fit in target type" => "is too large",
        "provided string was not `true` or `false`" => "is neither `true` nor `false`",
        other => {
            return parameter.map_or_else(
                || escape_input(other),
                |name| format!("`{}`: {}", escape_input(name), escape_input(other)),
            );
        }
    };
    parameter.map_or_else(|| wrong.to_owned(), |name| format!("`{}` {wrong}", escape_input(name)))
}

/// The parameters that a route has, of a list such as ``one of `a`, `b` ``.
fn list_parameters(list: &str) -> String {
    let names: Vec<_> = list.split('`').skip(1).step_by(2).collect();
    match names.as_slice() {
        [] => "this route has no parameters".to_owned(),
        [only] => format!("the only parameter is `{only}`"),
        names => format!("use one of {}", names.join(", ")),
    }
}

fn quoted_name<'a>(error: &'a str, lead: &str) -> Option<&'a str> {
    error.strip_prefix(lead)?.strip_prefix('`')?.strip_suffix('`')
}

fn escape_input(text: &str) -> String {
    truncate_and_escape_debug(text, MAX_QUOTED_CHARS)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::parse_query;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Three {
        limit: Option<usize>,
        cursor: Option<u64>,
        open: bool,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it can be read counts")]
    struct One {
        tag: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Empty {}

    #[test]
    fn an_error_names_the_parameter_and_the_known_ones() {
        let three = |query: &str| parse_query::<Three>(&format!("/x?{query}").parse().unwrap());
        assert!(three("limit=3&cursor=4&open=true&read_only=true").is_ok());
        for (query, expected) in [
            ("status=1", "unknown parameter `status`; use one of limit, cursor, open"),
            (
                "who%60%2C%20expected%20%60x=1",
                "unknown parameter `who`, expected `x`; use one of limit, cursor, open",
            ),
            ("limit=many", "`limit` is not a whole number"),
            ("limit=-1", "`limit` is not a whole number"),
            ("limit=", "`limit` is not a whole number"),
            ("cursor=99999999999999999999999", "`cursor` is too large"),
            ("open=yes", "`open` is neither `true` nor `false`"),
            ("limit=1&limit=1", "the parameter `limit` is given twice"),
        ] {
            assert_eq!(three(query).unwrap_err(), format!("the query: {expected}"), "{query}");
        }
        let one =
            |query: &str| parse_query::<One>(&format!("/x?{query}").parse().unwrap()).unwrap_err();
        assert_eq!(one("x=1"), "the query: unknown parameter `x`; the only parameter is `tag`");
        assert_eq!(one(""), "the query: the parameter `tag` is missing");
        let none = parse_query::<Empty>(&"/x?y=1".parse().unwrap()).unwrap_err();
        assert_eq!(none, "the query: unknown parameter `y`; this route has no parameters");
    }
}
