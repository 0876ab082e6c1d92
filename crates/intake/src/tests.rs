use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::SourceState;
use serde_json::json;
use testkit::clock::FakeClock;
use testkit::source::{MockListing, MockSource};
use tool::source::SourceErrorKind;
use tool::{
    BoxFuture, CatalogItem, Offer, Org, Problem, Source, SourceError, SourceListing, SourceName,
    SourceRevision, SourceTrust,
};

use super::{ConfiguredSource, SourceSupervisor, SupervisorTimeouts};

fn listing(names: &[&str]) -> MockListing {
    MockListing::Listing(listed(names))
}

fn listed(names: &[&str]) -> SourceListing {
    let offer = |name: &&str| Offer {
        item: CatalogItem::Tool(Arc::new(testkit::read_only_tool(
            name,
            "d",
            &json!({"type": "object"}),
        ))),
        executor: testkit::executor::echo_executor(),
    };
    SourceListing { offers: names.iter().map(offer).collect(), ..SourceListing::default() }
}

fn failure() -> MockListing {
    let problem = Problem::new("http://127.0.0.1:1", "connection refused");
    MockListing::Error(SourceError { kind: SourceErrorKind::Unreachable, problem })
}

fn sourced(source: &Arc<MockSource>) -> ConfiguredSource {
    let source = Arc::clone(source) as Arc<dyn tool::Source>;
    ConfiguredSource {
        source,
        kind: "test",
        trust: SourceTrust::Full,
        durability: None,
        defer_mode: tool::DeferMode::Auto,
        poll_interval: None,
        fingerprint: 0,
    }
}

fn start(sources: &[&Arc<MockSource>]) -> SourceSupervisor {
    let sources = sources.iter().map(|source| sourced(source)).collect();
    SourceSupervisor::start_sources(
        Org::default(),
        sources,
        SupervisorTimeouts::default(),
        Arc::new(FakeClock::default()),
    )
}

fn names(intake: &SourceSupervisor) -> Vec<String> {
    intake.catalog().list_tools().map(|entry| entry.name.to_string()).collect()
}

fn states(intake: &SourceSupervisor) -> Vec<SourceState> {
    intake.catalog().list_sources().map(|shelf| shelf.state).collect()
}

