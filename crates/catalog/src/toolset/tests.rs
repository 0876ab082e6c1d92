use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use testkit::executor::echo_executor;
use tool::{
    CatalogItem, Digest, Json, Offer, Org, Prompt, Resource, SourceListing, SourceName,
    SourceTrust, ToolName,
};

use super::{SelectedItem, SourceSelection, Toolset};
use crate::{Catalog, PinnedItem, SourceCatalog};

fn offer(item: CatalogItem) -> Offer {
    Offer { item, executor: echo_executor() }
}

fn tool(name: &str, description: &str) -> Offer {
    let schema = json!({ "type": "object" });
    offer(CatalogItem::Tool(Arc::new(testkit::read_only_tool(name, description, &schema))))
}

fn resource(uri: &str, is_template: bool) -> Offer {
    let raw_definition = Json::encode(&json!({ "uri": uri }));
    offer(CatalogItem::Resource(Resource { uri: uri.to_owned(), is_template, raw_definition }))
}

fn prompt(source: &str, name: &str) -> Offer {
    let raw_definition = Json::encode(&json!({ "name": name, "description": "d" }));
    let name = ToolName::new(format!("{source}.{name}")).unwrap();
    offer(CatalogItem::Prompt(Prompt { name, raw_definition }))
}

fn source(name: &str, offers: Vec<Offer>) -> Arc<SourceCatalog> {
    let listing = SourceListing { offers, ..SourceListing::default() };
    let starting =
        SourceCatalog::new_starting(SourceName::new(name).unwrap(), "mcp", SourceTrust::FirstUse);
    Arc::new(starting.with_listing(&Org::default(), listing))
}

/// Accepts these items of a catalog, by source and name of their pins.
fn accept(catalog: &Catalog, items: &[(&str, &str)], names: &[(&str, &str)]) -> Toolset {
    let mut sources: BTreeMap<SourceName, SourceSelection> = BTreeMap::new();
    for (source_name, pin) in items {
        let part = catalog.find_source(source_name).unwrap();
        let found = part.observed_definitions().find(|it| it.pin_name.as_str() == *pin).unwrap();
        let alias = names.iter().find(|(own, _)| own == pin);
        let item = SelectedItem {
            digest: found.digest,
            name: alias.map(|(_, name)| ToolName::new(name).unwrap()),
            title: None,
            description: alias.map(|_| "other".to_owned()),
        };
        let selection = sources.entry(part.source.clone()).or_default();
        let is_tool = part.tools.iter().any(|it| it.tool_key.name.as_str() == *pin);
        let list = if is_tool { &mut selection.tools } else { &mut selection.companions };
        list.insert(found.pin_name.clone(), item);
    }
    let name = SourceName::new("team").unwrap();
    Toolset::new(name, Default::default(), BTreeSet::new(), sources)
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.list_tools().map(|entry| entry.name.to_string()).collect()
}

