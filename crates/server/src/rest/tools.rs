//! `/v1/tools`: what the caller may call, as it is or as a provider wants it.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Json as Reply};
use catalog::Entry;
use formats::Format;
use gateway::View;
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{CallerType, Code, Json, Level, Safety, Scope};

use super::body::Params;
use super::frames::Frames;
use super::route::{Param, Route};
use crate::error::ApiError;
use crate::lists::{self, Names, PAGE, Page, Rendered};
use crate::state::Doors;

const QUERY: &[Param] = &[
    Param {
        name: "format",
        what: "native, openai_chat or mcp; native where absent",
        kind: "string",
    },
    Param { name: "names", what: "safe (as providers take them) or native", kind: "string" },
    Param {
        name: "limit",
        what: "tools of one page, 1 to 1000; all up to 1000 where absent",
        kind: "integer",
    },
    Param { name: "cursor", what: "next_cursor of the page before", kind: "string" },
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/tools", "The tools the caller may call", get(list))
            .query(QUERY)
            .reply::<ToolsReply>(),
        Route::new("get", "/v1/tools/{name}", "One tool", get(one))
            .query(QUERY)
            .reply::<ToolReply>(),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    format: Option<String>,
    names: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// A list, either native or as the provider writes it.
#[derive(Debug, Serialize, JsonSchema)]
struct ToolsReply {
    /// The tools, in the catalog's order.
    #[schemars(with = "Vec<ToolReply>")]
    tools: Json,
    /// Give it as `cursor` for the next page; null at the end.
    next_cursor: Option<String>,
    /// The catalog's number.
    catalog: u64,
}

/// A tool, natively.
#[derive(Debug, Serialize, JsonSchema)]
struct ToolReply {
    /// Its name.
    name: String,
    /// The name that every provider takes.
    alias: String,
    /// Its source.
    source: String,
    /// A title for people.
    title: Option<String>,
    /// What it does.
    description: String,
    /// JSON Schema of its arguments.
    #[schemars(with = "serde_json::Value")]
    input_schema: Json,
    /// JSON Schema of its structured result.
    #[schemars(with = "Option<serde_json::Value>")]
    output_schema: Option<Json>,
    /// What policy may ask of it.
    traits: TraitsReply,
    /// SHA-256 of its definition as received.
    definition: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TraitsReply {
    #[schemars(with = "String")]
    level: Level,
    #[schemars(with = "String")]
    safety: Safety,
    /// Declared side effects, or `unknown`, which counts as one.
    effects: Vec<&'static str>,
    destructive: bool,
    idempotent: bool,
    categories: Vec<String>,
    #[schemars(with = "Vec<String>")]
    scopes: Vec<Scope>,
    #[schemars(with = "Vec<String>")]
    callers: Vec<CallerType>,
    timeout_ms: Option<u64>,
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Asked>,
) -> Result<Response, ApiError> {
    let view = doors.parts.gateway.view(&principal, CallerType::Direct);
    let (format, names) = (asked.format()?, asked.names()?);
    let catalog = view.catalog().number;
    let Page { tools: page, next: next_cursor } = asked.page(&view)?;
    if let (Some(format), None, true) = (format, &next_cursor, asked.cursor.is_none()) {
        // The whole list in a provider's format is the hot case: its bytes are kept.
        return Ok(whole(doors.lists.whole(&view, format, names), catalog));
    }
    let rendered =
        doors.lists.rendered(view.catalog(), format.unwrap_or(Format::OpenaiChat), names);
    let tools = match format {
        Some(format) => {
            let written = page.iter().filter_map(|e| rendered.fragment(e.key.name.as_str()));
            formats::list(format, written)
        }
        None => Json::of(&page.iter().map(|entry| reply(entry, &rendered)).collect::<Vec<_>>()),
    };
    Ok(Reply(ToolsReply { tools, next_cursor, catalog }).into_response())
}

fn whole(list: Bytes, catalog: u64) -> Response {
    let end = format!(",\"next_cursor\":null,\"catalog\":{catalog}}}");
    let body = Frames::new([Bytes::from_static(b"{\"tools\":"), list, Bytes::from(end)]);
    ([(CONTENT_TYPE, "application/json")], Body::new(body)).into_response()
}

async fn one(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    Params(asked): Params<Asked>,
) -> Result<Response, ApiError> {
    let view = doors.parts.gateway.view(&principal, CallerType::Direct);
    let (format, names) = (asked.format()?, asked.names()?);
    let native = doors.lists.native(&view, &name);
    let rendered =
        doors.lists.rendered(view.catalog(), format.unwrap_or(Format::OpenaiChat), names);
    let unknown =
        || ApiError::new(Code::UnknownTool, format!("unknown tool `{}`", name.escape_debug()));
    let (entry, _) = view.find(&native).ok_or_else(unknown)?;
    let written = match format {
        Some(_) => rendered.fragment(&native).cloned().ok_or_else(unknown)?,
        None => Json::of(&reply(entry, &rendered)),
    };
    Ok(([(CONTENT_TYPE, "application/json")], written.bytes().clone()).into_response())
}

impl Asked {
    /// `None` is native.
    fn format(&self) -> Result<Option<Format>, ApiError> {
        match self.format.as_deref() {
            None | Some("native") => Ok(None),
            Some(word) => word.parse().map(Some).map_err(|error: formats::UnknownFormat| {
                ApiError::new(Code::InvalidRequest, error.to_string())
            }),
        }
    }

    fn names(&self) -> Result<Names, ApiError> {
        match self.names.as_deref() {
            None if self.format.as_deref() == Some("mcp") => Ok(Names::Native),
            None | Some("safe") => Ok(Names::Safe),
            Some("native") => Ok(Names::Native),
            Some(word) => Err(ApiError::new(
                Code::InvalidRequest,
                format!("unknown names `{}`; use safe or native", word.escape_debug()),
            )),
        }
    }

    fn page<'a>(&self, view: &'a View) -> Result<Page<'a>, ApiError> {
        let limit = self.limit.unwrap_or(PAGE);
        if limit == 0 || limit > PAGE {
            return Err(ApiError::new(Code::InvalidRequest, format!("`limit` is 1 to {PAGE}")));
        }
        lists::page(view, limit, self.cursor.as_deref()).ok_or_else(|| {
            ApiError::new(Code::InvalidRequest, "the cursor's tool is no longer there")
                .fix("list from the beginning")
        })
    }
}

fn reply(entry: &Entry, rendered: &Rendered) -> ToolReply {
    let (tool, traits) = (&entry.tool, &entry.tool.traits);
    let name = tool.name.to_string();
    ToolReply {
        alias: rendered.names.alias(&name).unwrap_or(&name).to_owned(),
        name,
        source: entry.key.source.to_string(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input.clone(),
        output_schema: tool.output.clone(),
        traits: TraitsReply {
            level: traits.level,
            safety: traits.safety,
            effects: traits.effects.words(),
            destructive: traits.destructive,
            idempotent: traits.idempotent,
            categories: traits.categories.clone(),
            scopes: traits.scopes.clone(),
            callers: traits.callers.clone(),
            timeout_ms: traits.timeout.and_then(|t| u64::try_from(t.as_millis()).ok()),
        },
        definition: entry.definition.to_string(),
    }
}