/// Waits for a condition on the catalog; paused time makes the wait free.
async fn until(intake: &SourceSupervisor, holds: impl Fn(&SourceSupervisor) -> bool) {
    let mut numbers = intake.subscribe_versions();
    let wait = async {
        while !holds(intake) {
            numbers.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_hours(1), wait).await.expect("within an hour of its time");
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_delays_nobody() {
    let hangs = Arc::new(MockSource::new("hangs", MockListing::Hang));
    let works = Arc::new(MockSource::new("works", listing(&["a", "b"])));
    let intake = start(&[&hangs, &works]);
    until(&intake, |i| names(i) == ["a", "b"]).await;
    assert_eq!(states(&intake), [SourceState::Starting, SourceState::Current]);
    until(&intake, |i| states(i)[0] == SourceState::Failed(SourceErrorKind::TimedOut)).await;
    assert_eq!(names(&intake), ["a", "b"]);
    intake.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_sources_own_problem() {
    let panics = Arc::new(MockSource::new("panics", MockListing::Panic));
    let works = Arc::new(MockSource::new("works", listing(&["a"])));
    let intake = start(&[&panics, &works]);
    intake.wait_until_listed().await;
    assert_eq!(
        states(&intake),
        [SourceState::Failed(SourceErrorKind::Crashed), SourceState::Current]
    );
    panics.set_answer(listing(&["p"]));
    until(&intake, |i| names(i) == ["p", "a"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_known_is_kept_and_comes_back_by_itself() {
    let source = Arc::new(MockSource::new("s", listing(&["a"])));
    let intake = start(&[&source]);
    intake.wait_until_listed().await;
    source.set_answer(failure());
    until(&intake, |i| states(i) == [SourceState::Stale]).await;
    assert_eq!(names(&intake), ["a"]);
    source.set_answer(listing(&["a", "b"]));
    until(&intake, |i| names(i) == ["a", "b"]).await;
    assert_eq!(states(&intake), [SourceState::Current]);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_seen_and_a_refresh_waits_for_it() {
    let source = Arc::new(MockSource::new("s", listing(&["a"])));
    let intake = start(&[&source]);
    intake.wait_until_listed().await;
    source.set_answer(listing(&["b"]));
    intake.refresh_sources(Some(&"s".parse().unwrap())).await.unwrap();
    assert_eq!(names(&intake), ["b"]);
    assert!(intake.refresh_sources(Some(&"absent".parse().unwrap())).await.is_err());
}

/// A source that never says that it changed, and counts how often it is listed.
#[derive(Debug)]
struct Silent {
    name: SourceName,
    answer: Mutex<SourceListing>,
    listings: AtomicUsize,
}

impl Silent {
    fn new(name: &str, tools: &[&str]) -> Arc<Self> {
        let answer = Mutex::new(listed(tools));
        let name = SourceName::new(name).unwrap();
        Arc::new(Self { name, answer, listings: AtomicUsize::new(0) })
    }

    fn listings(&self) -> usize {
        self.listings.load(Ordering::SeqCst)
    }
}

impl Source for Silent {
    fn name(&self) -> &SourceName {
        &self.name
    }
    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        self.listings.fetch_add(1, Ordering::SeqCst);
        let listing = self.answer.lock().unwrap().clone();
        Box::pin(std::future::ready(Ok(listing)))
    }
    fn wait_for_change(&self, _: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(std::future::pending())
    }
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test(start_paused = true)]
async fn a_polled_source_that_says_nothing_is_listed_again_once_an_interval() {
    let (polled, unpolled) = (Silent::new("polled", &["a"]), Silent::new("unpolled", &["x"]));
    let of = |source: &Arc<Silent>, poll| ConfiguredSource {
        source: Arc::clone(source) as Arc<dyn Source>,
        poll_interval: poll,
        ..sourced(&Arc::new(MockSource::new("none", listing(&[]))))
    };
    let every = Duration::from_secs(15);
    let sources = vec![of(&polled, Some(every)), of(&unpolled, None)];
    let clock = Arc::new(FakeClock::default());
    let intake = SourceSupervisor::start_sources(
        Org::default(),
        sources,
        SupervisorTimeouts::default(),
        clock,
    );
    intake.wait_until_listed().await;
    assert_eq!(names(&intake), ["a", "x"]);
    let since = tokio::time::Instant::now();
    for source in [&polled, &unpolled] {
        *source.answer.lock().unwrap() = listed(&["new"]);
    }
    until(&intake, |i| names(i)[0] == "new").await;
    assert!(since.elapsed() <= every + Duration::from_secs(1), "{:?}", since.elapsed());
    tokio::time::sleep(4 * every + Duration::from_secs(1)).await;
    assert_eq!(polled.listings(), 6, "two, and one for each interval");
    // The control: one that is not polled is not listed again.
    assert_eq!((unpolled.listings(), names(&intake)), (1, vec!["new".to_owned(), "x".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_new_configuration_leaves_what_stayed_running() {
    let a = Arc::new(MockSource::new("a", listing(&["a1"])));
    let b = Arc::new(MockSource::new("b", listing(&["b1"])));
    let c = Arc::new(MockSource::new("c", listing(&["c1"])));
    let intake = start(&[&a, &b]);
    intake.wait_until_listed().await;
    intake.set_sources(vec![sourced(&c), sourced(&a)]);
    // `a` never left the catalog, not even for a moment.
    assert_eq!(names(&intake), ["a1"]);
    until(&intake, |i| names(i) == ["c1", "a1"]).await;
    assert_eq!(Arc::strong_count(&b), 1, "the removed source is let go");
}

/// A source that lists at once.
#[derive(Debug)]
struct AtOnce(Arc<MockSource>);

impl Source for AtOnce {
    fn name(&self) -> &SourceName {
        self.0.name()
    }
    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        self.0.list_offers()
    }
    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        self.0.wait_for_change(seen)
    }
    fn is_listed_locally(&self) -> bool {
        true
    }
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        self.0.shut_down()
    }
}

/// Every list of tools that readers of the catalog see while `change` goes on.
async fn seen_during(
    intake: &SourceSupervisor,
    change: impl Future<Output = ()>,
) -> Vec<Vec<String>> {
    let (mut seen, mut numbers) = (vec![names(intake)], intake.subscribe_versions());
    let mut change = std::pin::pin!(change);
    loop {
        tokio::select! {
            biased;
            _ = numbers.changed() => seen.push(names(intake)),
            () = &mut change => break,
        }
    }
    seen.push(names(intake));
    intake.wait_until_listed().await;
    seen.push(names(intake));
    seen
}

#[tokio::test(start_paused = true)]
async fn one_that_lists_at_once_is_replaced_in_one_step() {
    let of = |name: &str, fingerprint, answer| {
        let scripted = Arc::new(MockSource::new(name, answer));
        let source = Arc::new(AtOnce(Arc::clone(&scripted))) as Arc<dyn Source>;
        (ConfiguredSource { source, fingerprint, ..sourced(&scripted) }, scripted)
    };
    let (first, old) = of("a", 0, listing(&["a1"]));
    let intake = SourceSupervisor::start_sources(
        Org::default(),
        vec![first],
        SupervisorTimeouts::default(),
        Arc::new(FakeClock::default()),
    );
    intake.wait_until_listed().await;
    let rules = policy::Policy::default();
    let (next, kept) = of("a", 1, listing(&["a1", "a2"]));
    let seen = seen_during(&intake, intake.replace_sources_and_policy(vec![next], &rules)).await;
    assert!(seen.iter().all(|names| names.contains(&"a1".to_owned())), "{seen:?}");
    assert_eq!(names(&intake), ["a1", "a2"]);
    until(&intake, |_| Arc::strong_count(&old) == 1).await;

    // It goes on as any other: what changes is listed, and one that is not there any more is let go.
    kept.set_answer(listing(&["a1", "a3"]));
    until(&intake, |intake| names(intake) == ["a1", "a3"]).await;
    // The control: without that its tools are away until it has been listed.
    let (again, _) = of("a", 2, listing(&["a1"]));
    let naive = async { intake.set_sources_and_policy(vec![again], &rules) };
    let seen = seen_during(&intake, naive).await;
    assert!(seen.iter().any(Vec::is_empty), "{seen:?}");
    // One that hangs or cannot be listed keeps no new rules away.
    for answer in [MockListing::Hang, failure()] {
        let (bad, _) = of("a", if matches!(answer, MockListing::Hang) { 3 } else { 4 }, answer);
        intake.replace_sources_and_policy(vec![bad], &rules).await;
        assert!(names(&intake).is_empty());
    }
    intake.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn one_more_source_leaves_the_others_running() {
    let a = Arc::new(MockSource::new("a", listing(&["a1"])));
    let b = Arc::new(MockSource::new("b", listing(&["b1"])));
    let intake = start(&[&a]);
    intake.wait_until_listed().await;
    intake.add_source(Some(sourced(&b)));
    until(&intake, |i| names(i) == ["a1", "b1"]).await;
    let other = Arc::new(MockSource::new("b", listing(&["b2"])));
    intake.add_source(Some(ConfiguredSource { fingerprint: 1, ..sourced(&other) }));
    until(&intake, |i| names(i) == ["a1", "b2"]).await;
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_one_that_hangs() {
    let hangs = Arc::new(MockSource::new("hangs", MockListing::Hang));
    let intake = start(&[&hangs]);
    tokio::time::timeout(Duration::from_mins(1), intake.shut_down()).await.unwrap();
    assert!(names(&intake).is_empty());
}

/// Notes when it is listed, and has nothing.
#[derive(Debug)]
struct Away {
    name: tool::SourceName,
    listed: std::sync::Mutex<Vec<tokio::time::Instant>>,
}

impl tool::Source for Away {
    fn name(&self) -> &tool::SourceName {
        &self.name
    }
    fn list_offers(&self) -> tool::BoxFuture<'_, Result<SourceListing, SourceError>> {
        self.listed.lock().unwrap().push(tokio::time::Instant::now());
        let problem = Problem::new("http://127.0.0.1:1", "connection refused");
        let error = SourceError { kind: SourceErrorKind::Unreachable, problem };
        Box::pin(async { Err(error) })
    }
    fn wait_for_change(
        &self,
        _: tool::SourceRevision,
    ) -> tool::BoxFuture<'_, tool::SourceRevision> {
        Box::pin(std::future::pending())
    }
    fn shut_down(&self) -> tool::BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn away() -> (Arc<Away>, SourceSupervisor) {
    let name = tool::SourceName::new("m").unwrap();
    let away = Arc::new(Away { name, listed: std::sync::Mutex::default() });
    let sourced = ConfiguredSource {
        source: Arc::clone(&away) as Arc<dyn tool::Source>,
        kind: "module",
        trust: SourceTrust::Full,
        durability: None,
        defer_mode: tool::DeferMode::Auto,
        poll_interval: None,
        fingerprint: 0,
    };
    let clock = Arc::new(FakeClock::default());
    let intake = SourceSupervisor::start_sources(
        Org::default(),
        vec![sourced],
        SupervisorTimeouts::default(),
        clock,
    );
    (away, intake)
}

/// The module API's times; the last one goes on for ever.
#[tokio::test(start_paused = true)]
async fn retries_after_5_10_20_and_30_s() {
    let (away, intake) = away();
    tokio::time::sleep(Duration::from_secs(130)).await;
    let listed = away.listed.lock().unwrap().clone();
    let waits: Vec<_> = listed.windows(2).map(|two| (two[1] - two[0]).as_secs()).collect();
    assert_eq!(waits, [5, 10, 20, 30, 30, 30]);
    intake.shut_down().await;
}

/// A file that is broken and then mended.
#[derive(Debug)]
struct Broken {
    name: tool::SourceName,
    state: tokio::sync::watch::Sender<(u64, bool)>,
}

impl tool::Source for Broken {
    fn name(&self) -> &tool::SourceName {
        &self.name
    }
    fn list_offers(&self) -> tool::BoxFuture<'_, Result<SourceListing, SourceError>> {
        let (revision, good) = *self.state.borrow();
        let answer = match listing(&["a"]) {
            MockListing::Listing(listing) if good => {
                Ok(SourceListing { revision: tool::SourceRevision(revision), ..listing })
            }
            _ => Err(SourceError {
                kind: SourceErrorKind::MalformedReply,
                // Broken in another way each time: the same fault twice makes no new catalog.
                problem: Problem::new("tools.yaml:1", format!("broken {revision}")),
            }),
        };
        Box::pin(async { answer })
    }
    fn wait_for_change(
        &self,
        seen: tool::SourceRevision,
    ) -> tool::BoxFuture<'_, tool::SourceRevision> {
        let mut state = self.state.subscribe();
        Box::pin(async move {
            let state = state.wait_for(|(revision, _)| *revision != seen.0).await.unwrap();
            tool::SourceRevision(state.0)
        })
    }
    fn notifies_recovery(&self) -> bool {
        true
    }
    fn shut_down(&self) -> tool::BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Nobody waits for the next try when the file is mended, and a broken one is not read all the time.
#[tokio::test(start_paused = true)]
async fn what_is_mended_is_listed_at_once() {
    let state = tokio::sync::watch::Sender::new((1, true));
    let source = Broken { name: tool::SourceName::new("file").unwrap(), state: state.clone() };
    let sourced = ConfiguredSource {
        source: Arc::new(source),
        kind: "tool_file",
        trust: SourceTrust::Full,
        durability: None,
        defer_mode: tool::DeferMode::Auto,
        poll_interval: None,
        fingerprint: 0,
    };
    let clock = Arc::new(FakeClock::default());
    let intake = SourceSupervisor::start_sources(
        Org::default(),
        vec![sourced],
        SupervisorTimeouts::default(),
        clock,
    );
    for first in [1, 4] {
        until(&intake, |i| states(i) == [SourceState::Current]).await;
        for revision in [first + 1, first + 2] {
            let before = *intake.subscribe_versions().borrow();
            state.send_replace((revision, false));
            until(&intake, |i| *i.subscribe_versions().borrow() > before).await;
            assert_eq!(states(&intake), [SourceState::Stale]);
            assert_eq!(names(&intake), ["a"], "the last good one stays");
        }
        let (broken, number) = (tokio::time::Instant::now(), *intake.subscribe_versions().borrow());
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(*intake.subscribe_versions().borrow(), number, "nothing changed");
        state.send_replace((first + 3, true));
        until(&intake, |i| states(i) == [SourceState::Current]).await;
        assert_eq!(broken.elapsed().as_secs(), 4);
    }
    intake.shut_down().await;
}

/// Whoever lists wakes what is away, but not as often as he lists.
#[tokio::test(start_paused = true)]
async fn a_list_wakes_what_is_away_at_most_every_5_s() {
    let (away, intake) = away();
    intake.wait_until_listed().await;
    let listed = || away.listed.lock().unwrap().len();
    for _ in 0..10 {
        intake.refresh_if_unlisted("module", Duration::from_secs(1)).await;
    }
    assert_eq!(listed(), 2);
    // Of another kind there is nothing to wake.
    intake.refresh_if_unlisted("mcp", Duration::from_secs(1)).await;
    assert_eq!(listed(), 2);
    intake.refresh_kind("module", Duration::from_secs(1)).await;
    assert_eq!(listed(), 3, "the control: who asks outright is heard");
    intake.shut_down().await;
}

/// By count: a merge for each of them would be as many catalogs.
#[tokio::test(start_paused = true)]
async fn what_comes_together_at_the_start_is_merged_together_and_in_order() {
    let all: Vec<_> = (0..100)
        .map(|number| {
            let name = format!("s{number}");
            Arc::new(MockSource::new(&name, listing(&[&format!("t{number}"), "same"])))
        })
        .collect();
    let late = Arc::new(MockSource::new("late", MockListing::Hang));
    let sources: Vec<_> = all.iter().chain([&late]).collect();
    let intake = start(&sources);
    until(&intake, |i| names(i).len() == 200).await;
    assert!(intake.catalog().version <= 5, "{} catalogs", intake.catalog().version);
    let expected = ["t0", "same", "t1", "s1.same"];
    assert_eq!(names(&intake)[..4], expected, "the operator's order, and the first has the name");
    late.set_answer(listing(&["l"]));
    until(&intake, |i| names(i).len() == 201).await;
    // From here on each change is there when it is told.
    let before = intake.catalog().version;
    all[7].set_answer(listing(&["u"]));
    intake.refresh_sources(Some(&"s7".parse().unwrap())).await.unwrap();
    assert!(names(&intake).contains(&"u".to_owned()));
    assert!(intake.catalog().version > before);
}

/// By count: a catalog for each listing has every view and every list made anew.
#[tokio::test(start_paused = true)]
async fn a_listing_that_says_the_same_makes_no_catalog_and_what_comes_together_makes_few() {
    let name = |number: usize| format!("s{number}");
    let all: Vec<_> = (0..100)
        .map(|number| Arc::new(MockSource::new(&name(number), listing(&[&format!("t{number}")]))))
        .collect();
    let intake = start(&all.iter().collect::<Vec<_>>());
    intake.wait_until_listed().await;
    let catalogs = || intake.catalog().version;
    let before = catalogs();
    for _ in 0..5 {
        intake.refresh_sources(None).await.unwrap();
    }
    assert_eq!(catalogs(), before, "each says what it said before");
    // The control: each that says something else is heard, all of them in few catalogs.
    for (number, source) in all.iter().enumerate() {
        source.set_answer(listing(&[&format!("u{number}")]));
    }
    intake.refresh_sources(None).await.unwrap();
    assert!(names(&intake).iter().all(|name| name.starts_with('u')), "{:?}", names(&intake));
    let made = catalogs() - before;
    assert!((1..=5).contains(&made), "{made} catalogs");
    // One whose tool is the same and is run by another executor is another.
    let before = catalogs();
    all[3].set_answer(listing(&["u3"]));
    intake.refresh_sources(Some(&name(3).parse().unwrap())).await.unwrap();
    assert_eq!(catalogs(), before + 1);
}
