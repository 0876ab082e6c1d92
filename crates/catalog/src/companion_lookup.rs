//! Finds the prompts, resources, templates, skills and event types of one source by the names that its
//! clients use, and says which of them are held back by their pins.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tool::{EventType, FastMap, Json, Prompt, Resource, Skill};

use crate::companion_items::CompanionContent;
use crate::source_catalog::SourceCatalog;
use crate::uri_template::matches_template;

/// Maximum number of templates of one source that a URI is matched against.
const MAX_MATCHED_TEMPLATES: usize = 256;
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
    /// Usable prompts by the names under which a toolset offers them; empty for whole sources.
    offered_prompts: FastMap<Box<str>, usize>,
    resources: FastMap<Box<str>, ItemIndex>,
    templates: FastMap<Box<str>, ItemIndex>,
    skills: FastMap<Box<str>, ItemIndex>,
    events: FastMap<Box<str>, ItemIndex>,
    /// Files of skills, with whether any usable skill has them.
    skill_files: FastMap<Box<str>, bool>,
    /// Directories of skills whose entries list all files, or whose pins block them.
    closed_directories: Vec<Box<str>>,
    /// The literal beginnings of blocked templates.
    blocked_prefixes: Vec<Box<str>>,
    /// Whether a pin blocks any resource, template or skill.
    has_blocked: bool,
    /// Schemes of its usable resources, templates and skills, each once.
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

/// Returns true if a URI has another spelling for some servers: dot segments, or characters that need
/// no percent-encoding and have one.
fn is_disguised_uri(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let has_dots = path.split('/').any(|part| matches!(part, "." | ".."));
    let encodes_plain = |at: usize| {
        let digits = uri.get(at + 1..at + 3);
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte))
    };
    has_dots || uri.match_indices('%').any(|(at, _)| encodes_plain(at))
}

/// Returns the name of a prompt or event type at its source, which is a member of its definition.
pub fn own_item_name(definition: &Json) -> Box<str> {
    definition.get("name").and_then(|name| Some(name.string_value()?.into())).unwrap_or_default()
}

impl CompanionLookup {
    pub(crate) fn new(source_catalog: &SourceCatalog) -> Self {
        let mut lookup = Self::default();
        let mut digest = DefaultHasher::new();
        for (index, prompt) in source_catalog.prompts.iter().enumerate() {
            prompt.name.hash(&mut digest);
            prompt.raw_definition.hash(&mut digest);
            let own = own_item_name(&prompt.raw_definition);
            lookup.prompts.entry(own).or_insert(Some(index));
            if source_catalog.is_selection {
                lookup.offered_prompts.entry(prompt.name.as_str().into()).or_insert(index);
            }
        }
        lookup.prompt_fingerprint = digest.finish();
        let mut digest = DefaultHasher::new();
        for (index, resource) in source_catalog.resources.iter().enumerate() {
            resource.raw_definition.hash(&mut digest);
            lookup.uris_of(resource).entry(resource.uri.as_str().into()).or_insert(Some(index));
            lookup.add_scheme(&resource.uri);
        }
        for (index, skill) in source_catalog.skills.iter().enumerate() {
            skill.raw_definition.hash(&mut digest);
            lookup.skills.entry(skill.uri.as_str().into()).or_insert(Some(index));
            lookup.skill_files.insert(skill.uri.as_str().into(), true);
            for file in skill.files.iter().flatten() {
                lookup.skill_files.insert(file.uri.as_str().into(), true);
            }
            lookup.add_scheme(&skill.uri);
        }
        lookup.resource_fingerprint = digest.finish();
        for (index, event) in source_catalog.events.iter().enumerate() {
            lookup.events.entry(own_item_name(&event.raw_definition)).or_insert(Some(index));
        }
        for item in &source_catalog.companion_items {
            match &item.content {
                CompanionContent::Prompt(prompt) => {
                    let own = own_item_name(&prompt.raw_definition);
                    lookup.prompts.entry(own).or_insert(None);
                }
                CompanionContent::Resource(resource) => {
                    lookup.uris_of(resource).entry(resource.uri.as_str().into()).or_insert(None);
                    lookup.note_if_blocked(resource);
                }
                CompanionContent::Skill(skill) => {
                    lookup.skills.entry(skill.uri.as_str().into()).or_insert(None);
                    for file in skill.files.iter().flatten() {
                        lookup.skill_files.entry(file.uri.as_str().into()).or_insert(false);
                    }
                    lookup.skill_files.entry(skill.uri.as_str().into()).or_insert(false);
                    let is_blocked = lookup.skills.get(skill.uri.as_str()) == Some(&None);
                    lookup.has_blocked |= is_blocked;
                    if skill.files.is_some() || is_blocked {
                        lookup.closed_directories.push(skill.directory().into());
                    }
                }
                CompanionContent::Event(event) => {
                    lookup.events.entry(own_item_name(&event.raw_definition)).or_insert(None);
                }
                CompanionContent::Instructions => {}
            }
        }
        lookup
    }

