use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use identity::{KeyId, KeyRing, NewKey, Principal};
use policy::{
    FilePosition, Policy, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect, TimeWindow,
    TimeWindowSpec, ToolPattern,
};
use serde_json::json;
use testkit::clock::FakeClock;
use tool::{
    CallerType, CatalogItem, Clock as _, Offer, Org, Secret, SourceListing, SourceName,
    SourceTrust, WallTime,
};

use crate::{Gateway, GatewayComponents, GatewayOptions};

fn gateway(policy: Policy, clock: &Arc<FakeClock>) -> Gateway {
    Gateway::new(GatewayComponents {
        current: Arc::new(CurrentSnapshot::new(catalog(1, "a"), policy)),
        ledger: Arc::new(testkit::ledger::MemoryLedger::default()),
        clock: Arc::clone(clock) as _,
        credentials: Arc::new(testkit::context::NoopContext),
        mac_key: Secret::new("key"),
        approvals: None,
        options: GatewayOptions::default(),
    })
}

fn catalog(number: u64, name: &str) -> Catalog {
    catalog_of(number, [name.to_owned()])
}

fn catalog_of(number: u64, names: impl IntoIterator<Item = String>) -> Catalog {
    let offer = |name: String| Offer {
        item: CatalogItem::Tool(Arc::new(testkit::read_only_tool(
            &name,
            "d",
            &json!({ "type": "object" }),
        ))),
        executor: testkit::executor::echo_executor(),
    };
    let offers = names.into_iter().map(offer).collect();
    let listing = SourceListing { offers, ..SourceListing::default() };
    let shelf =
        SourceCatalog::new_starting(SourceName::new("s").unwrap(), "test", SourceTrust::Full)
            .with_listing(&Org::default(), listing);
    Catalog::from_sources(number, vec![Arc::new(shelf)])
}

fn principal(change: impl FnOnce(&mut NewKey)) -> Principal {
    let mut key = NewKey::for_user(KeyId::random([1; 6]), "ann");
    change(&mut key);
    let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
    KeyRing::new([record]).verify_key(Some(secret.expose()), WallTime(1)).unwrap()
}

#[test]
fn a_view_is_made_anew_when_a_time_of_the_policy_comes() {
    let clock = Arc::new(FakeClock::default());
    let now = clock.wall_now();
    let moment = WallTime(now.0 / 1_000 * 1_000 + 60_000).to_string();
    let since = TimeWindowSpec { since: Some(&moment), ..TimeWindowSpec::default() };
    let rule = PolicyRule {
        name: "from then on".to_owned(),
        effect: RuleEffect::Deny,
        tools: None,
        condition: None,
        time_window: Some(TimeWindow::parse_window(since).unwrap()),
        examples: Vec::new(),
        position: FilePosition::default(),
    };
    let global = PolicyLayer { rules: vec![rule], ..PolicyLayer::default() };
    let policy = Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap();
    let (gateway, ann) = (gateway(policy, &clock), principal(|_| {}));
    let view = || gateway.view_for(&ann, CallerType::Direct);
    let before = view();
    assert!(before.find_tool("a").is_some());
    clock.advance(Duration::from_secs(30));
    assert_eq!(view().id, before.id, "it is made once for the while it holds");
    clock.advance(Duration::from_secs(31));
    assert!(view().find_tool("a").is_none() && before.find_tool("a").is_some());
}

#[test]
fn views_of_a_large_catalog_are_there_before_it_is_in_force() {
    let gateway = gateway(Policy::default(), &Arc::default());
    let (ann, bob) = (principal(|_| {}), principal(|key| key.roles = vec!["r".to_owned()]));
    let large = |number: u64| {
        let names = (0..6_000).map(|tool| format!("t{tool}_{number}"));
        gateway
            .components
            .current
            .update_snapshot(Some(&Arc::new(catalog_of(number, names))), None);
    };
    let has = |who, tool: &str| gateway.view_for(who, CallerType::Direct).find_tool(tool).is_some();
    assert!(has(&ann, "a") && has(&bob, "a"));
    large(2);
    assert_eq!(gateway.views.prebuilt_count(), 2, "of both classes that asked");
    assert!(has(&ann, "t7_2") && !has(&ann, "a"));
    assert_eq!(gateway.views.prebuilt_count(), 0, "they are in force");
    large(3);
    assert_eq!(
        gateway.views.prebuilt_count(),
        2,
        "also of the class that did not ask of the one before"
    );
    assert!(has(&ann, "t7_3") && has(&bob, "t7_3") && !has(&bob, "t7_2"));
}

