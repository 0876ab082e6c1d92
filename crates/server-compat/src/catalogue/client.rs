//! The routes of the registry's own client, which wrap every response in an envelope.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::Json;

use super::{Asked, Entry, has_tag};
use crate::refusal::Refusal;
use server_core::body::Body;
use server_core::route::Route;
use server_core::state::Doors;

pub(super) fn routes() -> Vec<Route> {
    let of =
        |method, path, what, answer| Route::new(method, path, what, answer).reply::<Envelope>();
    vec![
        of("post", "/catalogue/create", "Make an entry of the catalogue", post(create))
            .body::<Entry>(),
        of("get", "/catalogue/get/{tool_id}", "An entry, in an envelope", get(show)),
        of("put", "/catalogue/update/{tool_id}", "Change an entry, in an envelope", put(update))
            .body::<Entry>(),
        of(
            "delete",
            "/catalogue/delete/{tool_id}",
            "Remove an entry, in an envelope",
            delete(remove),
        ),
        of("post", "/catalogue/query", "Entries that fit a filter, in an envelope", post(query))
            .body::<Query>(),
        of("post", "/catalogue/search/tags", "Entries with one of these tags", post(tags))
            .body::<Tags>(),
        of("post", "/catalogue/search/advanced", "Entries that are all of this", post(advanced))
            .body::<Wanted>(),
    ]
}

/// What every one of these routes answers.
#[derive(Debug, Serialize, JsonSchema)]
struct Envelope {
    /// Whether it was done.
    success: bool,
    /// An entry, or a list of them; null where it was not done.
    data: Option<Data>,
    /// In words; empty where there is nothing to say.
    message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Data {
    One(Entry),
    Many(Vec<Entry>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Query {
    /// As MongoDB has them.
    query: Map<String, Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tags {
    /// One of them is enough.
    tags: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// One of them is enough.
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// Its type.
    #[serde(default)]
    tool_type: Option<String>,
    /// A part of its search description, whatever the case.
    #[serde(default)]
    description: Option<String>,
    /// What its metadata has, among other things.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

type Answer = Result<(StatusCode, Data, &'static str), Refusal>;

fn told(answer: Answer) -> Response {
    match answer {
        Ok((status, data, message)) => {
            let told = Envelope { success: true, data: Some(data), message: message.to_owned() };
            (status, Reply(told)).into_response()
        }
        Err(refusal) => {
            let (status, message) = refusal.into_parts();
            (status, Reply(Envelope { success: false, data: None, message })).into_response()
        }
    }
}

fn found(entries: Vec<Entry>) -> (StatusCode, Data, &'static str) {
    (StatusCode::OK, Data::Many(entries), "")
}

async fn create(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(entry): Body<Json>,
) -> Response {
    let made = async {
        let asked = Asked::to_change(&doors, &principal)?;
        let id = asked.entries.create(asked.org, entry).await?;
        let entry = Entry::shown(asked.entries.entry(asked.org, &id).await?);
        Ok((StatusCode::CREATED, Data::One(entry), "Tool created successfully"))
    };
    told(made.await)
}

async fn show(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let shown = async {
        let asked = Asked::to_read(&doors, &principal)?;
        Ok((
            StatusCode::OK,
            Data::One(Entry::shown(asked.entries.entry(asked.org, &id).await?)),
            "",
        ))
    };
    told(shown.await)
}

async fn update(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Body(changes): Body<Json>,
) -> Response {
    let updated = async {
        let asked = Asked::to_change(&doors, &principal)?;
        asked.entries.update(asked.org, &id, changes).await?;
        let entry = Entry::shown(asked.entries.entry(asked.org, &id).await?);
        Ok((StatusCode::OK, Data::One(entry), "Tool updated successfully"))
    };
    told(updated.await)
}

async fn remove(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let removed = async {
        let asked = Asked::to_change(&doors, &principal)?;
        let entry = Entry::shown(asked.entries.entry(asked.org, &id).await?);
        asked.entries.remove(asked.org, &id).await?;
        Ok((StatusCode::OK, Data::One(entry), "Tool deleted successfully"))
    };
    told(removed.await)
}

async fn query(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(Query { query }): Body<Query>,
) -> Response {
    let fitting = async {
        let asked = Asked::to_read(&doors, &principal)?;
        Ok(found(asked.filtered(&Json::of(&query)).await?))
    };
    told(fitting.await)
}

async fn tags(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(Tags { tags }): Body<Tags>,
) -> Response {
    let wanted = Wanted { tags: Some(tags), tool_type: None, description: None, metadata: None };
    searched(&doors, &principal, wanted).await
}

async fn advanced(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(wanted): Body<Wanted>,
) -> Response {
    searched(&doors, &principal, wanted).await
}

async fn searched(doors: &Doors, principal: &Principal, wanted: Wanted) -> Response {
    let fitting = async {
        let asked = Asked::to_read(doors, principal)?;
        Ok(found(asked.fitting(move |entry| wanted.fits(entry)).await?))
    };
    told(fitting.await)
}

impl Wanted {
    fn fits(&self, entry: &Value) -> bool {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let has = |(key, value): (&String, &Value)| {
            entry.get("tool_metadata").and_then(|all| all.get(key)) == Some(value)
        };
        self.tags.as_ref().is_none_or(|tags| tags.iter().any(|tag| has_tag(entry, tag)))
            && self.tool_type.as_ref().is_none_or(|wanted| text("tool_type") == wanted)
            && self.description.as_ref().is_none_or(|part| {
                text("tool_search_description").to_lowercase().contains(&part.to_lowercase())
            })
            && self.metadata.as_ref().is_none_or(|wanted| wanted.iter().all(has))
    }
}
