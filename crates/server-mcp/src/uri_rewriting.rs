//! Writes the URIs of a source as clients of the endpoint of all sources must name them: a URI that
//! other sources of the caller list too gets the name of its source.

use std::sync::Arc;

use catalog::{CatalogEntry, SourceCatalog};
use gateway::CatalogView;
use tool::call_outcome::CallResponse;
use tool::{ExecutionState, Json, OutcomeBody, Skill};

use super::endpoint::Endpoint;
use super::qualified_uri::qualify_uri;
use super::source_items::RESOURCE_METHOD;

/// Members of results that hold content with URIs.
const CONTENT_LISTS: [&str; 4] = ["content", "contents", "messages", "resources"];

/// Whether several sources of the view list a resource or template of this URI.
fn is_shared_uri(view: &CatalogView, uri: &str) -> bool {
    view.sources_with_uri(RESOURCE_METHOD, uri).nth(1).is_some()
}

/// The name of a listed resource or template at the endpoint of all sources, if it differs from
/// its URI.
pub(crate) fn qualify_if_shared(view: &CatalogView, source: &str, uri: &str) -> Option<String> {
    is_shared_uri(view, uri).then(|| qualify_uri(source, uri))
}

/// Writes the address of the user interface of a tool (`_meta.ui.resourceUri`) as the endpoint of
/// all sources lists it.
pub(crate) fn rewrite_tool_link(view: &CatalogView, entry: &CatalogEntry, tool: Json) -> Json {
    if !tool.as_str().contains("ui://") {
        return tool;
    }
    let source = entry.tool_key.source.as_str();
    let rewritten = || {
        let meta = tool.get("_meta")?;
        let ui = meta.get("ui")?;
        let uri = ui.get("resourceUri")?;
        let qualified = qualify_if_shared(view, source, &uri.string_value()?)?;
        let ui = ui.with_member("resourceUri", &Json::encode(&qualified));
        Some(tool.with_member("_meta", &meta.with_member("ui", &ui)))
    };
    rewritten().unwrap_or(tool)
}

/// The entry of a skill at the endpoint of all sources. If any of its URIs is shared, all are
/// qualified, so that its relative references lead to the same source.
pub(crate) fn rewrite_skill(view: &CatalogView, source: &str, skill: &Skill) -> Json {
    let files = skill.files.iter().flatten().map(|file| file.uri.as_str());
    let mut uris = files.chain([skill.uri.as_str()]);
    let entry = skill.raw_definition.clone();
    if !uris.any(|uri| is_shared_uri(view, uri)) {
        return entry;
    }
    let qualified = |object: Json| {
        let uri = object.get("uri");
        match uri.as_ref().and_then(Json::string_value) {
            Some(uri) => object.with_member("uri", &Json::encode(&qualify_uri(source, &uri))),
            None => object,
        }
    };
    let entry = qualified(entry);
    let resources = entry.get("resources").filter(|resources| resources.kind() == "array");
    let Some(resources) = resources else { return entry };
    let rewritten: Vec<_> = resources.elements().into_iter().map(qualified).collect();
    entry.with_member("resources", &Json::array_of(&rewritten))
}

/// Rewrites the URIs in results of one source.
#[derive(Debug)]
pub(crate) struct UriRewriter {
    view: Arc<CatalogView>,
    source: Arc<SourceCatalog>,
    /// The URI at the source that the client requested by another.
    requested: Option<(String, String)>,
    /// Whether all URIs get the name of the source, as the one that the client requested has it.
    qualifies_all: bool,
}

impl UriRewriter {
    /// Creates the rewriter of a tool's results; `None` at the endpoint of one source, and if the
    /// source has no resources.
    pub(crate) fn for_tool(
        endpoint: &Endpoint,
        view: &Arc<CatalogView>,
        name: &str,
    ) -> Option<Box<Self>> {
        let Endpoint::AllSources { .. } = endpoint else { return None };
        let (entry, _) = view.find_tool(name)?;
        let source = view.source_catalog(entry.tool_key.source.as_str())?;
        let (view, source) = (Arc::clone(view), Arc::clone(source));
        (!source.resources.is_empty())
            .then(|| Box::new(Self { view, source, requested: None, qualifies_all: false }))
    }

    /// Creates the rewriter of results of a method of this source.
    pub(crate) fn for_method(
        endpoint: &Endpoint,
        view: &Arc<CatalogView>,
        source: &Arc<SourceCatalog>,
    ) -> Option<Box<Self>> {
        let Endpoint::AllSources { .. } = endpoint else { return None };
        let (view, source) = (Arc::clone(view), Arc::clone(source));
        Some(Box::new(Self { view, source, requested: None, qualifies_all: false }))
    }

    /// Qualifies the entries of a directory if the client requested it by a qualified URI.
    pub(crate) fn set_requested_directory(&mut self, own: &str, requested: &str) {
        self.qualifies_all = own != requested;
    }

    /// Sets the URI at the source, and the one by which the client requested it.
    pub(crate) fn set_requested(&mut self, own: &str, requested: &str) {
        self.requested = (own != requested).then(|| (own.to_owned(), requested.to_owned()));
    }

    /// The URI for the client, if it differs from the source's.
    fn client_uri(&self, own: &str) -> Option<String> {
        match &self.requested {
            Some((requested_own, requested)) if requested_own == own => Some(requested.clone()),
            _ if self.qualifies_all => Some(qualify_uri(self.source.source.as_str(), own)),
            _ => qualify_if_shared(&self.view, self.source.source.as_str(), own),
        }
    }

    /// Rewrites `uri` of an object.
    pub(crate) fn rewrite_member(&self, object: Json) -> Json {
        let uri = object.get("uri");
        let uri = uri.as_ref().and_then(Json::string_value);
        match uri.and_then(|uri| self.client_uri(&uri)) {
            Some(uri) => object.with_member("uri", &Json::encode(&uri)),
            None => object,
        }
    }

    /// Rewrites the URIs of a content block, of an embedded resource, or of a prompt's message.
    fn rewrite_block(&self, block: Json) -> Json {
        let mut block = self.rewrite_member(block);
        for inner in ["resource", "content"] {
            if let Some(part) = block.get(inner).filter(|part| part.kind() == "object") {
                let rewritten = self.rewrite_block(part.clone());
                if rewritten != part {
                    block = block.with_member(inner, &rewritten);
                }
            }
        }
        block
    }

    fn rewrite_result(&self, mut result: Json) -> Json {
        if !result.as_str().contains("\"uri\"") {
            return result;
        }
        for list in CONTENT_LISTS {
            let Some(blocks) = result.get(list).filter(|list| list.kind() == "array") else {
                continue;
            };
            let received = blocks.elements();
            let rewritten: Vec<_> =
                received.iter().map(|block| self.rewrite_block(block.clone())).collect();
            if rewritten != received {
                result = result.with_member(list, &Json::array_of(&rewritten));
            }
        }
        result
    }

    /// Rewrites the result of a call.
    pub(crate) fn rewrite_response(&self, response: &mut CallResponse) {
        if let Ok(ExecutionState::Completed(outcome)) = &mut response.result
            && let OutcomeBody::Mcp(json) = &mut outcome.body
        {
            *json = self.rewrite_result(json.clone());
        }
    }
}
