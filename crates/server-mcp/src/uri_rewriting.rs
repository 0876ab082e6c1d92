//! Writes the URIs of a source as clients of the endpoint of all sources must name them: a URI that
//! would lead to another source, or to several, gets the name of its source.

use std::sync::Arc;

use catalog::{CatalogEntry, SourceCatalog};
use gateway::CatalogView;
use tool::call_outcome::CallResponse;
use tool::{ExecutionState, Json, OutcomeBody, Skill};

use super::endpoint::Endpoint;
use super::qualified_uri::qualify_uri;
use super::source_items::{RESOURCE_METHOD, SourceItem, leads_to_source};

/// Members of results that hold content with URIs.
const CONTENT_LISTS: [&str; 4] = ["content", "contents", "messages", DIRECTORY_LIST];
/// The member of a result that holds the entries of a directory.
const DIRECTORY_LIST: &str = "resources";
/// The older place of the address of a tool's user interface, which servers of the official package write
/// beside the newer one.
const FLAT_UI_LINK: &str = "ui/resourceUri";

/// The name of a resource or template of a source at the endpoint of all sources, if it differs from
/// its URI.
pub(crate) fn qualify_if_shared(view: &CatalogView, source: &str, uri: &str) -> Option<String> {
    (!leads_to_source(view, source, uri)).then(|| qualify_uri(source, uri))
}

/// Writes the address of the user interface of a tool (`_meta.ui.resourceUri`, and `ui/resourceUri` of
/// `_meta`, its older place) as the endpoint of all sources lists it.
pub(crate) fn rewrite_tool_link(view: &CatalogView, entry: &CatalogEntry, tool: Json) -> Json {
    if !tool.as_str().contains("ui://") {
        return tool;
    }
    let Some(meta) = tool.get("_meta") else { return tool };
    let source = entry.tool_key.source.as_str();
    let rewritten = |object: &Json, member: &str| {
        let uri = object.get(member)?;
        let qualified = qualify_if_shared(view, source, &uri.string_value()?)?;
        Some(object.with_member(member, &Json::encode(&qualified)))
    };
    let flat = rewritten(&meta, FLAT_UI_LINK);
    let nested = meta.get("ui").and_then(|ui| rewritten(&ui, "resourceUri"));
    if flat.is_none() && nested.is_none() {
        return tool;
    }
    let meta = flat.unwrap_or(meta);
    let meta = nested.map_or_else(|| meta.clone(), |ui| meta.with_member("ui", &ui));
    tool.with_member("_meta", &meta)
}

/// The entry of a skill at the endpoint of all sources. If any of its URIs is qualified, all are, so that its relative references lead to the same source.
pub(crate) fn rewrite_skill(view: &CatalogView, source: &str, skill: &Skill) -> Json {
    let files = skill.files.iter().flatten().map(|file| file.uri.as_str());
    let mut uris = files.chain([skill.uri.as_str()]);
    let entry = skill.raw_definition.clone();
    if uris.all(|uri| leads_to_source(view, source, uri)) {
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
    /// The requested URI at the source, and as the client named it.
    requested: Option<(String, String)>,
    /// The form of URIs that are neither the requested one nor listed.
    form: UriForm,
}

/// The form of URIs in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UriForm {
    /// As the source wrote them.
    AsReceived,
    /// With the name of the source, if they would not lead to it.
    QualifiedIfShared,
    /// With the name of the source, as the one that the client requested.
    Qualified,
}

impl UriRewriter {
    /// Creates the rewriter of a tool's results; `None` at the endpoint of one source, and if the
    /// caller may read no resources of the source.
    pub(crate) fn for_tool(
        endpoint: &Endpoint,
        view: &Arc<CatalogView>,
        name: &str,
    ) -> Option<Box<Self>> {
        let Endpoint::AllSources { .. } = endpoint else { return None };
        let (entry, _) = view.find_tool(name)?;
        view.find_method(entry.tool_key.source.as_str(), RESOURCE_METHOD)?;
        let source = view.source_catalog(entry.tool_key.source.as_str())?;
        Some(Box::new(Self::new(view, source, UriForm::QualifiedIfShared)))
    }

    /// Creates the rewriter of results of a method of this source.
    pub(crate) fn for_method(
        endpoint: &Endpoint,
        view: &Arc<CatalogView>,
        source: &Arc<SourceCatalog>,
    ) -> Option<Box<Self>> {
        let Endpoint::AllSources { .. } = endpoint else { return None };
        Some(Box::new(Self::new(view, source, UriForm::QualifiedIfShared)))
    }

    /// Creates the rewriter of the entries of a directory, at each endpoint: those that pins block are
    /// left out.
    pub(crate) fn for_directory(
        endpoint: &Endpoint,
        view: &Arc<CatalogView>,
        item: &SourceItem,
        requested: &str,
    ) -> Self {
        let form = match endpoint {
            Endpoint::Source(_) => UriForm::AsReceived,
            Endpoint::AllSources { .. } if item.own_name == requested => UriForm::QualifiedIfShared,
            Endpoint::AllSources { .. } => UriForm::Qualified,
        };
        Self::new(view, &item.source, form)
    }

    fn new(view: &Arc<CatalogView>, source: &Arc<SourceCatalog>, form: UriForm) -> Self {
        let (view, source) = (Arc::clone(view), Arc::clone(source));
        Self { view, source, requested: None, form }
    }

    /// Sets the URI at the source, and the one by which the client requested it.
    pub(crate) fn set_requested(&mut self, own: &str, requested: &str) {
        self.requested = Some((own.to_owned(), requested.to_owned()));
    }

    /// The URI for the client, if it differs from the source's.
    fn client_uri(&self, own: &str) -> Option<String> {
        match &self.requested {
            Some((requested_own, requested)) if requested_own == own => Some(requested.clone()),
            _ => match self.form {
                UriForm::AsReceived => None,
                UriForm::Qualified => Some(qualify_uri(self.source.source.as_str(), own)),
                UriForm::QualifiedIfShared => {
                    qualify_if_shared(&self.view, self.source.source.as_str(), own)
                }
            },
        }
    }

    /// Rewrites `uri` of an object.
    fn rewrite_member(&self, object: Json) -> Json {
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

    /// Whether no pin blocks the entry of a directory.
    fn is_usable(&self, entry: &Json) -> bool {
        let uri = entry.get("uri");
        let uri = uri.as_ref().and_then(Json::string_value);
        uri.is_none_or(|uri| {
            self.source.lists_uri(&uri)
                || self.source.has_skill_directory(&uri)
                || !(self.source.is_resource_blocked(&uri)
                    || self.source.is_directory_blocked(&uri))
        })
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
            let kept =
                received.iter().filter(|block| list != DIRECTORY_LIST || self.is_usable(block));
            let rewritten: Vec<_> = kept.map(|block| self.rewrite_block(block.clone())).collect();
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