/// Shelves of 300 tools each, all with the same names but for those that changed.
fn shelves(changed: usize) -> Vec<Arc<SourceCatalog>> {
    let shelf = |number: usize| {
        let kind = if number < changed { "new" } else { "t" };
        let name = |tool: usize| format!("s{number}.{kind}{tool}");
        let offer = |tool: usize| Offer {
            item: CatalogItem::Tool(Arc::new(testkit::read_only_tool(
                &name(tool),
                "d",
                &json!({ "type": "object" }),
            ))),
            executor: testkit::executor::echo_executor(),
        };
        let listing =
            SourceListing { offers: (0..300).map(offer).collect(), ..SourceListing::default() };
        let source = SourceName::new(format!("s{number}")).unwrap();
        Arc::new(
            SourceCatalog::new_starting(source, "test", SourceTrust::Full)
                .with_listing(&Org::default(), listing),
        )
    };
    (0..20).map(shelf).collect()
}

/// Sources change and nobody calls: each change costs what changed, and views that nobody asks for are not
/// made for ever.
#[test]
fn views_of_a_quiet_server_cost_what_changed_and_go_when_nobody_asks() {
    let gateway = gateway(Policy::default(), &Arc::default());
    let ann = principal(|_| {});
    let (first, last) = (shelves(0), shelves(20));
    let mut now = first;
    let mut catalog = Arc::new(Catalog::from_sources(2, now.clone()));
    gateway.components.current.update_snapshot(Some(&catalog), None);
    assert_eq!(gateway.view_for(&ann, CallerType::Direct).list_tools().count(), 6_000);
    gateway.views.take_evaluated_count();
    for (number, shelf) in last.iter().enumerate() {
        now[number] = Arc::clone(shelf);
        catalog = Arc::new(catalog.with_sources(catalog.version + 1, now.clone()));
        gateway.components.current.update_snapshot(Some(&catalog), None);
        assert_eq!(
            gateway.views.take_evaluated_count(),
            300,
            "after {number} changes that nobody looked at"
        );
    }
    // The control: who asks has what changed, of all of them.
    let view = gateway.view_for(&ann, CallerType::Direct);
    assert!(view.find_tool("s7.new0").is_some() && view.find_tool("s7.t0").is_none());
    for _ in 0..100 {
        now[0] = Arc::new(SourceCatalog::clone(&last[0]));
        catalog = Arc::new(catalog.with_sources(catalog.version + 1, now.clone()));
        gateway.components.current.update_snapshot(Some(&catalog), None);
    }
    assert_eq!(gateway.views.prebuilt_count(), 0, "nobody has asked for a hundred changes");
    assert_eq!(gateway.view_for(&ann, CallerType::Direct).list_tools().count(), 6_000);
}

/// With one thread for tasks, those go on while a view is made.
#[test]
fn who_makes_a_view_holds_up_no_other_task_of_its_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let gateway = Arc::new(gateway(Policy::default(), &Arc::default()));
    gateway
        .components
        .current
        .update_snapshot(Some(&Arc::new(Catalog::from_sources(2, shelves(0)))), None);
    let made = runtime.spawn(async move {
        let went_on = Arc::new(AtomicBool::new(false));
        let beside = Arc::clone(&went_on);
        let here = tokio::runtime::Handle::current();
        drop(here.spawn(async move { beside.store(true, Ordering::SeqCst) }));
        // Without a wait in between: what is beside this runs only where this makes way for it.
        (0..200).find(|role| {
            let who = principal(|key| key.roles = vec![format!("r{role}")]);
            let view = gateway.view_for(&who, CallerType::Direct);
            view.list_tools().count() == 6_000 && went_on.load(Ordering::SeqCst)
        })
    });
    assert!(runtime.block_on(made).unwrap().is_some());
}

#[test]
fn a_page_begins_behind_a_tool_of_the_view() {
    let gateway = gateway(Policy::default(), &Arc::default());
    let names = (0..600).map(|tool| format!("t{tool}"));
    gateway.components.current.update_snapshot(Some(&Arc::new(catalog_of(2, names))), None);
    let view = gateway.view_for(&principal(|_| {}), CallerType::Direct);
    let next = |name: &str| Some(view.tools_after(name)?.next()?.tool_key.name.to_string());
    for at in [0, 254, 255, 256, 598] {
        assert_eq!(next(&format!("t{at}")), Some(format!("t{}", at + 1)));
    }
    assert_eq!((next("t599"), next("none")), (None, None));
    assert!(view.tools_after("t599").is_some() && view.tools_after("none").is_none());
}

#[test]
fn more_classes_than_are_kept_leave_most_of_them_at_hand() {
    let gateway = gateway(Policy::default(), &Arc::default());
    let many = |role: usize| principal(|key| key.roles = vec![format!("r{role}")]);
    let all: Vec<_> = (0..1_200).map(many).collect();
    let ids =
        || all.iter().map(|who| gateway.view_for(who, CallerType::Direct).id).collect::<Vec<_>>();
    let first = ids();
    assert_eq!(gateway.views.len(), 1_024);
    let again = first.iter().zip(ids()).filter(|(first, again)| **first == *again).count();
    assert!(again > 600, "only {again} of 1,200 were still there");
    assert_eq!(gateway.views.len(), 1_024);
}

