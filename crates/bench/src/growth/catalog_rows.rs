//! Growth with the number of tools: a change of one tool until lists have it, and listings of sources
//! that did not change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use formats::ProviderFormat;
use gateway::{CatalogView, Gateway};
use identity::Principal;
use intake::{ConfiguredSource, SourceSupervisor, SupervisorTimeouts};
use server_core::tool_lists::{
    CachedList, ListKey, ListKind, MAX_PAGE_TOOLS, NameStyle, ToolListCache, tools_after,
};
use server_core::tool_search::{SearchIndexCache, SearchRequest};
use tool::{
    BoxFuture, CallerType, Org, Source, SourceError, SourceListing, SourceName, SourceRevision,
    SourceTrust,
};

use super::catalog_fixture::{ListedSource, build_caller, build_policy, build_sources, tool_name};
use super::growth_row::{GrowthPoint, GrowthRow};
use crate::allocation_count::AllocationCounter;
use crate::policy::policy_fixture::{fixed_clock, gateway_with_snapshot};

/// Sizes of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct CatalogSizes {
    pub(super) tools: &'static [usize],
    /// Tools of one source in the rows of many small sources.
    pub(super) tools_per_source: usize,
    /// Sources in the rows of few large ones.
    pub(super) large_sources: usize,
    pub(super) classes: &'static [usize],
    /// Sources that are listed again and again.
    pub(super) listed_sources: usize,
    /// Tools in the row of the memory of rights classes, and their numbers.
    pub(super) class_tools: usize,
    pub(super) class_numbers: &'static [usize],
}

/// Rights classes that list tools while a tool changes.
const LISTING_CLASSES: usize = 2;
/// Changes at each size; the report has the median.
const CHANGES: u64 = 9;

/// Measures the rows of changed tools and of unchanged listings.
pub(super) async fn measure_catalog_rows(sizes: CatalogSizes) -> Result<Vec<GrowthRow>, String> {
    // The tables of a catalog are trees: their depth grows.
    let mut small = GrowthRow::new(
        "one tool of a small source changed, until its pages of all lists have it",
        "tools",
        "allocations",
        0.06,
    );
    let mut large = GrowthRow::new(
        "one tool of a tenth of all tools changed, until its pages of all lists have it",
        "tools",
        "allocations",
        0.06,
    );
    for tools in sizes.tools {
        small.points.push(measure_change(*tools, sizes.tools_per_source)?);
        large.points.push(measure_change(*tools, tools / sizes.large_sources)?);
    }
    let mut found = GrowthRow::new(
        "one tool of a tenth of all tools changed, until a search finds it",
        "tools",
        "allocations",
        0.06,
    );
    for tools in sizes.tools {
        found.points.push(measure_search(*tools, tools / sizes.large_sources).await?);
    }
    let mut unchanged = GrowthRow::new(
        "all sources listed again without change",
        "rights classes",
        "catalogs published and views built",
        0.05,
    );
    for classes in sizes.classes {
        unchanged.points.push(measure_listing(sizes, *classes).await?);
    }
    Ok(vec![small, large, found, unchanged])
}

/// A catalog with what is derived from it.
struct CatalogFixture {
    source_catalogs: Vec<Arc<SourceCatalog>>,
    catalog: Arc<Catalog>,
    current: Arc<CurrentSnapshot<::policy::Policy>>,
    gateway: Gateway,
    callers: Vec<Principal>,
    lists: ToolListCache,
}

impl CatalogFixture {
    fn new(sources: &[ListedSource], classes: usize) -> Result<Self, String> {
        let source_catalogs = sources.iter().map(|it| Ok(Arc::new(it.source_catalog()?)));
        let source_catalogs = source_catalogs.collect::<Result<Vec<_>, String>>()?;
        let catalog = Arc::new(Catalog::from_sources(1, source_catalogs.clone()));
        let policy = build_policy(classes, sources.len())?;
        let current = Arc::new(CurrentSnapshot::new(Arc::clone(&catalog), policy));
        let gateway = gateway_with_snapshot(Arc::clone(&current));
        let callers = (0..classes).map(build_caller).collect::<Result<_, _>>()?;
        let lists = ToolListCache::default();
        Ok(Self { source_catalogs, catalog, current, gateway, callers, lists })
    }

