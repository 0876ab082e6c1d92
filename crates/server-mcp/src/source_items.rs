//! Finds the source of the prompt, resource or event type that a request names. At the endpoint of one
//! source, names and URIs are the source's own. At the endpoint of all sources, prompts and event types
//! are named `SOURCE.NAME`, and a URI that several sources list names its source.

mod list_cursors;

use std::sync::Arc;

use catalog::{PinnedItem, SourceCatalog, split_qualified_name};
use gateway::CatalogView;
use http::StatusCode;
use mcp::extensions::catalog_method_name;
use mcp::{ProtocolEra, error_codes};
use server_core::event_log::EventKind;
use tool::{EventType, Json, MCP_METHODS, Skill};

pub(crate) use list_cursors::{ItemsAfter, listed_prompts_after, listed_resources_after};

use super::endpoint::Endpoint;
use super::qualified_uri::{QualifiedUri, qualify_uri};
use super::request_context::RequestContext;
use super::request_error::RequestError;
use super::request_headers::escape_input;

/// The method whose right decides whether a caller knows of prompts.
pub(crate) const PROMPT_METHOD: &str = "mcp.prompts.get";
/// The method whose right decides whether a caller knows of resources and templates.
pub(crate) const RESOURCE_METHOD: &str = "mcp.resources.read";

/// The method whose right decides whether a caller may read directories of resources.
pub(crate) const DIRECTORY_METHOD: &str = "mcp.resources.directory.read";

/// The method whose right decides whether a caller knows of event types.
pub(crate) const EVENT_METHOD: &str = "mcp.events.poll";

/// Maximum number of sources that an error names.
const MAX_CHOICES: usize = 8;

/// A prompt, resource, template, skill or event type at its source.
#[derive(Debug)]
pub(crate) struct SourceItem {
    pub(crate) source: Arc<SourceCatalog>,
    /// Its name or URI at the source.
    pub(crate) own_name: String,
}

impl SourceItem {
    fn new(source: &Arc<SourceCatalog>, own_name: &str) -> Self {
        Self { source: Arc::clone(source), own_name: own_name.to_owned() }
    }
}

/// Finds the prompt of this name, of a source of which the caller may use `method`. One that its pin
/// blocks does not exist.
pub(crate) fn find_prompt(
    request: &RequestContext<'_>,
    view: &CatalogView,
    (method, name): (&str, &str),
) -> Result<SourceItem, RequestError> {
    let unknown =
        || RequestError::invalid_params(format!("unknown prompt `{}`", escape_input(name)));
    if let Some(source) = endpoint_source(request, view, method)? {
        if source.find_prompt(name) == Some(PinnedItem::Blocked) {
            return Err(unknown());
        }
        return Ok(SourceItem::new(source, name));
    }
    let mut found = prompt_sources(view, method, name);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(unknown()),
    }
}

/// Finds the prompts of this name, by which a toolset may offer one: several if names of sources contain dots, and then none of them is
/// listed or served.
fn prompt_sources<'a>(
    view: &'a CatalogView,
    method: &'a str,
    name: &'a str,
) -> impl Iterator<Item = SourceItem> + 'a {
    // A given name has no dot, so for the others no source is visited.
    let given = (!name.contains('.')).then(|| view.sources_with_method(method));
    let renamed = given.into_iter().flatten().filter_map(move |source| {
        view.find_method(source.source.as_str(), PROMPT_METHOD)?;
        Some(SourceItem::new(source, &source.renamed_prompt(name)?))
    });
    let qualified = split_qualified_name(name).filter_map(move |(source, own)| {
        view.find_method(source, method)?;
        view.find_method(source, PROMPT_METHOD)?;
        let source = view.source_catalog(source)?;
        matches!(source.find_prompt(own), Some(PinnedItem::Listed(_)))
            .then(|| SourceItem::new(source, own))
    });
    renamed.chain(qualified)
}

