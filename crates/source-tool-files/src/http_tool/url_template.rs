//! URL template with parameters in its path.

use std::collections::HashSet;

use serde_json::{Map, Value};
use tool::Json;
use url::form_urlencoded;

use crate::field_reader::{EntryError, EntryResult, escape_word};

/// Maximum parameters of one URL.
const MAX_PARAMETERS: usize = 16;

/// URL split at its parameters.
#[derive(Debug)]
pub(super) struct UrlTemplate {
    segments: Vec<UrlSegment>,
    /// URL with `x` for each parameter, to be validated before any call.
    sample_url: String,
}

/// Part of a URL template.
#[derive(Debug)]
struct UrlSegment {
    literal: String,
    /// Parameter that follows the literal; the last segment has none.
    parameter: Option<String>,
}

/// Returns the names of a schema's parameters.
pub(super) fn parameter_names(input_schema: &Json) -> HashSet<String> {
    let properties = input_schema.get("properties").map(|properties| properties.members());
    properties.into_iter().flatten().map(|(name, _)| name).collect()
}

impl UrlTemplate {
    /// Parses a template. Parameters must follow the host and must be required.
    pub(super) fn parse_template(url: &str, input_schema: &Json) -> EntryResult<Self> {
        let template_error = |why: String| EntryError::new(format!("`url`: {why}"));
        let (mut segments, mut base, mut rest) = (Vec::new(), String::new(), url);
        while let Some((text, remainder)) = rest.split_once('{') {
            let (name, after) = remainder.split_once('}').ok_or_else(|| {
                template_error("a `{` is not closed".to_owned())
                    .with_help("write a placeholder as `{parameter}`")
            })?;
            base.push_str(text);
            if base.matches('/').count() < 3 {
                return Err(template_error(
                    "a placeholder is only allowed after the host and a `/`".to_owned(),
                )
                .with_help("write a separate tool for each host"));
            }
            if base.contains(['?', '#']) {
                return Err(template_error(
                    "a placeholder is only allowed in the \
                    path"
                        .to_owned(),
                )
                .with_help(
                    "parameters that are not in the path are added to the query automatically",
                ));
            }
            base.push('x');
            segments
                .push(UrlSegment { literal: text.to_owned(), parameter: Some(name.to_owned()) });
            rest = after;
        }
        base.push_str(rest);
        segments.push(UrlSegment { literal: rest.to_owned(), parameter: None });
        if segments.len() > MAX_PARAMETERS {
            return Err(template_error(format!("more than {MAX_PARAMETERS} placeholders")));
        }
        let required: Vec<String> =
            input_schema.get("required").and_then(|names| names.decode().ok()).unwrap_or_default();
        let names = parameter_names(input_schema);
        for name in segments.iter().filter_map(|segment| segment.parameter.as_ref()) {
            let escaped_name = escape_word(name);
            if !names.contains(name) {
                return Err(template_error(format!("`{{{escaped_name}}}` is not a parameter"))
                    .with_help("use the names in `parameters.properties`"));
            }
            if !required.contains(name) {
                return Err(template_error(format!("`{{{escaped_name}}}` is optional"))
                    .with_help(format!("add `{escaped_name}` to `parameters.required`")));
            }
        }
        Ok(Self { segments, sample_url: base })
    }

    pub(super) fn sample_url(&self) -> &str {
        &self.sample_url
    }

    /// Returns whether the template contains this parameter.
    pub(super) fn has_parameter(&self, name: &str) -> bool {
        self.segments.iter().any(|segment| segment.parameter.as_deref() == Some(name))
    }

    /// Expands the URL of one request.
    pub(super) fn expand_url(
        &self,
        args: &Map<String, Value>,
        query: &[(String, String)],
    ) -> std::result::Result<String, String> {
        let mut url = String::with_capacity(self.sample_url.len() + 64);
        for UrlSegment { literal, parameter } in &self.segments {
            url.push_str(literal);
            let Some(name) = parameter else { continue };
            let value = args.get(name).map(value_to_string).unwrap_or_default();
            if value.is_empty() || value == "." || value == ".." {
                return Err(format!("`{name}`: `{value}` is not allowed in a URL"));
            }
            // Form encoding writes a blank as a plus, which is literal in a path.
            let encoded: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            url.push_str(&encoded.replace('+', "%20"));
        }
        if !query.is_empty() {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(
                &form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish(),
            );
        }
        Ok(url)
    }
}

/// Returns path and query of a URL, as written.
pub(super) fn path_and_query(url: &str) -> &str {
    url.match_indices('/').nth(2).and_then(|(at, _)| url.get(at..)).unwrap_or_default()
}

/// Returns the query pairs; a list repeats its name for each element.
pub(super) fn query_pairs<'v>(
    arguments: impl Iterator<Item = (&'v str, &'v Value)>,
) -> Vec<(String, String)> {
    let pair = |(name, value): (&str, &Value)| match value {
        Value::Array(values) => {
            values.iter().map(|value| (name.to_owned(), value_to_string(value))).collect()
        }
        value => vec![(name.to_owned(), value_to_string(value))],
    };
    arguments.flat_map(pair).collect()
}

/// Returns a string as it is, and any other value as JSON.
fn value_to_string(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