    /// Replaces the first source catalog by that of another listing.
    fn apply_listing(&mut self, listing: SourceListing) -> Result<(), String> {
        let first = self.source_catalogs.first_mut().ok_or("no source")?;
        *first = Arc::new(first.with_listing(&Org::default(), listing));
        let next =
            self.catalog.with_sources(self.catalog.version + 1, self.source_catalogs.clone());
        self.catalog = Arc::new(next);
        self.current.update_snapshot(Some(&self.catalog), None);
        Ok(())
    }

    /// Reads the first page of each list. Returns the beginning of one of them.
    fn read_lists(&self) -> Result<String, String> {
        let mut text = None;
        for caller in &self.callers {
            let view = self.gateway.view_for(caller, CallerType::Direct);
            for (format, style) in [
                (ProviderFormat::Mcp, NameStyle::Native),
                (ProviderFormat::OpenaiChat, NameStyle::Safe),
            ] {
                let list = first_page(&self.lists, &view, (format, style));
                let list = list.ok_or("a list has no first page")?;
                text = String::from_utf8(list.array.get(..1_000).unwrap_or_default().to_vec()).ok();
            }
            let alias = tool_name((0, 0)).replace('.', "_");
            if self.lists.resolve_tool_name(&view, &alias) != tool_name((0, 0)) {
                return Err("an alias is not found".to_owned());
            }
        }
        text.ok_or_else(|| "no list".to_owned())
    }
}

fn first_page(
    lists: &ToolListCache,
    view: &CatalogView,
    (format, style): (ProviderFormat, NameStyle),
) -> Option<CachedList> {
    let list_kind = match format {
        ProviderFormat::Mcp => ListKind::ToolPage(style),
        _ => ListKind::AllTools(format, style),
    };
    let key = ListKey { view: view.id, list_kind, from: None };
    lists.get_or_build(key, || {
        let rendered = lists.render_view(view, format, style);
        let tools = tools_after(view, None)?.take(MAX_PAGE_TOOLS + 1);
        let tools =
            tools.filter_map(|entry| Some((entry.name.as_str(), rendered.tool_json(entry)?)));
        Some(CachedList::from_page(tools, |json| json))
    })
}

fn measure_change(tools: usize, tools_per_source: usize) -> Result<GrowthPoint, String> {
    let sources = build_sources(tools, tools_per_source)?;
    let mut fixture = CatalogFixture::new(&sources, LISTING_CLASSES)?;
    fixture.read_lists()?;
    let first = sources.first().ok_or("no source")?;
    let mut samples = ChangeSamples::default();
    for edition in 1..=CHANGES {
        let listing = first.list(edition)?;
        let begun = ChangeStart::now();
        fixture.apply_listing(listing)?;
        let text = fixture.read_lists()?;
        samples.push(&begun);
        if !text.contains(&format!("edition {edition}.")) {
            return Err(format!("the changed tool is not listed: {text}"));
        }
    }
    Ok(samples.median(tools))
}

/// Number of the first edition in the row of searches, which no other text has.
const FIRST_EDITION: u64 = 700_000_001;

