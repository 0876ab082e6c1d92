//! Query parameters of the tool routes: their documentation, values and limits.

use std::collections::HashSet;

use catalog::CatalogEntry;
use formats::tool_search::ToolSearchError;
use formats::{ProviderFormat, ToolSearcher};
use gateway::CatalogView;
use serde::Deserialize;
use server_core::error::ApiError;
use server_core::request_restrictions::{
    NO_WEB_PARAM, READ_ONLY_PARAM, TASK_TYPE_PARAM, TOOLSET_PARAM,
};
use server_core::route::QueryParam;
use server_core::server_state::ServerState;
use server_core::tool_lists::{self, MAX_PAGE_TOOLS, NameStyle, ToolPage};
use server_core::tool_search::{DeferringList, MAX_SEARCHABLE_TOOLS};
use tool::ErrorCode;

use server_core::query_string::check_limit;

/// Maximum number of names in `allowed_tools`.
const MAX_ALLOWED_TOOLS: usize = 1_000;

const FORMAT_PARAM: QueryParam = QueryParam {
    name: "format",
    description: "native (default), openai_chat (also openai), openai_chat_strict, openai_responses, \
           openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp",
    schema_type: "string",
};
const NAMES_PARAM: QueryParam = QueryParam {
    name: "names",
    description: "style of tool names: safe (accepted by all providers) or native",
    schema_type: "string",
};
pub(super) const LIST_QUERY: &[QueryParam] = &[
    FORMAT_PARAM,
    NAMES_PARAM,
    QueryParam {
        name: "allowed_tools",
        description: "only these tools, separated by commas; default all",
        schema_type: "string",
    },
    QueryParam { name: "source", description: "only tools of this source", schema_type: "string" },
    QueryParam {
        name: "losses",
        description: "true: include the schema details that the format cannot express",
        schema_type: "boolean",
    },
    QueryParam {
        name: "search",
        description: "who searches the list, whose tools are then deferred: provider, provider_regex (Anthropic \
               alone), or toolkeep, which answers at POST /v1/calls; for openai_responses, \
               openai_responses_strict and anthropic",
        schema_type: "string",
    },
    QueryParam {
        name: "limit",
        description: "number of tools per page, 1 to 1000; default 1000",
        schema_type: "integer",
    },
    QueryParam {
        name: "cursor",
        description: "next_cursor of the previous page",
        schema_type: "string",
    },
    READ_ONLY_PARAM,
    NO_WEB_PARAM,
    TASK_TYPE_PARAM,
    TOOLSET_PARAM,
    QueryParam {
        name: "envelope",
        description: "list_tools: each tool with the fields of list_tools of the research registry; not \
               with a format",
        schema_type: "string",
    },
];
pub(super) const SHOW_QUERY: &[QueryParam] = &[
    FORMAT_PARAM,
    NAMES_PARAM,
    QueryParam {
        name: "losses",
        description: "true: include the schema details that the format cannot express",
        schema_type: "boolean",
    },
    READ_ONLY_PARAM,
    NO_WEB_PARAM,
    TASK_TYPE_PARAM,
    TOOLSET_PARAM,
];

/// Query of the tool routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolListQuery {
    format: Option<String>,
    names: Option<String>,
    allowed_tools: Option<String>,
    source: Option<String>,
    #[serde(default)]
    #[serde(rename = "losses")]
    pub(super) include_losses: bool,
    pub(super) limit: Option<usize>,
    cursor: Option<String>,
    envelope: Option<String>,
    search: Option<String>,
}

impl ToolListQuery {
    /// The requested format; `None` for native.
    pub(super) fn parse_format(&self) -> Result<Option<ProviderFormat>, ApiError> {
        match self.format.as_deref() {
            None | Some("native") => Ok(None),
            Some(word) => word.parse().map(Some).map_err(|error: formats::UnknownFormatError| {
                ApiError::new(ErrorCode::InvalidRequest, error.to_string())
            }),
        }
    }

    /// The requested style of tool names.
    pub(super) fn name_style(&self) -> Result<NameStyle, ApiError> {
        match self.names.as_deref() {
            None if self.format.as_deref() == Some("mcp") => Ok(NameStyle::Native),
            None | Some("safe") => Ok(NameStyle::Safe),
            Some("native") => Ok(NameStyle::Native),
            Some(word) => Err(ApiError::new(
                ErrorCode::InvalidRequest,
                format!("unknown names `{}`; use safe or native", word.escape_debug()),
            )),
        }
    }

