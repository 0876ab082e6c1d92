//! Mapping of an HTTP response to a value: its JSON, a JSONPath selection, or its text.

use bytes::Bytes;
use egress::Received;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use serde_json_path::JsonPath;
use tool::{Json, Limits};

use crate::fields::{Fault, Fields, Result};

/// Maximum characters of an error body that are shown.
const SHOWN: usize = 2_048;
/// Maximum bytes of a path.
const MAX_PATH: usize = 1_024;

/// Mapping of responses to values.
#[derive(Debug)]
pub(super) struct Answers {
    path: Option<(String, JsonPath)>,
}

/// Returns the media type of a response without parameters.
pub(super) fn media(response: &Received) -> String {
    let text = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

impl Answers {
    /// Parses `response_path`, a JSONPath of RFC 9535.
    pub(super) fn read(fields: &Fields) -> Result<Self> {
        let Some(text) = fields.text("response_path")? else { return Ok(Self { path: None }) };
        let fix = "write a JSONPath such as `$.items[0].name`";
        if text.len() > MAX_PATH {
            return Err(Fault::new(format!("`response_path` is over {MAX_PATH} bytes")).fix(fix));
        }
        let path = JsonPath::parse(&text)
            .map_err(|error| Fault::new(format!("`response_path`: {error}")).fix(fix))?;
        Ok(Self { path: Some((text, path)) })
    }

    /// Returns the value for the caller, or the error text.
    pub(super) fn value(
        &self,
        status: StatusCode,
        media: &str,
        body: &Bytes,
    ) -> std::result::Result<Json, String> {
        if status.is_redirection() {
            return Err(format!(
                "HTTP {status}: it leads elsewhere, and redirects are not followed"
            ));
        }
        if !status.is_success() {
            let text: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
            return Err(format!("HTTP {status}: {text}").trim_end_matches([':', ' ']).to_owned());
        }
        if body.is_empty() {
            return Ok(Json::of(&()));
        }
        let must = media == "application/json" || media.ends_with("+json") || self.path.is_some();
        // A body without a media type may be JSON.
        if !must && !media.is_empty() {
            return Ok(Json::of(&String::from_utf8_lossy(body)));
        }
        match Json::check(body.clone(), Limits::DOCUMENT) {
            Ok(json) => self.part(json),
            Err(error) if must => Err(format!("the answer cannot be read as JSON: {error}")),
            Err(_) => Ok(Json::of(&String::from_utf8_lossy(body))),
        }
    }

    fn part(&self, json: Json) -> std::result::Result<Json, String> {
        let Some((text, path)) = &self.path else { return Ok(json) };
        let value = json.value();
        let found: Vec<&Value> = path.query(&value).all();
        match found.as_slice() {
            [] => Err(format!("the answer has nothing at `{text}`")),
            [one] => Ok(Json::of(one)),
            many => Ok(Json::of(many)),
        }
    }
}