/// A new catalog and the policy that belongs to it come in one step: whoever looks at any moment sees the
/// tool `old` under the rules that name it, or `new` under those.
#[test]
fn no_view_is_of_one_moments_catalog_and_anothers_policy() {
    let gateway = gateway(Policy::default(), &Arc::default());
    let rules = |name: &str| {
        let allow = Some(vec![ToolPattern::new(name).unwrap()]);
        Policy::new(PolicyDocument {
            global: PolicyLayer { allow, ..PolicyLayer::default() },
            ..PolicyDocument::default()
        })
    };
    let moments = ["old", "new"].map(|name| (name, rules(name).unwrap()));
    let swap = |turn: usize| {
        let (name, rules) = &moments[turn % 2];
        let catalog = Arc::new(catalog(turn as u64, name));
        gateway.components.current.update_snapshot(Some(&catalog), Some(rules));
    };
    swap(0);
    let ann = principal(|_| {});
    let (done, has_seen_both) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A slow machine may run the other thread seldom.
            let goes_on = |turn: &usize| *turn < 2_000 || !has_seen_both.load(Ordering::SeqCst);
            (1..1_000_000).take_while(goes_on).for_each(swap);
            done.store(true, Ordering::SeqCst);
        });
        let mut names = HashSet::new();
        while !done.load(Ordering::SeqCst) {
            let view = gateway.view_for(&ann, CallerType::Direct);
            let seen: Vec<_> =
                view.list_tools().map(|entry| entry.tool_key.name.to_string()).collect();
            assert_eq!(seen.len(), 1, "a mixture hides all");
            names.extend(seen);
            has_seen_both.store(names.len() == 2, Ordering::SeqCst);
        }
        assert_eq!(names.len(), 2, "both were seen");
    });
    // Positive control: swapped one after the other, there is a moment in which nothing fits.
    gateway.components.current.update_snapshot(Some(&Arc::new(catalog(1, "old"))), None);
    gateway.components.current.update_snapshot(None, Some(&moments[1].1));
    assert_eq!(gateway.view_for(&ann, CallerType::Direct).list_tools().count(), 0);
}

/// Prompts and resources of a source lie under its name, as its tools do.
#[test]
fn what_covers_the_tools_of_a_source_covers_its_prompts_and_resources() {
    let read = |name: &str| ToolPattern::new(name).unwrap();
    let deny = |names: &[&str]| PolicyLayer {
        deny: names.iter().map(|name| read(name)).collect(),
        ..PolicyLayer::default()
    };
    let allow = |names: &[&str]| PolicyLayer {
        allow: Some(names.iter().map(|name| read(name)).collect()),
        ..PolicyLayer::default()
    };
    // What is left of `s` (a tool, prompts, resources) and of `bare`, which has no tools (resources).
    for (layer, left) in [
        (PolicyLayer::default(), [true, true, true, true]),
        (deny(&["s.*"]), [false, false, false, true]),
        (deny(&["s.a"]), [false, false, false, true]),
        (deny(&["s.mcp.resources.*"]), [true, true, false, true]),
        (deny(&["mcp.resources.read"]), [true, true, false, false]),
        (deny(&["bare.*"]), [true, true, true, false]),
        (allow(&["s.*"]), [true, true, true, false]),
        (allow(&["s.a"]), [true, false, false, false]),
        (allow(&["bare.mcp.*"]), [false, false, false, true]),
    ] {
        let told = format!("{layer:?}");
        let policy =
            Policy::new(PolicyDocument { global: layer, ..PolicyDocument::default() }).unwrap();
        let gateway = gateway(policy, &Arc::default());
        let parts = [("s", true), ("bare", false)]
            .map(|(source, tools)| Arc::new(with_methods(source, tools)));
        gateway
            .components
            .current
            .update_snapshot(Some(&Arc::new(Catalog::from_sources(2, parts.to_vec()))), None);
        let view = gateway.view_for(&principal(|_| {}), CallerType::Direct);
        let has = |source, method| view.find_method(source, method).is_some();
        let now = [
            view.find_tool("s.a").is_some(),
            has("s", "mcp.prompts.get"),
            has("s", "mcp.resources.read"),
            has("bare", "mcp.resources.read"),
        ];
        assert_eq!(now, left, "{told}");
        let any = now.iter().take(3).any(|there| *there);
        assert_eq!(view.source_catalog("s").is_some(), any, "{told}");
    }
}

fn with_methods(source: &str, tools: bool) -> SourceCatalog {
    let tool =
        |name: &str| Arc::new(testkit::read_only_tool(name, "d", &json!({ "type": "object" })));
    let offer = |item| Offer { item, executor: testkit::executor::echo_executor() };
    let mut offers = vec![offer(CatalogItem::Method(tool("mcp.resources.read")))];
    if tools {
        offers.push(offer(CatalogItem::Method(tool("mcp.prompts.get"))));
        offers.push(offer(CatalogItem::Tool(tool(&format!("{source}.a")))));
    }
    let listing = SourceListing { offers, ..SourceListing::default() };
    SourceCatalog::new_starting(SourceName::new(source).unwrap(), "test", SourceTrust::Full)
        .with_listing(&Org::default(), listing)
}