    fn note_if_blocked(&mut self, resource: &Resource) {
        if self.uris_of(resource).get(resource.uri.as_str()) != Some(&None) {
            return;
        }
        self.has_blocked = true;
        if resource.is_template {
            let prefix = resource.uri.split('{').next().unwrap_or_default();
            self.blocked_prefixes.push(prefix.into());
        }
    }

    fn add_scheme(&mut self, uri: &str) {
        if let Some(scheme) = literal_scheme(uri)
            && !self.schemes.iter().any(|known| **known == *scheme)
            && self.schemes.len() < MAX_SCHEMES
        {
            self.schemes.push(scheme.into());
        }
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

/// Returns the items after a usable one.
fn items_after<'a, T>(items: &'a [T], found: Option<&ItemIndex>) -> Option<&'a [T]> {
    items.get((*found?)? + 1..)
}

impl SourceCatalog {
    /// Finds a prompt by its name at the source. In the selection of a toolset, one that is not
    /// selected counts as blocked.
    pub fn find_prompt(&self, own_name: &str) -> Option<PinnedItem<'_, Prompt>> {
        let found = pinned_item(&self.prompts, self.companion_lookup().prompts.get(own_name));
        found.or(self.is_selection.then_some(PinnedItem::Blocked))
    }

    /// Finds the own name of a prompt that a toolset offers under this name.
    pub fn renamed_prompt(&self, name: &str) -> Option<Box<str>> {
        let index = self.companion_lookup().offered_prompts.get(name)?;
        Some(own_item_name(&self.prompts.get(*index)?.raw_definition))
    }

    /// Returns its usable prompts after the one of this name at the source; `None` if there is none.
    pub fn prompts_after(&self, own_name: &str) -> Option<&[Prompt]> {
        items_after(&self.prompts, self.companion_lookup().prompts.get(own_name))
    }

    /// Returns its usable resources, or its usable templates, in the source's order.
    pub fn resources_of_kind(&self, is_template: bool) -> &[Resource] {
        let resources = self.resources.partition_point(|resource| !resource.is_template);
        let (resources, templates) = self.resources.split_at(resources);
        if is_template { templates } else { resources }
    }

    /// Returns the same after the one of this URI; `None` if there is none.
    pub fn resources_after(&self, uri: &str, is_template: bool) -> Option<&[Resource]> {
        let lookup = self.companion_lookup();
        let uris = if is_template { &lookup.templates } else { &lookup.resources };
        let rest = items_after(&self.resources, uris.get(uri))?;
        let resources = rest.partition_point(|resource| !resource.is_template);
        if is_template { Some(rest) } else { rest.get(..resources) }
    }

    /// Returns its usable skills after the one of this `SKILL.md`; `None` if there is none.
    pub fn skills_after(&self, uri: &str) -> Option<&[Skill]> {
        items_after(&self.skills, self.companion_lookup().skills.get(uri))
    }

    /// Finds a resource by its URI at the source; templates are not expanded.
    pub fn find_resource(&self, uri: &str) -> Option<PinnedItem<'_, Resource>> {
        pinned_item(&self.resources, self.companion_lookup().resources.get(uri))
    }

    /// Finds a template of resources by its text.
    pub fn find_template(&self, uri_template: &str) -> Option<PinnedItem<'_, Resource>> {
        pinned_item(&self.resources, self.companion_lookup().templates.get(uri_template))
    }

    /// Returns true if a completion must not name this template or resource: its pin blocks it, or it
    /// is not in the selection of a toolset.
    pub fn is_template_blocked(&self, uri: &str) -> bool {
        match (self.find_template(uri), self.find_resource(uri)) {
            (Some(PinnedItem::Blocked), _) | (None, Some(PinnedItem::Blocked)) => true,
            (None, None) => self.is_selection,
            (Some(PinnedItem::Listed(_)), _) | (None, Some(PinnedItem::Listed(_))) => false,
        }
    }

    /// Finds a skill by the URI of its `SKILL.md`.
    pub fn find_skill(&self, uri: &str) -> Option<PinnedItem<'_, Skill>> {
        pinned_item(&self.skills, self.companion_lookup().skills.get(uri))
    }

    /// Finds an event type by its name at the source.
    pub fn find_event(&self, own_name: &str) -> Option<PinnedItem<'_, EventType>> {
        pinned_item(&self.events, self.companion_lookup().events.get(own_name))
    }

    /// Returns true if a usable resource or a file of a usable skill has this URI.
    pub fn lists_uri(&self, uri: &str) -> bool {
        let is_file = || self.companion_lookup().skill_files.get(uri) == Some(&true);
        !self.is_resource_blocked(uri)
            && (matches!(self.find_resource(uri), Some(PinnedItem::Listed(_))) || is_file())
    }

    /// Returns true if a usable skill has files below this directory.
    pub fn has_skill_directory(&self, uri: &str) -> bool {
        let uri = uri.trim_end_matches('/');
        let is_below = |file: &str| file.strip_prefix(uri).is_some_and(|it| it.starts_with('/'));
        let dynamic = self.skills.iter().filter(|skill| skill.files.is_none());
        let files = self.skills.iter().flat_map(|skill| skill.files.iter().flatten());
        files.map(|file| file.uri.as_str()).any(is_below)
            || dynamic
                .map(Skill::directory)
                .any(|own| own == uri || uri.starts_with(&format!("{own}/")))
    }

    /// Returns true if the directory belongs to skills alone that are blocked.
    pub fn is_directory_blocked(&self, uri: &str) -> bool {
        let uri = uri.trim_end_matches('/');
        let is_inside = |skill: &Skill| {
            let rest = uri.strip_prefix(skill.directory());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_of_skill = |item: &std::sync::Arc<crate::CompanionItem>| matches!(&item.content, CompanionContent::Skill(skill) if is_inside(skill));
        (self.is_selection || self.companion_items.iter().any(is_of_skill))
            && !self.has_skill_directory(uri)
    }

    /// Returns true if a file of this URI would belong to a skill whose entry does not list it, or
    /// whose pin blocks it.
    fn is_skill_file_blocked(&self, uri: &str) -> bool {
        if let Some(is_listed) = self.companion_lookup().skill_files.get(uri) {
            return !is_listed;
        }
        let directories = &self.companion_lookup().closed_directories;
        directories
            .iter()
            .any(|own| uri.strip_prefix(&**own).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Returns true if the source offers the resource of this URI, and its pin, that of its skill, or
    /// those of all templates that match it, block it.
    pub fn is_resource_blocked(&self, uri: &str) -> bool {
        if self.is_skill_file_blocked(uri) {
            return true;
        }
        match self.find_resource(uri) {
            Some(PinnedItem::Blocked) => true,
            Some(PinnedItem::Listed(_)) => false,
            None => self.is_unlisted_uri_blocked(uri),
        }
    }

    /// Returns true if an unlisted URI may belong to an item that its pin blocks. A server may read
    /// templates and spellings of URIs in a wider sense than this crate, so the beginning of a blocked
    /// template is enough, and a disguised URI is refused as long as anything is blocked.
    fn is_unlisted_uri_blocked(&self, uri: &str) -> bool {
        if self.is_selection {
            return is_disguised_uri(uri)
                || !(self.matches_usable_template(uri) || self.is_generated_file(uri));
        }
        let lookup = self.companion_lookup();
        if !lookup.has_blocked {
            return false;
        }
        let has_blocked_prefix =
            || lookup.blocked_prefixes.iter().any(|prefix| uri.starts_with(&**prefix));
        is_disguised_uri(uri) || has_blocked_prefix() && !self.matches_usable_template(uri)
    }

    /// Returns true if a usable skill generates its files, and the URI is below its directory.
    fn is_generated_file(&self, uri: &str) -> bool {
        let mut skills = self.skills.iter().filter(|skill| skill.files.is_none());
        skills.any(|skill| {
            uri.strip_prefix(skill.directory()).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Returns true if a usable template with a literal scheme matches the URI.
    pub fn has_template_for(&self, uri: &str) -> bool {
        let templates = self.usable_templates();
        templates
            .filter(|template| literal_scheme(template).is_some())
            .any(|template| matches_template(template, uri))
    }

    fn matches_usable_template(&self, uri: &str) -> bool {
        self.usable_templates().any(|template| matches_template(template, uri))
    }

    /// Returns true if a usable resource or template has the scheme of this URI.
    pub fn has_scheme_of(&self, uri: &str) -> bool {
        let Some(scheme) = literal_scheme(uri) else { return false };
        self.companion_lookup().schemes.iter().any(|known| **known == *scheme)
    }

    /// The templates that take part in finding the source of a URI.
    fn usable_templates(&self) -> impl Iterator<Item = &str> {
        let templates = self.resources_of_kind(true).iter();
        templates.take(MAX_MATCHED_TEMPLATES).map(|template| template.uri.as_str())
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

#[cfg(test)]
mod tests {
    use testkit::executor::echo_executor;
    use tool::{
        CatalogItem, Digest, Json, Offer, Org, Resource, Skill, SkillFile, SourceListing,
        SourceName, SourceTrust,
    };

    use super::PinnedItem;
    use crate::SourceCatalog;

    fn skill(directory: &str, files: Option<&[&str]>) -> CatalogItem {
        let file = |name: &&str| SkillFile {
            uri: format!("{directory}/{name}"),
            digest: Digest([0; 32]),
            size: 1,
        };
        let files = files.map(|names| names.iter().map(file).collect());
        let uri = format!("{directory}/SKILL.md");
        CatalogItem::Skill(Skill { raw_definition: Json::encode(&uri), uri, files })
    }

    fn resource(uri: &str, is_template: bool) -> CatalogItem {
        let raw_definition = Json::encode(uri);
        CatalogItem::Resource(Resource { uri: uri.to_owned(), is_template, raw_definition })
    }

    fn source_catalog(items: Vec<CatalogItem>) -> SourceCatalog {
        let offer = |item| Offer { item, executor: echo_executor() };
        let offers = items.into_iter().map(offer).collect();
        let source = SourceName::new("s").unwrap();
        SourceCatalog::new_starting(source, "mcp", SourceTrust::FirstUse)
            .with_listing(&Org::default(), SourceListing { offers, ..SourceListing::default() })
    }

    #[test]
    fn files_of_skills_are_listed_and_blocked_with_them() {
        let mut source = source_catalog(vec![
            skill("skill://a", Some(&["SKILL.md", "x/one.md"])),
            skill("skill://b", None),
            resource("test://r", false),
        ]);
        let usable = ["skill://a/SKILL.md", "skill://a/x/one.md", "skill://b/SKILL.md", "test://r"];
        for uri in usable {
            assert!(source.lists_uri(uri) && !source.is_resource_blocked(uri), "{uri}");
        }
        // An entry lists all files of its skill, unless they are generated.
        assert!(source.is_resource_blocked("skill://a/x/two.md"));
        assert!(!source.is_resource_blocked("skill://b/any.md"));
        assert!(!source.is_resource_blocked("skill://ab/x.md"), "another directory");
        for (directory, has) in [
            ("skill://a", true),
            ("skill://a/x", true),
            ("skill://b/y", true),
            ("skill://c", false),
        ] {
            assert_eq!(source.has_skill_directory(directory), has, "{directory}");
            assert!(!source.is_directory_blocked(directory), "{directory}");
        }
        source.apply_pins(|_, _| false);
        for uri in usable {
            assert!(!source.lists_uri(uri) && source.is_resource_blocked(uri), "{uri}");
        }
        assert_eq!(source.find_skill("skill://a/SKILL.md"), Some(PinnedItem::Blocked));
        assert!(
            source.is_directory_blocked("skill://a/x") && source.is_directory_blocked("skill://a/")
        );
        assert!(source.is_resource_blocked("skill://b/any.md"), "a file of a blocked skill");
        source.apply_pins(|_, _| true);
        assert!(usable.iter().all(|uri| source.lists_uri(uri)), "the indices follow the pins");
    }

    #[test]
    fn a_uri_fits_usable_templates_and_schemes() {
        let mut source =
            source_catalog(vec![resource("test://{id}", true), resource("db://x", false)]);
        assert!(!source.is_resource_blocked("other:%64b"), "nothing is blocked");
        assert!(source.has_template_for("test://1") && !source.has_template_for("other:1"));
        for (uri, fits) in
            [("db://y", true), ("test://a/b", true), ("other:1", false), ("x", false)]
        {
            assert_eq!(source.has_scheme_of(uri), fits, "{uri}");
        }
        source.apply_pins(|_, _| false);
        for uri in ["test://1", "test://1?x", "test://a/b", "other:/../db", "other:%64b"] {
            assert!(source.is_resource_blocked(uri), "{uri}");
        }
        assert!(!source.has_template_for("test://1") && !source.has_scheme_of("db://y"));
    }
}