    /// The searcher of the list, with its format; `None` for a list without search.
    pub(super) fn parse_search(&self) -> Result<Option<(ProviderFormat, ToolSearcher)>, ApiError> {
        let invalid = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
        let Some(word) = &self.search else { return Ok(None) };
        let searcher: ToolSearcher =
            word.parse().map_err(|error: ToolSearchError| invalid(error.to_string()))?;
        let help = "an example is `/v1/tools?format=anthropic&search=provider`";
        let format = self
            .parse_format()?
            .ok_or_else(|| invalid("`search` needs a `format`".to_owned()).with_help(help))?;
        searcher.check_format(format).map_err(|error| invalid(error.to_string()))?;
        // A list with search is the whole list of one request, under the names of the results.
        let is_toolkeep = searcher == ToolSearcher::Toolkeep;
        let others = [
            ("limit", self.limit.is_some()),
            ("cursor", self.cursor.is_some()),
            ("names", self.names.is_some()),
            ("source", is_toolkeep && self.source.is_some()),
            ("allowed_tools", is_toolkeep && self.allowed_tools.is_some()),
        ];
        match others.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                Err(invalid(format!("`search={word}` cannot be combined with `{name}`")))
            }
            None => Ok(Some((format, searcher))),
        }
    }

    /// The tools of a list with search, which has no pages.
    pub(super) fn find_searchable<'a>(
        &self,
        (state, view): (&ServerState, &'a CatalogView),
        list: &DeferringList<'_>,
    ) -> Result<ToolPage<'a>, ApiError> {
        let matches = self.tool_filter(state, view)?;
        let matches = |entry: &CatalogEntry| list.contains(entry) && matches(entry);
        let page = tool_lists::page_after(view, MAX_SEARCHABLE_TOOLS, None, matches);
        page.filter(|page| page.next.is_none()).ok_or_else(|| {
            let message = format!("a list with `search` has at most {MAX_SEARCHABLE_TOOLS} tools");
            ApiError::new(ErrorCode::InvalidRequest, message).with_help(
                "select tools with `source`, or use openai_responses and `search=toolkeep`",
            )
        })
    }

    /// Whether the tools are requested with the fields of the research registry.
    pub(super) fn uses_envelope(&self) -> Result<bool, ApiError> {
        match (self.envelope.as_deref(), self.format.as_deref()) {
            (None, _) => Ok(false),
            (Some("list_tools"), None | Some("native")) => Ok(true),
            (Some("list_tools"), Some(_)) => Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "`envelope` cannot be combined with `format`",
            )),
            (Some(word), _) => Err(ApiError::new(
                ErrorCode::InvalidRequest,
                format!("unknown envelope `{}`; use list_tools", word.escape_debug()),
            )),
        }
    }

    /// Whether the unfiltered list is requested.
    pub(super) fn is_unfiltered(&self) -> bool {
        let allows_all = self.allowed_tools.as_ref().is_none_or(String::is_empty);
        allows_all
            && self.source.is_none()
            && !self.include_losses
            && self.limit.is_none()
            && self.cursor.is_none()
    }

    /// The page of tools that the filters and the cursor select.
    pub(super) fn find_page<'a>(
        &self,
        state: &ServerState,
        view: &'a CatalogView,
    ) -> Result<ToolPage<'a>, ApiError> {
        let limit = check_limit(self.limit, MAX_PAGE_TOOLS, MAX_PAGE_TOOLS)?;
        let matches = self.tool_filter(state, view)?;
        tool_lists::page_after(view, limit, self.cursor.as_deref(), matches).ok_or_else(|| {
            ApiError::new(ErrorCode::InvalidRequest, "the tool of the cursor no longer exists")
                .with_help("list from the beginning")
        })
    }

    /// Whether a tool is of the source and of the names that are requested.
    fn tool_filter(
        &self,
        state: &ServerState,
        view: &CatalogView,
    ) -> Result<impl Fn(&CatalogEntry) -> bool, ApiError> {
        let (allowed, source) = (self.allowed_names(state, view)?, self.source.as_deref());
        Ok(move |entry: &CatalogEntry| {
            allowed.as_ref().is_none_or(|allowed| allowed.contains(entry.name.as_str()))
                && source.is_none_or(|source| entry.tool_key.source.as_str() == source)
        })
    }

    /// The native names of the tools in `allowed_tools`; `None` if the list is empty. Unknown names
    /// are ignored.
    fn allowed_names(
        &self,
        state: &ServerState,
        view: &CatalogView,
    ) -> Result<Option<HashSet<String>>, ApiError> {
        let Some(allowed) = self.allowed_tools.as_deref().filter(|names| !names.is_empty()) else {
            return Ok(None);
        };
        let names = allowed.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<_> = names.take(MAX_ALLOWED_TOOLS + 1).collect();
        if names.len() > MAX_ALLOWED_TOOLS {
            let message = format!("`allowed_tools` has more than {MAX_ALLOWED_TOOLS} names");
            return Err(ApiError::new(ErrorCode::InvalidRequest, message));
        }
        let names =
            names.into_iter().map(|name| state.tool_lists.resolve_tool_name(view, name)).collect();
        Ok(Some(names))
    }
}
