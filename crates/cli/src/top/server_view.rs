//! The parts of a server that one screen shows, as far as the key may know them.

use serde::Serialize;
use serde_json::{Value, json};

use cli_core::command_error::CommandError;
use cli_core::json_fields;
use cli_core::rest_client::{RequestPath, RestClient};

/// Number of pending calls that are fetched.
const MAX_APPROVALS: usize = 50;
/// Number of records that are fetched.
const MAX_RECORDS: usize = 50;

/// One part of the screen: its entries, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum ViewPart {
    Entries(Vec<Value>),
    Error { error: String },
}

impl ViewPart {
    fn new(answer: Result<Value, CommandError>, key: &str) -> Self {
        match answer {
            Ok(answer) => Self::Entries(json_fields::field_items(&answer, key).to_vec()),
            Err(error) => Self::Error { error: error.to_string() },
        }
    }

    fn keep(self, is_kept: fn(&Value) -> bool) -> Self {
        match self {
            Self::Entries(entries) => Self::Entries(entries.into_iter().filter(is_kept).collect()),
            error @ Self::Error { .. } => error,
        }
    }

    /// The entries; none if the part is an error.
    pub(super) fn entries(&self) -> &[Value] {
        match self {
            Self::Entries(entries) => entries,
            Self::Error { .. } => &[],
        }
    }
}

fn needs_attention(source: &Value) -> bool {
    source.get("needs_attention").and_then(Value::as_bool) == Some(true)
}

/// All parts of a screen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ServerView {
    pub(super) attention: ViewPart,
    pub(super) minutes: ViewPart,
    pub(super) approvals: ViewPart,
    /// Sources that are not as they should be.
    pub(super) sources: ViewPart,
    pub(super) records: ViewPart,
}

impl ServerView {
    /// Asks the server for every part. A part that it refuses does not keep the others away.
    pub(super) async fn fetch(client: &RestClient) -> Self {
        let path = |route: &'static str| RequestPath::from_segments(route, &[]);
        let (attention, minutes, approvals, sources, records) = (
            path("/v1/attention"),
            path("/v1/activity"),
            path("/v1/approvals").with_query("limit", Some(MAX_APPROVALS)),
            path("/v1/sources"),
            path("/v1/records").with_query("limit", Some(MAX_RECORDS)),
        );
        let (attention, minutes, approvals, sources, records) = tokio::join!(
            client.get_json(&attention),
            client.get_json(&minutes),
            client.get_json(&approvals),
            client.get_json(&sources),
            client.get_json(&records),
        );
        Self {
            attention: ViewPart::new(attention, "entries"),
            minutes: ViewPart::new(minutes, "minutes"),
            approvals: ViewPart::new(approvals, "approvals"),
            sources: ViewPart::new(sources, "sources").keep(needs_attention),
            records: ViewPart::new(records, "records"),
        }
    }
}

/// A decision about a pending call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) is_approval: bool,
    /// Hash of the arguments that were shown.
    pub(super) arguments_sha256: String,
}

impl Decision {
    /// Sends the decision, which covers the arguments that were shown. Returns what to tell.
    pub(super) async fn send(&self, client: &RestClient) -> String {
        let (action, body) = if self.is_approval {
            ("approve", json!({ "arguments_sha256": self.arguments_sha256 }))
        } else {
            ("deny", json!({}))
        };
        let path = RequestPath::from_segments("/v1/approvals", &[&self.id, action]);
        let done: Result<Value, _> = client.post_json(&path, &body).await;
        let word = if self.is_approval { "approved" } else { "denied" };
        match done {
            Ok(_) => format!("{word} the call of {}", self.tool),
            Err(error) => format!("not {word}: {error}"),
        }
    }
}
