//! Finds the prompts, resources and templates of one source by the names that its clients use, and
//! says which of them are held back by their pins.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tool::{FastMap, Json, Prompt, Resource};

use crate::companion_items::CompanionContent;
use crate::source_catalog::SourceCatalog;
use crate::uri_template::matches_template;

/// Maximum number of schemes that are kept of one source.
const MAX_SCHEMES: usize = 64;

/// An item of a source as its pin leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinnedItem<'a, T> {
    /// The item is listed and may be used.
    Listed(&'a T),
    /// The source offers the item, and its pin blocks it.
    Blocked,
}

/// Index in the list of usable items; `None` if the item is blocked.
type ItemIndex = Option<usize>;

/// Indices of the items of one source, built once per listing and set of pins.
#[derive(Debug, Default)]
pub(crate) struct CompanionLookup {
    prompts: FastMap<Box<str>, ItemIndex>,
    resources: FastMap<Box<str>, ItemIndex>,
    templates: FastMap<Box<str>, ItemIndex>,
    /// Schemes of its usable resources and templates, each once.
    schemes: Vec<Box<str>>,
    prompt_fingerprint: u64,
    resource_fingerprint: u64,
}

/// Returns the scheme of a URI or template; `None` if it is relative or an expression.
fn literal_scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once(':')?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (!scheme.is_empty() && scheme.bytes().all(fits)).then_some(scheme)
}

/// Returns the name of a prompt at its source, which is a member of its definition.
pub(crate) fn own_prompt_name(definition: &Json) -> Box<str> {
    definition.get("name").and_then(|name| Some(name.string_value()?.into())).unwrap_or_default()
}

impl CompanionLookup {
    pub(crate) fn new(source_catalog: &SourceCatalog) -> Self {
        let mut lookup = Self::default();
        let mut digest = DefaultHasher::new();
        for (index, prompt) in source_catalog.prompts.iter().enumerate() {
            prompt.raw_definition.hash(&mut digest);
            let own = own_prompt_name(&prompt.raw_definition);
            lookup.prompts.entry(own).or_insert(Some(index));
        }
        lookup.prompt_fingerprint = digest.finish();
        let mut digest = DefaultHasher::new();
        for (index, resource) in source_catalog.resources.iter().enumerate() {
            resource.raw_definition.hash(&mut digest);
            lookup.uris_of(resource).entry(resource.uri.as_str().into()).or_insert(Some(index));
            if let Some(scheme) = literal_scheme(&resource.uri)
                && !lookup.schemes.iter().any(|known| **known == *scheme)
                && lookup.schemes.len() < MAX_SCHEMES
            {
                lookup.schemes.push(scheme.into());
            }
        }
        lookup.resource_fingerprint = digest.finish();
        for item in &source_catalog.companion_items {
            match &item.content {
                CompanionContent::Prompt(prompt) => {
                    let own = own_prompt_name(&prompt.raw_definition);
                    lookup.prompts.entry(own).or_insert(None);
                }
                CompanionContent::Resource(resource) => {
                    lookup.uris_of(resource).entry(resource.uri.as_str().into()).or_insert(None);
                }
                CompanionContent::Instructions => {}
            }
        }
        lookup
    }

    fn uris_of(&mut self, resource: &Resource) -> &mut FastMap<Box<str>, ItemIndex> {
        if resource.is_template { &mut self.templates } else { &mut self.resources }
    }
}

fn pinned_item<'a, T>(items: &'a [T], found: Option<&ItemIndex>) -> Option<PinnedItem<'a, T>> {
    match found? {
        Some(index) => items.get(*index).map(PinnedItem::Listed),
        None => Some(PinnedItem::Blocked),
    }
}

impl SourceCatalog {
    /// Finds a prompt by its name at the source.
    pub fn find_prompt(&self, own_name: &str) -> Option<PinnedItem<'_, Prompt>> {
        pinned_item(&self.prompts, self.companion_lookup().prompts.get(own_name))
    }

    /// Finds a resource by its URI at the source; templates are not expanded.
    pub fn find_resource(&self, uri: &str) -> Option<PinnedItem<'_, Resource>> {
        pinned_item(&self.resources, self.companion_lookup().resources.get(uri))
    }

    /// Finds a template of resources by its text.
    pub fn find_template(&self, uri_template: &str) -> Option<PinnedItem<'_, Resource>> {
        pinned_item(&self.resources, self.companion_lookup().templates.get(uri_template))
    }

    /// Returns true if the source offers the resource of this URI, and its pin, or those of all
    /// templates that match it, block it.
    pub fn is_resource_blocked(&self, uri: &str) -> bool {
        match self.find_resource(uri) {
            Some(PinnedItem::Blocked) => true,
            Some(PinnedItem::Listed(_)) => false,
            None => {
                let mut matching = self.matching_templates(uri).peekable();
                matching.peek().is_some() && matching.all(|(_, index)| index.is_none())
            }
        }
    }

    /// Returns true if a usable template with a literal scheme matches the URI.
    pub fn has_template_for(&self, uri: &str) -> bool {
        self.matching_templates(uri)
            .any(|(template, index)| index.is_some() && literal_scheme(template).is_some())
    }

    /// Returns true if a usable resource or template has the scheme of this URI.
    pub fn has_scheme_of(&self, uri: &str) -> bool {
        let Some(scheme) = literal_scheme(uri) else { return false };
        self.companion_lookup().schemes.iter().any(|known| **known == *scheme)
    }

    fn matching_templates<'a>(
        &'a self,
        uri: &'a str,
    ) -> impl Iterator<Item = (&'a str, ItemIndex)> {
        let templates = self.companion_lookup().templates.iter();
        templates
            .filter(|(template, _)| matches_template(template, uri))
            .map(|(template, index)| (&**template, *index))
    }

    /// Returns a hash of the usable prompts; equal while they are unchanged.
    pub fn prompt_fingerprint(&self) -> u64 {
        self.companion_lookup().prompt_fingerprint
    }

    /// Returns a hash of the usable resources and templates; equal while they are unchanged.
    pub fn resource_fingerprint(&self) -> u64 {
        self.companion_lookup().resource_fingerprint
    }
}
