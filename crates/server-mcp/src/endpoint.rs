//! The MCP endpoint of a request: all sources, or one.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{CatalogEntry, SourceCatalog};
use gateway::CatalogView;
use http::Uri;
use identity::{Principal, RequestRestrictions};
use serde::Deserialize;
use tool::ErrorCode;

use super::request_headers::escape_input;
use crate::McpServerState;
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
        /// The toolset that narrows it: `/mcp/{toolset}`.
        toolset: Option<ToolsetBinding>,
    },
    /// `/mcp/{source}`: one source as it is.
    Source(String),
}

/// The toolset of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ToolsetBinding {
    name: Box<str>,
    /// The key that sessions are bound to.
    binding_key: Box<str>,
}

impl ToolsetBinding {
    /// The name of the toolset.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The address of a request, parsed once for a connection. Whether a path segment names a toolset
/// or a source is decided for each request: a toolset keeps its address if a source takes its name.
#[derive(Debug, Clone)]
pub struct EndpointAddress {
    /// The endpoint, if the segment names no toolset.
    endpoint: Result<Endpoint, ApiError>,
    /// The name and the endpoint, if it does.
    toolset: Option<(Box<str>, Result<Endpoint, ApiError>)>,
}

impl EndpointAddress {
    /// Parses the address of a request; `segment` is the path segment after `/mcp/`.
    pub fn from_request(segment: Option<String>, uri: &Uri) -> Self {
        let toolset = segment.as_deref().map(|name| {
            let endpoint = Endpoint::from_request(None, uri);
            (name.into(), endpoint.map(|endpoint| endpoint.with_toolset(name)))
        });
        Self { endpoint: Endpoint::from_request(segment, uri), toolset }
    }

    /// Resolves the endpoint that the address names for a caller at this moment. Of a toolset that the
    /// caller may not use, each option of the address is refused as of a source, so that none tells
    /// whether it exists; nor does a source get the address then.
    ///
    /// # Errors
    /// Returns an error if the query cannot be parsed.
    pub fn resolve(
        &self,
        state: &McpServerState,
        principal: &Principal,
    ) -> Result<&Endpoint, ApiError> {
        let gateway = &state.components.gateway;
        let found = match &self.toolset {
            Some((name, endpoint)) if gateway.has_toolset(name) => {
                let restrictions = RequestRestrictions::to_toolset(name.as_ref());
                let narrowed = principal.with_restrictions(&restrictions);
                let may_use = gateway.may_use_toolset(narrowed.rights_class());
                if may_use || self.endpoint.is_ok() { endpoint } else { &self.endpoint }
            }
            _ => &self.endpoint,
        };
        found.as_ref().map_err(Clone::clone)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointQuery {
    names: Option<String>,
    mode: Option<String>,
}

impl Endpoint {
    /// Parses the endpoint from a request's address; `source` is the path segment after `/mcp/`.
    fn from_request(source: Option<String>, uri: &Uri) -> Result<Self, ApiError> {
        let names = NameStyle::Native;
        let all =
            source.map_or(Self::AllSources { names, mode: None, toolset: None }, Self::Source);
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
            Self::AllSources { names, toolset, .. } => {
                Ok(Self::AllSources { names, mode: Some(mode), toolset })
            }
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
            (Self::AllSources { mode, toolset, .. }, Some("safe")) => {
                Ok(Self::AllSources { names: NameStyle::Safe, mode, toolset })
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

    /// Returns the same endpoint of a toolset.
    fn with_toolset(self, name: &str) -> Self {
        let binding_key = format!("toolset {name}{}", self.binding_key()).into();
        let binding = ToolsetBinding { name: name.into(), binding_key };
        match self {
            Self::AllSources { names, mode, .. } => {
                Self::AllSources { names, mode, toolset: Some(binding) }
            }
            source @ Self::Source(_) => source,
        }
    }

    /// The toolset of the endpoint.
    pub(crate) fn toolset(&self) -> Option<&ToolsetBinding> {
        match self {
            Self::AllSources { toolset, .. } => toolset.as_ref(),
            Self::Source(_) => None,
        }
    }

    /// Returns the principal, narrowed to the toolset of the endpoint.
    pub(crate) fn narrow_principal<'p>(&self, principal: &'p Principal) -> Cow<'p, Principal> {
        match self.toolset() {
            Some(toolset) => {
                let restrictions = RequestRestrictions::to_toolset(toolset.name());
                Cow::Owned(principal.with_restrictions(&restrictions))
            }
            None => Cow::Borrowed(principal),
        }
    }

    /// The key that sessions are bound to: the source name, a toolset, a mode, or empty. No source
    /// has the name of a toolset's key or of a mode.
    pub(crate) fn binding_key(&self) -> &str {
        match self {
            Self::AllSources { toolset: Some(toolset), .. } => &toolset.binding_key,
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

    /// Returns the source's catalog as visible in this view, or an error message. It is the same for
    /// a toolset that the caller may not use: the address does not say which of them exists.
    pub(crate) fn source_catalog<'v>(
        &self,
        view: &'v CatalogView,
    ) -> Result<Option<&'v Arc<SourceCatalog>>, String> {
        let missing = |name| format!("no source `{}`", escape_input(name));
        match self {
            Self::AllSources { toolset: None, .. } => Ok(None),
            Self::AllSources { toolset: Some(toolset), .. } => {
                view.toolset().map(|_| None).ok_or_else(|| missing(toolset.name()))
            }
            Self::Source(source) => {
                view.source_catalog(source).map(Some).ok_or_else(|| missing(source))
            }
        }
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
