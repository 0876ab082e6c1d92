//! Memory of tools, by structure, and of rights classes that share views and lists.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use catalog::{Catalog, CurrentSnapshot};
use formats::ProviderFormat;
use gateway::{CatalogView, Gateway};
use server_core::tool_lists::{
    CachedList, ListKey, ListKind, NameStyle, ToolListCache, tools_after,
};
use server_core::tool_search::{SearchIndexCache, SearchRequest};
use tool::CallerType;

use super::catalog_fixture::{build_caller, build_policy, build_sources};
use super::catalog_rows::CatalogSizes;
use super::growth_row::{GrowthPoint, GrowthRow};
use crate::allocation_count::AllocationCounter;
use crate::policy::policy_fixture::gateway_with_snapshot;

/// Rights classes in the rows of tools.
const CLASSES: usize = 10;

/// The structures, in the order in which they are built.
const STRUCTURES: [&str; 5] = [
    "memory of tools: definitions and compiled entries",
    "memory of tools: tables of the catalog",
    "memory of tools: views of ten rights classes",
    "memory of tools: name tables, rendered tools and all pages of two formats",
    "memory of tools: search index of a rights class",
];

/// Measures the memory of each structure and of rights classes.
pub(super) async fn measure_memory_rows(sizes: CatalogSizes) -> Result<Vec<GrowthRow>, String> {
    let mut rows: Vec<_> = STRUCTURES
        .iter()
        .map(|name| GrowthRow::new(name, "tools", "bytes of a tool", 0.05))
        .collect();
    for tools in sizes.tools {
        let points = measure_structures(*tools, sizes.tools_per_source).await?;
        for (row, point) in rows.iter_mut().zip(points) {
            row.points.push(point);
        }
    }
    let mut classes = GrowthRow::new(
        "memory of rights classes: views and first pages of two formats",
        "rights classes",
        "bytes",
        0.8,
    );
    for number in sizes.class_numbers {
        classes.points.push(measure_classes(sizes.class_tools, *number)?);
    }
    rows.push(classes);
    Ok(rows)
}

/// Measures the memory of each structure for this many tools.
async fn measure_structures(
    tools: usize,
    tools_per_source: usize,
) -> Result<Vec<GrowthPoint>, String> {
    let counter = AllocationCounter::start();
    let mut stages =
        StageMeter { counter, size: tools, begun: Instant::now(), bytes: 0, points: Vec::new() };
    let sources = build_sources(tools, tools_per_source)?;
    stages.skip();
    let catalogs = sources.iter().map(|it| Ok(Arc::new(it.source_catalog()?)));
    let catalogs = catalogs.collect::<Result<Vec<_>, String>>()?;
    stages.end_stage();
    let catalog = Arc::new(Catalog::from_sources(1, catalogs));
    stages.end_stage();
    let policy = build_policy(CLASSES, sources.len())?;
    let gateway = gateway_with_snapshot(Arc::new(CurrentSnapshot::new(catalog, policy)));
    let callers = (0..CLASSES).map(build_caller).collect::<Result<Vec<_>, _>>()?;
    stages.skip();
    let views: Vec<_> =
        callers.iter().map(|who| gateway.view_for(who, CallerType::Direct)).collect();
    stages.end_stage();
    let view = views.first().ok_or("no view")?;
    let lists = ToolListCache::default();
    for of in LISTED_FORMATS {
        read_pages(&lists, view, of, usize::MAX)?;
    }
    stages.end_stage();
    let search = SearchIndexCache::default();
    let request = SearchRequest { queries: vec!["price".to_owned()], limit: 5, budget: None };
    black_box(search.search_view(view, None, &request).await);
    stages.end_stage();
    Ok(stages.points)
}

/// Formats whose pages are read.
const LISTED_FORMATS: [(ProviderFormat, NameStyle); 2] =
    [(ProviderFormat::Mcp, NameStyle::Native), (ProviderFormat::OpenaiChat, NameStyle::Safe)];

/// Reads at most this many pages of a list, each from the cursor of the one before.
fn read_pages(
    lists: &ToolListCache,
    view: &CatalogView,
    (format, style): (ProviderFormat, NameStyle),
    most: usize,
) -> Result<(), String> {
    let mut from = None;
    for _ in 0..most {
        let list_kind = match format {
            ProviderFormat::Mcp => ListKind::ToolPage(style),
            _ => ListKind::AllTools(format, style),
        };
        let key = ListKey { view: view.id, list_kind, from: from.clone() };
        let list = lists.get_or_build(key, || {
            let rendered = lists.render_view(view, format, style);
            let tools = tools_after(view, from.as_deref())?
                .filter_map(|entry| Some((entry.name.as_str(), rendered.tool_json(entry)?)));
            Some(CachedList::from_page(tools, |json| json))
        });
        from = list.ok_or("a page does not exist")?.next;
        if from.is_none() {
            break;
        }
    }
    Ok(())
}

/// Measures what this many rights classes take, with the first page of each list.
fn measure_classes(tools: usize, classes: usize) -> Result<GrowthPoint, String> {
    let sources = build_sources(tools, 20)?;
    let catalogs = sources.iter().map(|it| Ok(Arc::new(it.source_catalog()?)));
    let catalog = Catalog::from_sources(1, catalogs.collect::<Result<Vec<_>, String>>()?);
    let policy = build_policy(classes, sources.len())?;
    let current = Arc::new(CurrentSnapshot::new(Arc::new(catalog), policy));
    let gateway: Gateway = gateway_with_snapshot(current);
    let callers = (0..classes).map(build_caller).collect::<Result<Vec<_>, _>>()?;
    let (begun, counter) = (Instant::now(), AllocationCounter::start());
    let lists = ToolListCache::default();
    for caller in &callers {
        let view = gateway.view_for(caller, CallerType::Direct);
        for of in LISTED_FORMATS {
            read_pages(&lists, &view, of, 1)?;
        }
    }
    let micros = begun.elapsed().as_secs_f64() * 1e6;
    let bytes = counter.count().live_bytes.max(0);
    drop((lists, gateway));
    Ok(GrowthPoint { size: classes, micros, count: bytes as f64 })
}

/// Notes how much memory each stage leaves.
struct StageMeter {
    counter: AllocationCounter,
    size: usize,
    begun: Instant,
    bytes: i64,
    points: Vec<GrowthPoint>,
}

impl StageMeter {
    /// Ends a stage that has a row.
    fn end_stage(&mut self) {
        let (micros, bytes) = (self.begun.elapsed().as_secs_f64() * 1e6, self.bytes);
        let count = (self.counter.count().live_bytes - bytes) as f64 / self.size as f64;
        self.points.push(GrowthPoint { size: self.size, micros, count });
        self.skip();
    }

    /// Ends a stage that has none.
    fn skip(&mut self) {
        self.bytes = self.counter.count().live_bytes;
        self.begun = Instant::now();
    }
}
