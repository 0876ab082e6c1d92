//! `/v1/tools`: the tools that the caller may call, natively or in a provider's format.

use std::collections::HashSet;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use catalog::Entry;
use formats::{Format, Loss};
use gateway::View;
use gateway::facade::listed;
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{CallerType, Code, Json, Level, Safety, Scope};

use super::sheet::{self, Parts};
use server_core::body::Params;
use server_core::context::{NO_WEB_PARAM, READ_ONLY_PARAM, TASK_TYPE_PARAM};
use server_core::error::ApiError;
use server_core::lists::{self, Key, Names, PAGE, Page, Rendered, What};
use server_core::route::{Param, Route};
use server_core::state::Doors;

/// Maximum number of names in `allowed_tools`.
const ALLOWED: usize = 1_000;

const FORMAT: Param = Param {
    name: "format",
    what: "native where absent, or openai_chat (also openai), openai_chat_strict, \
           openai_responses, openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp",
    kind: "string",
};
const NAMES: Param =
    Param { name: "names", what: "safe (as providers take them) or native", kind: "string" };
const QUERY: &[Param] = &[
    FORMAT,
    NAMES,
    Param {
        name: "allowed_tools",
        what: "only these tools, names with commas between them; all where absent or empty",
        kind: "string",
    },
    Param { name: "source", what: "only tools of this source", kind: "string" },
    Param {
        name: "losses",
        what: "true: also what the format does not say as the tools' schemas do",
        kind: "boolean",
    },
    Param {
        name: "limit",
        what: "tools of one page, 1 to 1000; all up to 1000 where absent",
        kind: "integer",
    },
    Param { name: "cursor", what: "next_cursor of the page before", kind: "string" },
    READ_ONLY_PARAM,
    NO_WEB_PARAM,
    TASK_TYPE_PARAM,
    Param {
        name: "envelope",
        what: "list_tools: each tool with the fields of spec 3's list_tools; not with a format",
        kind: "string",
    },
];
const ONE_QUERY: &[Param] = &[
    FORMAT,
    NAMES,
    Param {
        name: "losses",
        what: "true: the tool, and beside it what the format does not say as its schema does",
        kind: "boolean",
    },
    READ_ONLY_PARAM,
    NO_WEB_PARAM,
    TASK_TYPE_PARAM,
];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/tools", "The tools the caller may call", get(list))
            .query(QUERY)
            .reply::<Listed>(),
        Route::new("get", "/v1/tools/{name}", "One tool", get(one))
            .query(ONE_QUERY)
            .reply::<ToolReply>(),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    format: Option<String>,
    names: Option<String>,
    allowed_tools: Option<String>,
    source: Option<String>,
    #[serde(default)]
    losses: bool,
    limit: Option<usize>,
    cursor: Option<String>,
    envelope: Option<String>,
}

/// A list, natively or as a provider writes it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what there is; the bytes are put together elsewhere")]
enum Listed {
    Native(ToolsReply),
    Provider(sheet::Sheet),
}

/// A list, natively.
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
    /// The nodes that may run it, the first one first; absent for what runs on none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
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
    headers: HeaderMap,
    Params(asked): Params<Asked>,
) -> Result<Response, ApiError> {
    let view = doors.parts.gateway.view(&principal, CallerType::Direct);
    let (format, names) = (asked.format()?, asked.names()?);
    let catalog = view.catalog().number;
    let rendered = || doors.lists.rendered(&view, format.unwrap_or(Format::OpenaiChat), names);
    if asked.is_in_envelope()? {
        let Page { tools, next } = asked.page(&doors, &view)?;
        let kind =
            |entry: &Entry| view.catalog().shelf(entry.key.source.as_str()).map(|it| it.kind);
        let tools = tools.iter().map(|entry| listed(entry, kind(entry).unwrap_or_default()));
        let tools = Json::of(&tools.collect::<Vec<_>>());
        let body = Json::of(&ToolsReply { tools, next_cursor: next, catalog }).bytes().clone();
        let tag = sheet::tag(std::slice::from_ref(&body));
        return Ok(sheet::tagged(&headers, &tag, [body]));
    }
    let Some(format) = format else {
        let (rendered, page) = (rendered(), asked.page(&doors, &view)?);
        let tools: Vec<_> = page.tools.iter().map(|entry| reply(entry, &rendered)).collect();
        let reply = ToolsReply { tools: Json::of(&tools), next_cursor: page.next, catalog };
        let body = Json::of(&reply).bytes().clone();
        let tag = sheet::tag(std::slice::from_ref(&body));
        return Ok(sheet::tagged(&headers, &tag, [body]));
    };
    let write = || {
        let Page { tools, next } = asked.page(&doors, &view)?;
        let (losses, rendered) = (asked.losses, rendered());
        let to = (&doors, &principal);
        Ok(Parts { format, to, rendered: &rendered, tools, next, catalog, losses }.written())
    };
    if !asked.is_whole() {
        let written = lists::aside(asked.limit.unwrap_or(PAGE), write);
        return written.map(|kept| sheet::answer(&headers, &kept));
    }
    // The unfiltered list is the common case, so its bytes are cached; filtered lists are not.
    let key = Key { view: view.id, what: What::Whole(format, names), from: None };
    let kept = doors.lists.kept(key, || write().ok());
    let broken = || ApiError::new(Code::Internal, "the list could not be written");
    kept.map(|kept| sheet::answer(&headers, &kept)).ok_or_else(broken)
}

