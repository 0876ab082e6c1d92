//! Counts the items that a list renders, once and again.

use std::sync::Arc;

use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use formats::{AliasMap, ProviderFormat};
use gateway::{CatalogView, Gateway, GatewayComponents, GatewayOptions};
use identity::KeyRing;
use policy::Policy;
use serde_json::json;
use tool::{
    CallerType, CatalogItem, Offer, Org, PermissionLevel, Secret, SourceListing, SourceName,
    SourceTrust, WallTime,
};

use super::rendered_list::FragmentCache;
use super::{NameStyle, RenderedTools, ToolListCache};

fn offer(name: &str, description: &str) -> Offer {
    let mut tool = testkit::read_only_tool(name, description, &json!({ "type": "object" }));
    tool.traits.min_level = PermissionLevel::Guest;
    Offer { item: CatalogItem::Tool(Arc::new(tool)), executor: testkit::executor::echo_executor() }
}

fn shelf(offers: Vec<Offer>) -> Arc<SourceCatalog> {
    let listing = SourceListing { offers, ..SourceListing::default() };
    let source = SourceName::new("s").unwrap();
    Arc::new(
        SourceCatalog::new_starting(source, "test", SourceTrust::Full)
            .with_listing(&Org::default(), listing),
    )
}

fn catalog(number: usize, description: &str) -> Catalog {
    let offers = (0..number).map(|tool| offer(&format!("s.t{tool}"), description)).collect();
    Catalog::from_sources(1, vec![shelf(offers)])
}

fn view(catalog: Catalog) -> Arc<CatalogView> {
    let gateway = Gateway::new(GatewayComponents {
        current: Arc::new(CurrentSnapshot::new(catalog, Policy::default())),
        ledger: Arc::new(testkit::ledger::MemoryLedger::default()),
        clock: Arc::new(testkit::clock::FakeClock::default()),
        credentials: Arc::new(testkit::context::NoopContext),
        mac_key: Secret::new("key"),
        approvals: None,
        options: GatewayOptions::default(),
    });
    let anyone = KeyRing::default()
        .with_anonymous_access(PermissionLevel::User)
        .verify_key(None, WallTime(1))
        .unwrap();
    gateway.view_for(&anyone, CallerType::Direct)
}

#[test]
fn a_mistyped_name_renders_nothing_and_a_tool_no_other() {
    let (lists, view) = (ToolListCache::default(), view(catalog(2_000, "d")));
    assert_eq!(lists.resolve_tool_name(&view, "s_t7"), "s.t7", "an alias is known");
    assert_eq!(lists.resolve_tool_name(&view, "s_t7x"), "s_t7x");
    let rendered = lists.render_view(&view, ProviderFormat::OpenaiChat, NameStyle::Safe);
    assert_eq!(rendered.cache_counts().0, 0);
    let (seventh, _) = view.find_tool("s.t7").unwrap();
    assert!(rendered.tool_json(seventh).is_some());
    assert_eq!(rendered.cache_counts().0, 1);
    // The control: what is asked for is rendered, once.
    let all = |rendered: &RenderedTools| {
        view.list_tools().filter(|it| rendered.tool_json(it).is_some()).count()
    };
    assert_eq!((all(&rendered), rendered.cache_counts().0), (2_000, 2_000));
    let again = lists.render_view(&view, ProviderFormat::OpenaiChat, NameStyle::Safe);
    assert_eq!((all(&again), again.cache_counts().0), (2_000, 2_000));
}

#[test]
fn what_is_kept_of_a_format_is_bounded_and_goes_on_into_the_next_catalog() {
    let catalog = catalog(500, &"x".repeat(1_000));
    let names = Arc::new(AliasMap::with_safe_aliases(
        catalog.list_tools().map(|it| it.tool_key.name.as_str()),
    ));
    let of = |fragments: &Arc<FragmentCache>| {
        let names = (Arc::clone(&names), NameStyle::Safe);
        RenderedTools::new(names, ProviderFormat::OpenaiChat, Arc::clone(fragments))
    };
    let all = |rendered: &RenderedTools| {
        catalog.list_tools().filter(|it| rendered.tool_json(it).is_some()).count()
    };
    let bounded = of(&Arc::new(FragmentCache::with_limit(100_000)));
    assert_eq!(all(&bounded), 500);
    let (_, bytes) = bounded.cache_counts();
    assert!((1..=100_000).contains(&bytes), "{bytes}");
    // The control: with room for all, all are kept, also for the next catalog that has them.
    let fragments = Arc::new(FragmentCache::with_limit(usize::MAX));
    let whole = of(&fragments);
    assert_eq!(all(&whole), 500);
    assert!(whole.cache_counts().1 > 500_000);
    let next = of(&fragments);
    assert_eq!((all(&next), next.cache_counts()), (500, (500, whole.cache_counts().1)));
}

/// Hidden tools give views different aliases of one tool.
#[test]
fn a_tool_is_rendered_under_the_alias_and_in_the_style_that_is_asked_for() {
    let catalog = catalog(1, "d");
    let entry = catalog.list_tools().next().unwrap();
    let fragments = Arc::<FragmentCache>::default();
    let named = |names: &[&str]| Arc::new(AliasMap::with_safe_aliases(names));
    let (plain, taken) = (named(&["s.t0"]), named(&["s.t0", "s_t0"]));
    let native = Arc::new(AliasMap::with_native_names());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2 {
        for (names, style) in
            [(&plain, NameStyle::Safe), (&taken, NameStyle::Safe), (&native, NameStyle::Native)]
        {
            let names = Arc::clone(names);
            let alias = names.alias_of("s.t0").unwrap().to_owned();
            let format = ProviderFormat::OpenaiChat;
            let rendered = RenderedTools::new((names, style), format, Arc::clone(&fragments));
            let json = rendered.tool_json(entry).unwrap();
            assert!(json.as_str().contains(&format!("\"{alias}\"")), "{json:?}");
            seen.insert(alias);
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

/// Lists of a catalog after a change are those of a server that never had another one.
#[test]
fn names_of_a_changed_catalog_are_those_of_a_new_one() {
    let lists = ToolListCache::default();
    let of = |names: &[&str]| {
        let offers = names.iter().map(|name| offer(name, "d")).collect();
        view(Catalog::from_sources(1, vec![shelf(offers)]))
    };
    for names in [
        &["s.a", "s.b"][..],
        &["s.a", "s_a", "s.b"],
        &["s_a", "s.b", "s-c"],
        &["s.a", "s.b", "s_b", "s.d"],
        &[],
        &["s.a"],
    ] {
        let view = of(names);
        let fresh = ToolListCache::default();
        for name in ["s.a", "s_a", "s_b", "s.b", "s_d", "s_x"] {
            let names_in = |lists: &ToolListCache| {
                let rendered =
                    lists.render_view(&view, ProviderFormat::OpenaiChat, NameStyle::Safe);
                let alias = rendered.names.alias_of(name).map(str::to_owned);
                let json = view.find_tool(name).and_then(|(it, _)| rendered.tool_json(it));
                (alias, lists.resolve_tool_name(&view, name), json)
            };
            assert_eq!(names_in(&lists), names_in(&fresh), "{name} in {names:?}");
        }
    }
}
