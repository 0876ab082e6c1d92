//! What lists render, by count.

use std::sync::Arc;

use catalog::{Catalog, Current, Shelf};
use formats::{AliasMap, Format};
use gateway::{Gateway, Options, Parts, View};
use identity::KeyRing;
use policy::Policy;
use serde_json::json;
use tool::{CallerType, Item, Level, Listing, Offer, Org, Secret, SourceName, Trust, Wall};

use super::{Lists, Names, Rendered};

fn offer(name: &str, description: &str) -> Offer {
    let mut tool = testkit::tool(name, description, &json!({ "type": "object" }));
    tool.traits.level = Level::Guest;
    Offer { item: Item::Tool(Arc::new(tool)), executor: testkit::executor::echo() }
}

fn shelf(offers: Vec<Offer>) -> Arc<Shelf> {
    let listing = Listing { offers, ..Listing::default() };
    let source = SourceName::new("s").unwrap();
    Arc::new(Shelf::starting(source, "test", Trust::Full).listed(&Org::default(), listing))
}

fn catalog(number: usize, description: &str) -> Catalog {
    let offers = (0..number).map(|tool| offer(&format!("s.t{tool}"), description)).collect();
    Catalog::merge(1, vec![shelf(offers)])
}

fn view(catalog: Catalog) -> Arc<View> {
    let gateway = Gateway::new(Parts {
        current: Arc::new(Current::new(catalog, Policy::default())),
        ledger: Arc::new(testkit::ledger::MemoryLedger::default()),
        clock: Arc::new(testkit::clock::FakeClock::default()),
        credentials: Arc::new(testkit::context::Quiet),
        mac_key: Secret::new("key"),
        holding: None,
        options: Options::default(),
    });
    let anyone = KeyRing::default().open(Level::User).verify(None, Wall(1)).unwrap();
    gateway.view(&anyone, CallerType::Direct)
}

#[test]
fn a_mistyped_name_renders_nothing_and_a_tool_no_other() {
    let (lists, view) = (Lists::default(), view(catalog(2_000, "d")));
    assert_eq!(lists.native(&view, "s_t7"), "s.t7", "an alias is known");
    assert_eq!(lists.native(&view, "s_t7x"), "s_t7x");
    let rendered = lists.rendered(&view, Format::OpenaiChat, Names::Safe);
    assert_eq!(rendered.counts().0, 0);
    assert!(rendered.tool("s.t7").is_some() && rendered.tool("s_t7").is_none());
    assert_eq!(rendered.counts().0, 1);
    // The control: what is asked for is rendered, once.
    let all = |rendered: &Rendered| {
        view.tools().filter(|it| rendered.tool(it.key.name.as_str()).is_some()).count()
    };
    assert_eq!((all(&rendered), rendered.counts().0), (2_000, 2_000));
    let again = lists.rendered(&view, Format::OpenaiChat, Names::Safe);
    assert_eq!((all(&again), again.counts().0), (2_000, 2_000));
}

#[test]
fn what_is_kept_of_a_format_is_bounded_and_goes_on_into_the_next_catalog() {
    let catalog = Arc::new(catalog(500, &"x".repeat(1_000)));
    let names = Arc::new(AliasMap::safe(catalog.tools().map(|it| it.key.name.as_str())));
    let of = || (Format::OpenaiChat, Arc::clone(&names));
    let all = |rendered: &Rendered| {
        catalog.tools().filter(|it| rendered.tool(it.key.name.as_str()).is_some()).count()
    };
    let bounded = Rendered::new(&catalog, of(), 100_000, None);
    assert_eq!(all(&bounded), 500);
    let (_, bytes) = bounded.counts();
    assert!((1..=100_000).contains(&bytes), "{bytes}");
    // The control: with room for all, all are kept, also for the next catalog that has them.
    let whole = Rendered::new(&catalog, of(), usize::MAX, None);
    assert_eq!(all(&whole), 500);
    assert!(whole.counts().1 > 500_000);
    let next = Rendered::new(&catalog, of(), usize::MAX, Some(&whole));
    assert_eq!((all(&next), next.counts()), (500, (0, whole.counts().1)));
}