/// A tool in a provider's format, with its losses.
#[derive(Serialize)]
struct WithLosses<'a> {
    tool: &'a Json,
    losses: &'a [Loss],
}

async fn one(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Params(asked): Params<Asked>,
) -> Result<Response, ApiError> {
    let view = doors.parts.gateway.view(&principal, CallerType::Direct);
    let (format, names) = (asked.format()?, asked.names()?);
    let native = doors.lists.native(&view, &name);
    let rendered = doors.lists.rendered(&view, format.unwrap_or(Format::OpenaiChat), names);
    let unknown =
        || ApiError::new(Code::UnknownTool, format!("unknown tool `{}`", name.escape_debug()));
    let (entry, _) = view.find(&native).ok_or_else(unknown)?;
    let written = match format {
        None => Json::of(&reply(entry, &rendered)),
        Some(format) => {
            let tool = rendered.tool(entry.name.as_str()).ok_or_else(unknown)?;
            let json = tool.json.as_ref().ok_or_else(|| left_out(&native, format, &tool.losses))?;
            if asked.losses {
                Json::of(&WithLosses { tool: json, losses: &tool.losses })
            } else {
                json.clone()
            }
        }
    };
    let body = written.bytes().clone();
    let tag = sheet::tag(std::slice::from_ref(&body));
    Ok(sheet::tagged(&headers, &tag, [body]))
}

fn left_out(name: &str, format: Format, losses: &[Loss]) -> ApiError {
    let why = losses.first().map(|loss| format!(": `{}`: {}", loss.place, loss.why));
    let told = format!("`{name}` cannot be written as {format}{}", why.unwrap_or_default());
    ApiError::new(Code::InvalidRequest, told).fix("ask for it natively or as mcp")
}

impl Asked {
    /// The requested format; `None` for native.
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

    fn is_in_envelope(&self) -> Result<bool, ApiError> {
        match (self.envelope.as_deref(), self.format.as_deref()) {
            (None, _) => Ok(false),
            (Some("list_tools"), None | Some("native")) => Ok(true),
            (Some("list_tools"), Some(_)) => {
                Err(ApiError::new(Code::InvalidRequest, "`envelope` goes with no other `format`"))
            }
            (Some(word), _) => Err(ApiError::new(
                Code::InvalidRequest,
                format!("unknown envelope `{}`; use list_tools", word.escape_debug()),
            )),
        }
    }

    /// Whether the unfiltered list is requested.
    fn is_whole(&self) -> bool {
        let all = self.allowed_tools.as_ref().is_none_or(String::is_empty);
        all && self.source.is_none()
            && !self.losses
            && self.limit.is_none()
            && self.cursor.is_none()
    }

    fn page<'a>(&self, doors: &Doors, view: &'a View) -> Result<Page<'a>, ApiError> {
        let limit = self.limit.unwrap_or(PAGE);
        if limit == 0 || limit > PAGE {
            return Err(ApiError::new(Code::InvalidRequest, format!("`limit` is 1 to {PAGE}")));
        }
        let (allowed, source) = (self.allowed(doors, view)?, self.source.as_deref());
        let fits = |entry: &Entry| {
            allowed.as_ref().is_none_or(|allowed| allowed.contains(entry.name.as_str()))
                && source.is_none_or(|source| entry.key.source.as_str() == source)
        };
        lists::page(view, limit, self.cursor.as_deref(), fits).ok_or_else(|| {
            ApiError::new(Code::InvalidRequest, "the cursor's tool is no longer there")
                .fix("list from the beginning")
        })
    }

    /// The native names of the tools in `allowed_tools`; `None` if the list is empty. Unknown names
    /// are ignored.
    fn allowed(&self, doors: &Doors, view: &View) -> Result<Option<HashSet<String>>, ApiError> {
        let Some(allowed) = self.allowed_tools.as_deref().filter(|names| !names.is_empty()) else {
            return Ok(None);
        };
        let names = allowed.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<_> = names.take(ALLOWED + 1).collect();
        if names.len() > ALLOWED {
            let told = format!("`allowed_tools` has more than {ALLOWED} names");
            return Err(ApiError::new(Code::InvalidRequest, told));
        }
        let names = names.into_iter().map(|name| doors.lists.native(view, name)).collect();
        Ok(Some(names))
    }
}

fn reply(entry: &Entry, rendered: &Rendered) -> ToolReply {
    let (tool, traits) = (&entry.tool, &entry.tool.traits);
    let name = entry.name.to_string();
    ToolReply {
        alias: rendered.names.alias(&name).unwrap_or(&name).to_owned(),
        name,
        source: entry.key.source.to_string(),
        nodes: entry.executor.places(),
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
