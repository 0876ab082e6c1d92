//! The MCP endpoint of a request: all sources, or one.

use std::sync::Arc;

use catalog::{CatalogEntry, SourceCatalog};
use gateway::CatalogView;
use http::Uri;
use identity::Principal;
use serde::Deserialize;
use tool::ErrorCode;

use super::request_headers::escape_input;
use server_core::ListingMode;
use server_core::error::ApiError;
use server_core::query_string;
use server_core::tool_lists::NameStyle;

/// The kind of sources whose native names and definitions are forwarded unchanged.
const MCP_KIND: &str = "mcp";

/// The endpoint of an MCP request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/mcp`: all the caller's tools, prompts and resources.
    AllSources {
        /// The style of tool names.
        names: NameStyle,
        /// How tools are listed, if the address says so.
        mode: Option<ListingMode>,
    },
    /// `/mcp/{source}`: one source as it is.
    Source(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointQuery {
    names: Option<String>,
    mode: Option<String>,
}

impl Endpoint {
    /// Parses the endpoint from a request's address; `source` is the path segment after `/mcp/`.
    ///
    /// # Errors
    /// Returns an error if the query cannot be parsed.
    pub fn from_request(source: Option<String>, uri: &Uri) -> Result<Self, ApiError> {
        let names = NameStyle::Native;
        let all = source.map_or(Self::AllSources { names, mode: None }, Self::Source);
        if uri.query().is_none_or(str::is_empty) {
            return Ok(all);
        }
        let bad = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
        let EndpointQuery { names, mode } = query_string::parse_query(uri).map_err(bad)?;
        let named = Self::with_names(all, names.as_deref()).map_err(bad)?;
        mode.map_or(Ok(named.clone()), |word| named.with_mode(&word)).map_err(bad)
    }

    /// Applies the requested mode.
    fn with_mode(self, word: &str) -> Result<Self, String> {
        let Some(mode) = ListingMode::parse(word) else {
            let word = word.escape_debug();
            return Err(format!("unknown mode `{word}`; use list, deferred, search or auto"));
        };
        match self {
            Self::AllSources { names, .. } => Ok(Self::AllSources { names, mode: Some(mode) }),
            source if mode == ListingMode::List => Ok(source),
            Self::Source(_) => Err(format!(
                "the endpoint of a single source lists its tools; use `/mcp?mode={word}`"
            )),
        }
    }

    /// Applies the requested style of names.
    fn with_names(all: Self, names: Option<&str>) -> Result<Self, String> {
        match (all, names) {
            (all, None) | (all @ Self::AllSources { .. }, Some("native")) => Ok(all),
            (Self::AllSources { mode, .. }, Some("safe")) => {
                Ok(Self::AllSources { names: NameStyle::Safe, mode })
            }
            (Self::AllSources { .. }, Some(word)) => {
                Err(format!("unknown names `{}`; use safe or native", word.escape_debug()))
            }
            (Self::Source(_), Some(_)) => {
                Err("the endpoint of a single source always uses native names; omit \
                    `names`"
                    .to_owned())
            }
        }
    }

    /// The key that sessions are bound to: the source name, a mode, or empty. No source has the
    /// name of a mode.
    pub(crate) fn binding_key(&self) -> &str {
        match self {
            Self::AllSources { mode: None | Some(ListingMode::List), .. } => "",
            Self::AllSources { mode: Some(ListingMode::Search), .. } => "?mode=search",
            Self::AllSources { mode: Some(ListingMode::Deferred), .. } => "?mode=deferred",
            Self::AllSources { mode: Some(ListingMode::Auto), .. } => "?mode=auto",
            Self::Source(source) => source,
        }
    }

    /// The parts that a sealed session or task id is bound to: organization, key and endpoint.
    pub(crate) fn owner_binding<'a>(&'a self, principal: &'a Principal) -> [&'a str; 3] {
        [principal.org().as_str(), principal.key_id(), self.binding_key()]
    }

    /// The source of a single-source endpoint.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Self::AllSources { .. } => None,
            Self::Source(source) => Some(source),
        }
    }

    /// Returns the source's catalog as visible in this view, or an error message.
    pub(crate) fn source_catalog<'v>(
        &self,
        view: &'v CatalogView,
    ) -> Result<Option<&'v Arc<SourceCatalog>>, String> {
        let Self::Source(source) = self else { return Ok(None) };
        let missing = || format!("no source `{}`", escape_input(source));
        view.source_catalog(source).map(Some).ok_or_else(missing)
    }

    /// Whether the endpoint contains a tool.
    pub(crate) fn contains_tool(&self, entry: &CatalogEntry) -> bool {
        self.source().is_none_or(|source| entry.tool_key.source.as_str() == source)
    }
}

/// Whether the source is an MCP server.
pub(crate) fn is_mcp_source(source_catalog: &SourceCatalog) -> bool {
    source_catalog.kind == MCP_KIND
}
