//! The rest of a list after the item that a cursor names, at the endpoint of all sources.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::SourceCatalog;
use gateway::CatalogView;
use tool::{Prompt, Resource};

use super::{
    PROMPT_METHOD, RESOURCE_METHOD, leads_to_source, listing_sources, named_source, prompt_sources,
};
use crate::qualified_uri::QualifiedUri;

/// A source, and the rest of its items of one kind.
pub(crate) type ItemsAfter<'v, T> = (&'v Arc<SourceCatalog>, &'v [T]);

/// The source of the prompt that the endpoint of all sources lists under this name, and its prompts after
/// that one.
pub(crate) fn listed_prompts_after<'v>(
    view: &'v CatalogView,
    name: &str,
) -> Option<ItemsAfter<'v, Prompt>> {
    let mut found = prompt_sources(view, PROMPT_METHOD, name);
    let (Some(item), None) = (found.next(), found.next()) else { return None };
    let source = view.source_catalog(item.source.source.as_str())?;
    Some((source, source.prompts_after(&item.own_name)?))
}

/// The source of the resource or template that the endpoint of all sources lists under this URI, and its
/// items of that kind after that one.
pub(crate) fn listed_resources_after<'v>(
    view: &'v CatalogView,
    uri: &str,
    is_template: bool,
) -> Option<ItemsAfter<'v, Resource>> {
    let named = QualifiedUri::parse_listed(uri)
        .and_then(|it| Some((named_source(view, RESOURCE_METHOD, &it)?, Cow::Owned(it.own))));
    let plain = || {
        let mut listed = listing_sources(view, RESOURCE_METHOD, uri);
        let found = listed.find(|source| leads_to_source(view, source.source.as_str(), uri))?;
        Some((found, Cow::Borrowed(uri)))
    };
    let (source, own) = named.or_else(plain)?;
    Some((source, source.resources_after(&own, is_template)?))
}
