//! Mapping of an HTTP response to a value: its JSON, a JSONPath selection, or its text.

use bytes::Bytes;
use egress::EgressResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use serde_json_path::JsonPath;
use tool::{Json, JsonLimits};

use crate::field_reader::{EntryError, EntryFields, EntryResult};

/// Maximum characters of an error body that are shown.
const MAX_ERROR_CHARS: usize = 2_048;
/// Maximum bytes of a path.
const MAX_PATH_BYTES: usize = 1_024;

/// Mapping of responses to values.
#[derive(Debug)]
pub(super) struct ResponseMapping {
    response_path: Option<ResponsePath>,
}

/// Path that selects a part of a response.
#[derive(Debug)]
struct ResponsePath {
    /// The path as written, for messages.
    text: String,
    path: JsonPath,
}

/// Returns the media type of a response without parameters.
pub(super) fn media_type(response: &EgressResponse) -> String {
    let text = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

impl ResponseMapping {
    /// Parses `response_path`, a JSONPath of RFC 9535.
    pub(super) fn from_fields(fields: &EntryFields) -> EntryResult<Self> {
        let Some(text) = fields.string_field("response_path")? else {
            return Ok(Self { response_path: None });
        };
        let fix = "write a JSONPath such as `$.items[0].name`";
        if text.len() > MAX_PATH_BYTES {
            return Err(EntryError::new(format!("`response_path` is over {MAX_PATH_BYTES} bytes"))
                .with_help(fix));
        }
        let path = JsonPath::parse(&text)
            .map_err(|error| EntryError::new(format!("`response_path`: {error}")).with_help(fix))?;
        Ok(Self { response_path: Some(ResponsePath { text, path }) })
    }

    /// Returns the value for the caller, or the error text.
    pub(super) fn to_value(
        &self,
        status: StatusCode,
        media_type: &str,
        body: &Bytes,
    ) -> std::result::Result<Json, String> {
        if status.is_redirection() {
            return Err(format!("HTTP {status}: redirects are not followed"));
        }
        if !status.is_success() {
            let text: String =
                String::from_utf8_lossy(body).chars().take(MAX_ERROR_CHARS).collect();
            return Err(format!("HTTP {status}: {text}").trim_end_matches([':', ' ']).to_owned());
        }
        if body.is_empty() {
            return Ok(Json::encode(&()));
        }
        let requires_json = media_type == "application/json"
            || media_type.ends_with("+json")
            || self.response_path.is_some();
        // A body without a media type may be JSON.
        if !requires_json && !media_type.is_empty() {
            return Ok(Json::encode(&String::from_utf8_lossy(body)));
        }
        match Json::parse(body.clone(), JsonLimits::DOCUMENT) {
            Ok(json) => self.select_part(json),
            Err(error) if requires_json => Err(format!("the response is not valid JSON: {error}")),
            Err(_) => Ok(Json::encode(&String::from_utf8_lossy(body))),
        }
    }

    fn select_part(&self, json: Json) -> std::result::Result<Json, String> {
        let Some(ResponsePath { text, path }) = &self.response_path else { return Ok(json) };
        let value = json.to_value();
        let found: Vec<&Value> = path.query(&value).all();
        match found.as_slice() {
            [] => Err(format!("the response has no value at `{text}`")),
            [one] => Ok(Json::encode(one)),
            many => Ok(Json::encode(many)),
        }
    }
}