async fn measure_search(tools: usize, tools_per_source: usize) -> Result<GrowthPoint, String> {
    let sources = build_sources(tools, tools_per_source)?;
    let mut fixture = CatalogFixture::new(&sources, LISTING_CLASSES)?;
    let search = SearchIndexCache::default();
    let first = sources.first().ok_or("no source")?;
    let mut samples = ChangeSamples::default();
    // The first search indexes all tools, and is not measured.
    for edition in FIRST_EDITION..=FIRST_EDITION + CHANGES {
        let request =
            SearchRequest { queries: vec![format!("edition {edition}")], limit: 1, budget: None };
        let listing = first.list(edition)?;
        let begun = ChangeStart::now();
        fixture.apply_listing(listing)?;
        let mut replies = Vec::new();
        for caller in &fixture.callers {
            let view = fixture.gateway.view_for(caller, CallerType::Direct);
            replies.push(search.search_view(&view, None, &request).await);
        }
        if edition > FIRST_EDITION {
            samples.push(&begun);
        }
        drop(begun);
        let replies = serde_json::to_string(&replies).map_err(|error| error.to_string())?;
        if replies.matches(&format!("edition {edition}.")).count() != LISTING_CLASSES {
            return Err(format!("the changed tool is not found: {replies}"));
        }
    }
    Ok(samples.median(tools))
}

/// The beginning of a measured change.
struct ChangeStart {
    counter: AllocationCounter,
    begun: Instant,
}

impl ChangeStart {
    fn now() -> Self {
        Self { counter: AllocationCounter::start(), begun: Instant::now() }
    }
}

/// Times and allocations of changes.
#[derive(Default)]
struct ChangeSamples {
    times: Vec<Duration>,
    counts: Vec<u64>,
}

impl ChangeSamples {
    fn push(&mut self, start: &ChangeStart) {
        self.times.push(start.begun.elapsed());
        self.counts.push(start.counter.count().allocations);
    }

    /// Returns the medians.
    fn median(mut self, size: usize) -> GrowthPoint {
        self.times.sort_unstable();
        self.counts.sort_unstable();
        let time = self.times.get(self.times.len() / 2).map_or(0.0, Duration::as_secs_f64);
        let count = self.counts.get(self.counts.len() / 2).copied().unwrap_or_default();
        GrowthPoint { size, micros: time * 1e6, count: count as f64 }
    }
}

/// A source whose listings never change.
#[derive(Debug)]
pub(super) struct UnchangedSource(pub(super) ListedSource);

impl Source for UnchangedSource {
    fn name(&self) -> &SourceName {
        self.0.name()
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(async { Ok(self.0.list(0).unwrap_or_default()) })
    }

    fn wait_for_change(&self, _: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(std::future::pending())
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Lists all sources again, while rights classes have views.
async fn measure_listing(sizes: CatalogSizes, classes: usize) -> Result<GrowthPoint, String> {
    let source = |number: usize| {
        let source = Arc::new(UnchangedSource(ListedSource::new(number, 20)?));
        Ok(ConfiguredSource::new(source, "test", SourceTrust::Full, number as u64))
    };
    let sources = (0..sizes.listed_sources).map(source).collect::<Result<_, String>>()?;
    let timeouts = SupervisorTimeouts::default();
    let intake = SourceSupervisor::start_sources(Org::default(), sources, timeouts, fixed_clock());
    intake.set_policy(&build_policy(classes, sizes.listed_sources)?);
    intake.refresh_sources(None).await.map_err(|name| name.to_string())?;
    let gateway = gateway_with_snapshot(intake.current_snapshot());
    let callers = (0..classes).map(build_caller).collect::<Result<Vec<_>, _>>()?;
    let view_ids = || -> Vec<u64> {
        callers.iter().map(|who| gateway.view_for(who, CallerType::Direct).id).collect()
    };
    let before = (view_ids(), intake.catalog().version);
    let begun = Instant::now();
    intake.refresh_sources(None).await.map_err(|name| name.to_string())?;
    let micros = begun.elapsed().as_secs_f64() * 1e6;
    let after = (view_ids(), intake.catalog().version);
    let built = before.0.iter().zip(&after.0).filter(|(one, other)| one != other).count();
    intake.shut_down().await;
    let count = built as f64 + (after.1 - before.1) as f64;
    Ok(GrowthPoint { size: classes, micros, count })
}
