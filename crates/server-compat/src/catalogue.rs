//! `/catalogue`: the cluster tools' registry of tool packages, with the routes of its contract
//! (4.5) and of its client over the same entries. Every key reads its organization's entries;
//! `nodes:write` changes them.

mod client;
mod filter;
mod upload;

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::catalogue::{Catalogue, CatalogueFault};
use tool::{Json, Org};

use super::refusal::Refusal;
use filter::Filter;
use server_core::body::{Body, Params, read};
use server_core::route::{Param, Route};
use server_core::state::Doors;

/// Maximum bytes of a package.
const PACKAGE: usize = 16 << 20;
/// Maximum bytes of a filter, and of the changes to one entry.
const ASKED: usize = 256 << 10;
/// Maximum bytes of a compiled regular expression.
const PATTERN: usize = 1 << 20;

pub(crate) fn keyed() -> Vec<Route> {
    let one = "/catalogue/tools/{tool_id}";
    let query = |path, what, param: &'static [Param], answer| {
        Route::new("get", path, what, answer).query(param).reply::<Vec<Entry>>()
    };
    let mut routes = vec![
        Route::new("post", "/catalogue/tools/upload", "Upload a tool's package", post(upload))
            .reply::<Uploaded>(),
        Route::new("get", one, "An entry of the catalogue", get(show)).reply::<Entry>(),
        Route::new("put", one, "Change an entry of the catalogue", put(update))
            .body::<Entry>()
            .reply::<Done>(),
        Route::new("delete", one, "Remove an entry of the catalogue", delete(remove))
            .reply::<Done>(),
        query("/catalogue/tools/query/by-type", "Entries of a type", TYPE, get(by_type)),
        query("/catalogue/tools/query/by-tag", "Entries with a tag", TAG, get(by_tag)),
        query(
            "/catalogue/tools/query/by-keyword",
            "Entries whose search description fits a pattern, whatever the case",
            KEYWORD,
            get(by_keyword),
        ),
        query("/catalogue/tools/query/by-execution-mode", "Entries of a mode", MODE, get(by_mode)),
        query("/catalogue/tools/query/by-policy-uri", "Entries of a policy", URI, get(by_policy)),
        Route::new(
            "post",
            "/catalogue/tools/query/generic",
            "Entries that fit a filter",
            post(generic),
        )
        .body::<Map<String, Value>>()
        .reply::<Vec<Entry>>(),
    ];
    routes.extend(client::routes());
    routes
}

const TYPE: &[Param] = &[Param { name: "type", what: "Its type", kind: "string" }];
const TAG: &[Param] = &[Param { name: "tag", what: "One of its tags", kind: "string" }];
const KEYWORD: &[Param] =
    &[Param { name: "keyword", what: "A regular expression", kind: "string" }];
const MODE: &[Param] = &[Param { name: "mode", what: "Its execution mode", kind: "string" }];
const URI: &[Param] = &[Param { name: "uri", what: "Its policy rule", kind: "string" }];

/// An entry, as it is shown and written.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(transparent)]
struct Entry(#[schemars(with = "Map<String, Value>")] Json);

impl Entry {
    /// Creates an entry for display, with hidden characters written out.
    fn shown(entry: Json) -> Self {
        Self(entry.definition_made_visible().unwrap_or(entry))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Uploaded {
    /// `Tool uploaded successfully`.
    message: &'static str,
    /// Its id.
    tool_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Done {
    /// What was done.
    message: &'static str,
}

/// The registry and the organization of a request.
struct Asked<'a> {
    entries: &'a Arc<dyn Catalogue>,
    org: &'a Org,
}

impl<'a> Asked<'a> {
    fn to_read(doors: &'a Doors, principal: &'a Principal) -> Result<Self, Refusal> {
        let entries =
            doors.parts.catalogue.as_ref().ok_or_else(|| {
                Refusal::new(StatusCode::NOT_FOUND, "this server keeps no catalogue")
            })?;
        Ok(Self { entries, org: principal.org() })
    }

    fn to_change(doors: &'a Doors, principal: &'a Principal) -> Result<Self, Refusal> {
        if !principal.may(Right::NodesWrite) {
            let told = "this key may not change the catalogue; it needs the right `nodes:write`";
            return Err(Refusal::new(StatusCode::FORBIDDEN, told));
        }
        Self::to_read(doors, principal)
    }

    /// Finds the matching entries on a blocking thread.
    async fn fitting(
        &self,
        fits: impl Fn(&Value) -> bool + Send + 'static,
    ) -> Result<Vec<Entry>, Refusal> {
        let all = self.entries.entries(self.org).await?;
        let found = tokio::task::spawn_blocking(move || {
            let fitting = all.into_iter().filter(|entry| fits(&entry.value()));
            fitting.map(Entry::shown).collect()
        });
        found.await.map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "given up"))
    }

    async fn with(self, field: &'static str, wanted: String) -> Answer {
        let fits = move |entry: &Value| entry.get(field).is_some_and(|it| it == wanted.as_str());
        self.fitting(fits).await.map(Reply)
    }
}

type Answer = Result<Reply<Vec<Entry>>, Refusal>;

impl From<CatalogueFault> for Refusal {
    fn from(fault: CatalogueFault) -> Self {
        let status = match &fault {
            CatalogueFault::Missing => return Self::no_tool(),
            CatalogueFault::Exists(_) => StatusCode::CONFLICT,
            CatalogueFault::Unfit(_) => StatusCode::BAD_REQUEST,
            CatalogueFault::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            CatalogueFault::Unavailable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, fault.to_string())
    }
}

/// Uploads a package. Contract 4.5: every error of a package is the same text with status 500; the
/// cause is added in `reason`.
async fn upload(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Reply<Uploaded>, Refusal> {
    let asked = Asked::to_change(&doors, &principal)?;
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    let usual = doors.parts.max_body;
    // Only the file part of the form may be large.
    let most = PACKAGE.max(usual);
    let taken =
        tokio::time::timeout(upload::WAIT, doors.room.taken(request.into_body(), usual, most));
    let slow = || Refusal::new(StatusCode::BAD_REQUEST, "the package did not arrive in time");
    let body = taken.await.map_err(|_| slow())??;
    let package = upload::file(&kind, &body)
        .map_err(|missing| Refusal::new(StatusCode::BAD_REQUEST, missing))?;
    match asked.entries.upload(asked.org, package).await {
        Ok(tool_id) => Ok(Reply(Uploaded { message: "Tool uploaded successfully", tool_id })),
        Err(fault) => {
            let told = "Failed to process tool package";
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, told).reason(fault.to_string()))
        }
    }
}

