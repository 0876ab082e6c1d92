//! What of the catalog an endpoint offers.

use std::sync::Arc;

use catalog::{Entry, Shelf};
use gateway::View;
use http::Uri;
use serde::Deserialize;
use tool::Code;

use server_core::error::ApiError;
use server_core::lists::Names;
use server_core::query;

/// The kind of sources whose own names and definitions are passed on as they are.
const MCP: &str = "mcp";

/// Which endpoint.
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
    /// Of a request's address; `source` is the part of the path behind `/mcp/`.
    ///
    /// # Errors
    /// Where the query cannot be read.
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

    /// What sessions are bound to.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::All(_) => "",
            Self::Source(source) => source,
        }
    }

    /// The source, where it is one.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Self::All(_) => None,
            Self::Source(source) => Some(source),
        }
    }

    /// The source's shelf, as far as this view has one; an error's message where it has none.
    pub(crate) fn shelf<'v>(&self, view: &'v View) -> Result<Option<&'v Arc<Shelf>>, String> {
        let Self::Source(source) = self else { return Ok(None) };
        let shown: String = source.chars().take(128).collect();
        let missing = || format!("there is no source `{}` here", shown.escape_debug());
        view.shelf(source).map(Some).ok_or_else(missing)
    }

    /// Whether a tool belongs here.
    pub(crate) fn holds(&self, entry: &Entry) -> bool {
        self.source().is_none_or(|source| entry.key.source.as_str() == source)
    }
}

/// Whether a source speaks MCP itself.
pub(crate) fn speaks_mcp(shelf: &Shelf) -> bool {
    shelf.kind == MCP
}
