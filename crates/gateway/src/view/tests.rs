use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use catalog::{Catalog, Shelf};
use identity::{KeyId, KeyRing, NewKey};
use policy::{At, Effect, Hours, HoursText, Layer, Policy, Rule, Rules};
use serde_json::json;
use testkit::clock::FakeClock;
use tool::{CallerType, Clock as _, Item, Listing, Offer, Org, Secret, SourceName, Trust, Wall};

use crate::{Gateway, Options, Parts};

#[test]
fn a_view_is_made_anew_when_a_time_of_the_policy_comes() {
    let clock = Arc::new(FakeClock::default());
    let now = clock.wall();
    let moment = Wall(now.0 / 1_000 * 1_000 + 60_000).to_string();
    let since = HoursText { since: Some(&moment), ..HoursText::default() };
    let rule = Rule {
        name: "from then on".to_owned(),
        effect: Effect::Deny,
        tools: None,
        when: None,
        time: Some(Hours::read(since).unwrap()),
        examples: Vec::new(),
        at: At::default(),
    };
    let global = Layer { rules: vec![rule], ..Layer::default() };
    let policy = Policy::new(Rules { global, ..Rules::default() }).unwrap();
    let offer = Offer {
        item: Item::Tool(Arc::new(testkit::tool("a", "d", &json!({ "type": "object" })))),
        executor: testkit::executor::echo(),
    };
    let listing = Listing { offers: vec![offer], ..Listing::default() };
    let shelf = Shelf::starting(SourceName::new("s").unwrap(), "test", Trust::Full)
        .listed(&Org::default(), listing);
    let gateway = Gateway::new(Parts {
        catalog: Arc::new(ArcSwap::from_pointee(Catalog::merge(1, vec![Arc::new(shelf)]))),
        policy: Arc::new(ArcSwap::from_pointee(policy)),
        ledger: Arc::new(testkit::ledger::MemoryLedger::default()),
        clock: Arc::clone(&clock) as _,
        credentials: Arc::new(testkit::context::Quiet),
        mac_key: Secret::new("key"),
        holding: None,
        options: Options::default(),
    });
    let key = NewKey::user(KeyId::random([1; 6]), "ann");
    let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
    let ann = KeyRing::new([record]).verify(Some(secret.open()), Wall(1)).unwrap();
    let view = || gateway.view(&ann, CallerType::Direct);
    let before = view();
    assert!(before.find("a").is_some());
    clock.advance(Duration::from_secs(30));
    assert_eq!(view().id, before.id, "it is made once for the while it holds");
    clock.advance(Duration::from_secs(31));
    assert!(view().find("a").is_none() && before.find("a").is_some());
}