async fn show(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<Entry>, Refusal> {
    let asked = Asked::to_read(&doors, &principal)?;
    Ok(Reply(Entry::shown(asked.entries.entry(asked.org, &id).await?)))
}

async fn update(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Reply<Done>, Refusal> {
    let asked = Asked::to_change(&doors, &principal)?;
    let missing = || Refusal::new(StatusCode::BAD_REQUEST, "Missing update payload");
    let bytes = read(request.into_body(), ASKED).await?;
    let unread = |error: tool::JsonError| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("the body: {error}"))
    };
    if bytes.is_empty() {
        return Err(missing());
    }
    let changes = Json::check(bytes, tool::Limits::DEFINITION).map_err(unread)?;
    if changes.kind() == "null" || changes.value().as_object().is_some_and(Map::is_empty) {
        return Err(missing());
    }
    asked.entries.update(asked.org, &id, changes).await?;
    Ok(Reply(Done { message: "Tool updated successfully" }))
}

async fn remove(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<Done>, Refusal> {
    let asked = Asked::to_change(&doors, &principal)?;
    asked.entries.remove(asked.org, &id).await?;
    Ok(Reply(Done { message: "Tool deleted successfully" }))
}

macro_rules! by {
    ($($name:ident: $key:ident $word:literal => $field:literal;)+) => { $(
        async fn $name(
            State(doors): State<Doors>,
            Extension(principal): Extension<Principal>,
            Params($key): Params<$key::Query>,
        ) -> Answer {
            Asked::to_read(&doors, &principal)?.with($field, $key.value).await
        }
        mod $key {
            #[derive(serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            pub(super) struct Query {
                #[serde(rename = $word)]
                pub(super) value: String,
            }
        }
    )+ };
}
by! {
    by_type: kind "type" => "tool_type";
    by_mode: mode "mode" => "tool_execution_mode";
    by_policy: uri "uri" => "tool_policy_rule_uri";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tagged {
    tag: String,
}

async fn by_tag(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(Tagged { tag }): Params<Tagged>,
) -> Answer {
    let asked = Asked::to_read(&doors, &principal)?;
    asked.fitting(move |entry| has_tag(entry, &tag)).await.map(Reply)
}

fn has_tag(entry: &Value, tag: &str) -> bool {
    let tags = entry.get("tool_tags").and_then(Value::as_array);
    tags.is_some_and(|tags| tags.iter().any(|it| it == tag))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keyword {
    keyword: String,
}

async fn by_keyword(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(Keyword { keyword }): Params<Keyword>,
) -> Answer {
    let asked = Asked::to_read(&doors, &principal)?;
    let pattern = RegexBuilder::new(&keyword).case_insensitive(true).size_limit(PATTERN).build();
    let unread = |_| {
        let told = "`keyword` is no regular expression, or too large a one";
        Refusal::new(StatusCode::BAD_REQUEST, told)
    };
    let pattern = pattern.map_err(unread)?;
    let fits = move |entry: &Value| {
        let described = entry.get("tool_search_description").and_then(Value::as_str);
        described.is_some_and(|text| pattern.is_match(text))
    };
    asked.fitting(fits).await.map(Reply)
}

/// Queries entries by a filter. An invalid filter matches nothing, as in the contract.
async fn generic(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(filter): Body<Json>,
) -> Answer {
    let asked = Asked::to_read(&doors, &principal)?;
    asked.filtered(&filter).await.map(Reply)
}

impl Asked<'_> {
    async fn filtered(&self, filter: &Json) -> Result<Vec<Entry>, Refusal> {
        if filter.bytes().len() > ASKED {
            return Ok(Vec::new());
        }
        match Filter::read(&filter.value()) {
            Some(filter) => self.fitting(move |entry| filter.fits(entry)).await,
            None => Ok(Vec::new()),
        }
    }
}