/// Whether exactly one prompt has this name at the endpoint of all sources.
pub(crate) fn is_only_prompt(view: &CatalogView, name: &str) -> bool {
    prompt_sources(view, PROMPT_METHOD, name).nth(1).is_none()
}

/// The sources of which the caller may use a method, and knows the resources.
fn resource_sources<'v>(
    view: &'v CatalogView,
    method: &'v str,
) -> impl Iterator<Item = &'v Arc<SourceCatalog>> {
    view.sources_with_method(method)
        .filter(|source| view.find_method(source.source.as_str(), RESOURCE_METHOD).is_some())
}

/// The same sources, if they list this URI.
fn listing_sources<'v>(
    view: &'v CatalogView,
    method: &'v str,
    uri: &str,
) -> impl Iterator<Item = &'v Arc<SourceCatalog>> {
    view.sources_with_uri(method, uri)
        .filter(|source| view.find_method(source.source.as_str(), RESOURCE_METHOD).is_some())
}

/// Finds the source that serves the resource of this URI to callers of `method`. One that its pin
/// blocks does not exist; one that no list contains may.
pub(crate) fn find_resource(
    request: &RequestContext<'_>,
    view: &CatalogView,
    (method, uri): (&str, &str),
) -> Result<SourceItem, RequestError> {
    if let Some(item) = find_named_source(request, view, (method, uri))? {
        let found =
            Some(item).filter(|it| !SourceCatalog::is_resource_blocked(&it.source, &it.own_name));
        return found.ok_or_else(|| resource_not_found(request, uri));
    }
    choose_source(request, uri, &candidate_sources(view, method, uri))
}

/// Whether a caller may still use a method for a resource that was found for it before, by its own URI.
pub(crate) fn may_use_resource(
    (endpoint, view): (&Endpoint, &CatalogView),
    (source, method): (&str, &str),
    own_uri: &str,
) -> bool {
    let may = |method| view.find_method(source, method).is_some();
    may(method)
        && (endpoint.source().is_some() || may(RESOURCE_METHOD))
        && view.source_catalog(source).is_some_and(|source| !source.is_resource_blocked(own_uri))
}

/// The sources that a URI without the name of a source may mean: those that list it, else those with a
/// template for it, else those with its scheme.
fn candidate_sources<'v>(
    view: &'v CatalogView,
    method: &'v str,
    uri: &str,
) -> Vec<&'v Arc<SourceCatalog>> {
    let lists = |source: &SourceCatalog| {
        source.lists_uri(uri) || matches!(source.find_template(uri), Some(PinnedItem::Listed(_)))
    };
    let listed: Vec<_> =
        listing_sources(view, method, uri).filter(|source| lists(source)).collect();
    // A URI that names a source which is not there does not mean another one.
    if !listed.is_empty() || QualifiedUri::parse(uri).is_some() {
        return listed;
    }
    let all = resource_sources(view, method);
    let usable: Vec<_> = all.filter(|source| !source.is_resource_blocked(uri)).collect();
    let by_template: Vec<_> =
        usable.iter().copied().filter(|it| it.has_template_for(uri)).collect();
    if !by_template.is_empty() {
        return by_template;
    }
    usable.into_iter().filter(|it| it.has_scheme_of(uri)).collect()
}

/// Whether a URI without the name of a source leads to this one.
pub(crate) fn leads_to_source(view: &CatalogView, source: &str, uri: &str) -> bool {
    let candidates = candidate_sources(view, RESOURCE_METHOD, uri);
    matches!(candidates.as_slice(), [only] if only.source.as_str() == source)
        && find_qualified(view, RESOURCE_METHOD, uri).is_none()
}

