//! Query strings: reading one into a type, and errors that name the parameter and the known ones.

use axum::extract::Query;
use http::Uri;
use serde::de::DeserializeOwned;

use crate::context;

/// Prefix that axum adds to query errors.
const LEAD: &str = "Failed to deserialize query string: ";
/// Characters of a parameter's name or value in an error.
const SHOWN: usize = 100;

/// Reads the query of an address, without the parameters that narrow a request.
///
/// # Errors
/// One sentence: the parameter, what is wrong, and for an unknown one which there are.
pub fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    match Query::<T>::try_from_uri(&context::without(uri)) {
        Ok(Query(params)) => Ok(params),
        Err(rejection) => Err(format!("the query: {}", sentence(&rejection.body_text()))),
    }
}

/// The library's words in ours. They are `PARAMETER: ERROR`, or the error alone.
fn sentence(text: &str) -> String {
    let text = text.strip_prefix(LEAD).unwrap_or(text);
    let (parameter, error) = match text.split_once(": ") {
        Some((parameter, error)) if !parameter.contains(['`', ' ']) => (Some(parameter), error),
        _ => (None, text),
    };
    if let Some((_, rest)) = text.split_once("unknown field `") {
        let (name, known) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        let name = name.strip_suffix("`, there are no fields").unwrap_or(name);
        return format!("unknown parameter `{}`; {}", shown(name), known_ones(known));
    }
    if let Some(name) = quoted(error, "duplicate field ") {
        return format!("the parameter `{}` is given twice", shown(name));
    }
    if let Some(name) = quoted(error, "missing field ") {
        return format!("the parameter `{}` is missing", shown(name));
    }
    let wrong = match error {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "is no whole number"
        }
        "number too large to fit in target type" => "is too large a number",
        "provided string was not `true` or `false`" => "is neither `true` nor `false`",
        other => {
            return parameter.map_or_else(
                || shown(other),
                |name| format!("`{}`: {}", shown(name), shown(other)),
            );
        }
    };
    parameter.map_or_else(|| wrong.to_owned(), |name| format!("`{}` {wrong}", shown(name)))
}

/// The parameters that a route has, of a list such as ``one of `a`, `b` ``.
fn known_ones(list: &str) -> String {
    let names: Vec<_> = list.split('`').skip(1).step_by(2).collect();
    match names.as_slice() {
        [] => "there are no parameters here".to_owned(),
        [only] => format!("the only one is `{only}`"),
        names => format!("use one of {}", names.join(", ")),
    }
}

fn quoted<'a>(error: &'a str, lead: &str) -> Option<&'a str> {
    error.strip_prefix(lead)?.strip_prefix('`')?.strip_suffix('`')
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::read;

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
        let three = |query: &str| read::<Three>(&format!("/x?{query}").parse().unwrap());
        assert!(three("limit=3&cursor=4&open=true&read_only=true").is_ok());
        for (query, expected) in [
            ("status=1", "unknown parameter `status`; use one of limit, cursor, open"),
            (
                "who%60%2C%20expected%20%60x=1",
                "unknown parameter `who`, expected `x`; use one of limit, cursor, open",
            ),
            ("limit=many", "`limit` is no whole number"),
            ("limit=-1", "`limit` is no whole number"),
            ("limit=", "`limit` is no whole number"),
            ("cursor=99999999999999999999999", "`cursor` is too large a number"),
            ("open=yes", "`open` is neither `true` nor `false`"),
            ("limit=1&limit=1", "the parameter `limit` is given twice"),
        ] {
            assert_eq!(three(query).unwrap_err(), format!("the query: {expected}"), "{query}");
        }
        let one = |query: &str| read::<One>(&format!("/x?{query}").parse().unwrap()).unwrap_err();
        assert_eq!(one("x=1"), "the query: unknown parameter `x`; the only one is `tag`");
        assert_eq!(one(""), "the query: the parameter `tag` is missing");
        let none = read::<Empty>(&"/x?y=1".parse().unwrap()).unwrap_err();
        assert_eq!(none, "the query: unknown parameter `y`; there are no parameters here");
    }
}
