//! The MCP endpoint of a request: all tools, or one source.

use std::sync::Arc;

use catalog::{Entry, Shelf};
use gateway::View;
use http::Uri;
use serde::Deserialize;
use tool::Code;

use server_core::error::ApiError;
use server_core::lists::Names;
use server_core::query;

/// The kind of sources whose native names and definitions are forwarded unchanged.
const MCP: &str = "mcp";

/// The endpoint of an MCP request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `/mcp`: all the caller's tools.
    All(Names),
    /// `/mcp/{source}`: one source as it is.
    Source(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    names: Option<String>,
}

impl Scope {
    /// Parses the endpoint from a request's address; `source` is the path segment after `/mcp/`.
    ///
    /// # Errors
    /// Returns an error if the query cannot be parsed.
    pub fn read(source: Option<String>, uri: &Uri) -> Result<Self, ApiError> {
        let all = source.map_or(Self::All(Names::Native), Self::Source);
        if uri.query().is_none_or(str::is_empty) {
            return Ok(all);
        }
        let bad = |message: String| ApiError::new(Code::InvalidRequest, message);
        let Asked { names } = query::read(uri).map_err(bad)?;
        match (all, names.as_deref()) {
            (all, None) | (all @ Self::All(_), Some("native")) => Ok(all),
            (Self::All(_), Some("safe")) => Ok(Self::All(Names::Safe)),
            (Self::All(_), Some(word)) => {
                Err(bad(format!("unknown names `{}`; use safe or native", word.escape_debug())))
            }
            (Self::Source(_), Some(_)) => {
                Err(bad("a source's own endpoint has its own names; leave `names` out".to_owned()))
            }
        }
    }

    /// The key that sessions are bound to: the source name, or empty.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::All(_) => "",
            Self::Source(source) => source,
        }
    }

    /// The source of a single-source endpoint.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Self::All(_) => None,
            Self::Source(source) => Some(source),
        }
    }

    /// Returns the source's catalog as visible in this view, or an error message.
    pub(crate) fn shelf<'v>(&self, view: &'v View) -> Result<Option<&'v Arc<Shelf>>, String> {
        let Self::Source(source) = self else { return Ok(None) };
        let shown: String = source.chars().take(128).collect();
        let missing = || format!("there is no source `{}` here", shown.escape_debug());
        view.shelf(source).map(Some).ok_or_else(missing)
    }

    /// Whether the endpoint contains a tool.
    pub(crate) fn holds(&self, entry: &Entry) -> bool {
        self.source().is_none_or(|source| entry.key.source.as_str() == source)
    }
}

/// Whether the source is an MCP server.
pub(crate) fn speaks_mcp(shelf: &Shelf) -> bool {
    shelf.kind == MCP
}