/// Finds the skill of this `SKILL.md`. Skills that are not listed do not exist: their files have no
/// pin.
pub(crate) fn find_skill(
    request: &RequestContext<'_>,
    view: &CatalogView,
    uri: &str,
) -> Result<(SourceItem, Skill), RequestError> {
    let unknown = || RequestError::invalid_params(format!("unknown skill `{}`", escape_input(uri)));
    let listed = |source: &SourceCatalog, uri: &str| match source.find_skill(uri) {
        Some(PinnedItem::Listed(skill)) => Some(skill.clone()),
        Some(PinnedItem::Blocked) | None => None,
    };
    let item = if let Some(item) = find_named_source(request, view, (RESOURCE_METHOD, uri))? {
        item
    } else {
        let sources = view.sources_with_uri(RESOURCE_METHOD, uri);
        let candidates: Vec<_> = sources.filter(|it| listed(it, uri).is_some()).collect();
        match candidates.as_slice() {
            [] => return Err(unknown()),
            several => choose_source(request, uri, several)?,
        }
    };
    let skill = listed(&item.source, &item.own_name).ok_or_else(unknown)?;
    Ok((item, skill))
}

/// Finds the event type of a source by the name that it has at an endpoint. One that its pin blocks does
/// not exist. At the endpoint of all sources, neither does one whose name is that of an event of this
/// server, or that two sources could mean.
pub(crate) fn find_event(
    endpoint: &Endpoint,
    view: &CatalogView,
    name: &str,
) -> Option<(SourceItem, EventType)> {
    let listed = |source: &str, own: &str| {
        view.find_method(source, EVENT_METHOD)?;
        let source = view.source_catalog(source)?;
        match source.find_event(own)? {
            PinnedItem::Listed(event) => Some((SourceItem::new(source, own), event.clone())),
            PinnedItem::Blocked => None,
        }
    };
    if let Endpoint::Source(source) = endpoint {
        return listed(source, name);
    }
    if EventKind::parse(name).is_some() {
        return None;
    }
    let mut found = split_qualified_name(name).filter_map(|(source, own)| listed(source, own));
    found.next().filter(|_| found.next().is_none())
}

/// Finds the source that serves a directory of resources.
pub(crate) fn find_directory(
    request: &RequestContext<'_>,
    view: &CatalogView,
    uri: &str,
) -> Result<SourceItem, RequestError> {
    if let Some(item) = find_named_source(request, view, (DIRECTORY_METHOD, uri))? {
        let found =
            Some(item).filter(|it| !SourceCatalog::is_directory_blocked(&it.source, &it.own_name));
        return found.ok_or_else(|| resource_not_found(request, uri));
    }
    if QualifiedUri::parse(uri).is_some() {
        return Err(resource_not_found(request, uri));
    }
    let all: Vec<_> = resource_sources(view, DIRECTORY_METHOD)
        .filter(|source| !source.is_directory_blocked(uri))
        .collect();
    let of_skills: Vec<_> =
        all.iter().copied().filter(|source| source.has_skill_directory(uri)).collect();
    let by_scheme = || all.iter().copied().filter(|source| source.has_scheme_of(uri)).collect();
    let candidates = Some(of_skills).filter(|found| !found.is_empty()).unwrap_or_else(by_scheme);
    choose_source(request, uri, &candidates)
}

/// Finds the template, or resource, that a completion refers to.
pub(crate) fn find_template(
    request: &RequestContext<'_>,
    view: &CatalogView,
    (method, uri): (&str, &str),
) -> Result<SourceItem, RequestError> {
    if let Some(item) = find_named_source(request, view, (method, uri))? {
        let found = Some(item).filter(|it| !it.source.is_template_blocked(&it.own_name));
        return found.ok_or_else(|| resource_not_found(request, uri));
    }
    let listed: Vec<_> = listing_sources(view, method, uri).collect();
    choose_source(request, uri, &listed)
}

/// Returns the endpoint's source if it is one that serves one source and the caller may use
/// `method` of it.
pub(crate) fn endpoint_source<'v>(
    request: &RequestContext<'_>,
    view: &'v CatalogView,
    method: &str,
) -> Result<Option<&'v Arc<SourceCatalog>>, RequestError> {
    let Endpoint::Source(source) = request.caller.endpoint else { return Ok(None) };
    let found = view.find_method(source, method).and_then(|_| view.source_catalog(source));
    found.map(Some).ok_or_else(|| request.method_not_found())
}