#[test]
fn a_selection_has_the_accepted_tools_under_their_names() {
    let catalog = Catalog::from_sources(
        1,
        vec![source("a", vec![tool("search", "d"), tool("b", "d"), tool("c", "d")])],
    );
    let toolset = accept(&catalog, &[("a", "search"), ("a", "b")], &[("b", "find")]);
    let selected = toolset.select_from(&catalog);
    assert_eq!(names(&selected), ["search", "find"]);
    assert!(selected.is_selection() && !catalog.is_selection());
    let (_, found) = selected.find_tool("find").unwrap();
    assert_eq!(found.tool_key.name.as_str(), "b");
    assert_eq!(found.tool.description, "other");
    assert!(found.tool.raw_definition.as_str().contains(r#""description":"other""#));
    // By its own name it is found where its source is named, as approvals do; the rest is not there.
    assert!(selected.find_in_source("a", "b").is_some() && selected.find_tool("b").is_none());
    assert!(selected.find_in_source("a", "c").is_none() && selected.find_tool("c").is_none());
    assert!(catalog.find_tool("c").is_some(), "the control");
    // The same catalog gives the same selection, and an unchanged source the same part.
    assert!(Arc::ptr_eq(&selected, &toolset.select_from(&catalog)));
    let mut parts: Vec<_> = catalog.list_sources().cloned().collect();
    parts.push(source("z", vec![tool("z", "d")]));
    let later = toolset.select_from(&catalog.with_sources(2, parts));
    assert_eq!(later.version, 2);
    let part = |catalog: &Catalog| Arc::clone(catalog.find_merged_source("a").unwrap());
    assert!(Arc::ptr_eq(&part(&selected), &part(&later)));
}

#[test]
fn another_definition_is_held_back_and_its_name_goes_to_nobody() {
    let parts = |description: &str| {
        vec![source("a", vec![tool("search", description)]), source("b", vec![tool("search", "d")])]
    };
    let catalog = Catalog::from_sources(1, parts("d"));
    let toolset = accept(&catalog, &[("a", "search"), ("b", "search")], &[]);
    assert_eq!(names(&toolset.select_from(&catalog)), ["search", "b.search"]);
    let changed = Catalog::from_sources(2, parts("changed"));
    let selected = toolset.select_from(&changed);
    assert_eq!(names(&selected), ["b.search"]);
    assert!(selected.find_tool("search").is_none());
    // Nor does it where the source no longer has the tool.
    let gone = Catalog::from_sources(3, parts("d").split_off(1));
    assert_eq!(names(&toolset.select_from(&gone)), ["b.search"]);
    // The control: without the toolset, the other tool gets the name.
    assert_eq!(gone.find_tool("search").unwrap().1.tool_key.source.as_str(), "b");
}

#[test]
fn a_given_name_takes_no_other_tools_name() {
    let catalog = Catalog::from_sources(
        1,
        vec![source("a", vec![tool("search", "d")]), source("b", vec![tool("x", "d")])],
    );
    let toolset = accept(&catalog, &[("a", "search"), ("b", "x")], &[("x", "search")]);
    assert_eq!(names(&toolset.select_from(&catalog)), ["a.search", "search"]);
}

#[test]
fn what_a_selection_does_not_list_cannot_be_read() {
    let offers = vec![
        prompt("a", "greet"),
        prompt("a", "other"),
        resource("file:///one", false),
        resource("file:///two", false),
        resource("note://{id}", true),
        resource("secret://{id}", true),
    ];
    let whole = source("a", offers);
    let catalog = Catalog::from_sources(1, vec![Arc::clone(&whole)]);
    let pin = |text: &str| {
        let found =
            whole.observed_definitions().find(|it| it.raw_definition.as_str().contains(text));
        found.unwrap().pin_name.to_string()
    };
    let chosen = ["greet", "file:///one", "note://"].map(pin);
    let items: Vec<_> = chosen.iter().map(|pin| ("a", pin.as_str())).collect();
    let toolset = accept(&catalog, &items, &[(&chosen[0], "hello")]);
    let selected = toolset.select_from(&catalog);
    let own = selected.find_source("a").unwrap();
    assert_eq!(own.prompts[0].name.as_str(), "hello");
    assert_eq!(own.renamed_prompt("hello").as_deref(), Some("greet"));
    assert!(matches!(own.find_prompt("greet"), Some(PinnedItem::Listed(_))));
    for name in ["other", "never"] {
        assert_eq!(own.find_prompt(name), Some(PinnedItem::Blocked), "{name}");
    }
    for (uri, readable) in [
        ("file:///one", true),
        ("note://7", true),
        ("file:///two", false),
        ("file:///three", false),
        ("secret://7", false),
        ("note://../x", false),
    ] {
        assert_eq!(own.is_resource_blocked(uri), !readable, "{uri}");
    }
    assert!(!own.is_template_blocked("note://{id}") && own.is_template_blocked("secret://{id}"));
    assert!(own.is_directory_blocked("file:///"));
    // The control: the whole source serves what it does not list.
    assert!(!whole.is_resource_blocked("file:///three") && !whole.is_template_blocked("x://{id}"));
    assert_ne!(whole.companion_items[0].definition_digest, Digest([0; 32]));
}

#[test]
fn what_a_pin_blocks_is_not_read_through_a_template_alone() {
    let offers = vec![resource("file:///x", false), resource("file:///{id}", true)];
    let mut whole = SourceCatalog::clone(&source("a", offers));
    let pin = |source: &SourceCatalog, text: &str| {
        let found =
            source.observed_definitions().find(|it| it.raw_definition.as_str().contains(text));
        found.unwrap().pin_name.clone()
    };
    let (blocked, template) = (pin(&whole, "///x"), pin(&whole, "{id}"));
    whole.apply_pins(|name, _| *name != blocked);
    let catalog = Catalog::from_sources(1, vec![Arc::new(whole)]);
    let toolset = accept(&catalog, &[("a", template.as_str())], &[]);
    let selected = toolset.select_from(&catalog);
    for catalog in [&catalog, &*selected] {
        let source = catalog.find_source("a").unwrap();
        assert!(source.is_resource_blocked("file:///x"));
        assert!(!source.is_resource_blocked("file:///y"), "the control: the template is there");
    }
}