/// Returns the name in the catalog of a method of an extension; `None` for those of MCP itself, which have
/// handlers, and for what cannot be a method.
pub(crate) fn extension_method_name(method: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-/".contains(&byte);
    let is_plain = method.contains('/') && method.bytes().all(fits);
    let name = is_plain.then(|| catalog_method_name(method))?;
    (!MCP_METHODS.iter().any(|own| own.name == name)).then_some(name)
}

/// Returns the only source that has a method, or an error that names the choices.
pub(crate) fn choose_method_source<'v>(
    request: &RequestContext<'_>,
    candidates: &[&'v Arc<SourceCatalog>],
) -> Result<&'v Arc<SourceCatalog>, RequestError> {
    match candidates {
        [] => Err(request.method_not_found()),
        [only] => Ok(only),
        several => {
            let shown = several.iter().take(MAX_CHOICES);
            let choices: Vec<_> =
                shown.map(|it| format!("`/mcp/{}`", escape_input(it.source.as_str()))).collect();
            Err(RequestError::invalid_params(format!(
                "several sources have the method `{}`; use {}",
                escape_input(request.method),
                choices.join(" or ")
            )))
        }
    }
}

/// Finds the source that the endpoint or the URI names; `None` if neither does.
fn find_named_source(
    request: &RequestContext<'_>,
    view: &CatalogView,
    (method, uri): (&str, &str),
) -> Result<Option<SourceItem>, RequestError> {
    let of_endpoint = endpoint_source(request, view, method)?;
    let of_endpoint = of_endpoint.map(|source| SourceItem::new(source, uri));
    Ok(of_endpoint.or_else(|| find_qualified(view, method, uri)))
}

/// The source that a qualified URI names.
fn named_source<'v>(
    view: &'v CatalogView,
    method: &'v str,
    uri: &QualifiedUri<'_>,
) -> Option<&'v Arc<SourceCatalog>> {
    resource_sources(view, method).find(|source| uri.names_source(source.source.as_str()))
}

/// Finds the source that a qualified URI names, with the URI there.
fn find_qualified(view: &CatalogView, method: &str, uri: &str) -> Option<SourceItem> {
    let qualified = QualifiedUri::parse(uri)?;
    let source = Arc::clone(named_source(view, method, &qualified)?);
    Some(SourceItem { source, own_name: qualified.own })
}

/// Returns the only candidate, or an error that says how to choose among several.
fn choose_source(
    request: &RequestContext<'_>,
    uri: &str,
    candidates: &[&Arc<SourceCatalog>],
) -> Result<SourceItem, RequestError> {
    match candidates {
        [] => Err(resource_not_found(request, uri)),
        [only] => Ok(SourceItem::new(only, uri)),
        several => {
            let shown = several.iter().take(MAX_CHOICES);
            let choices: Vec<_> = shown
                .map(|source| {
                    format!("`{}`", escape_input(&qualify_uri(source.source.as_str(), uri)))
                })
                .collect();
            Err(RequestError::invalid_params(format!(
                "several sources have the resource `{}`; use {}",
                escape_input(uri),
                choices.join(" or ")
            )))
        }
    }
}

fn resource_not_found(request: &RequestContext<'_>, uri: &str) -> RequestError {
    let code = match request.era {
        ProtocolEra::Stateless => error_codes::INVALID_PARAMS,
        ProtocolEra::Handshake => error_codes::RESOURCE_NOT_FOUND,
    };
    let message = format!("unknown resource `{}`", escape_input(uri));
    let mut error = RequestError::new(StatusCode::OK, code, message);
    error.error.data = Some(Json::object_from([("uri", &Json::encode(uri))]));
    error
}
