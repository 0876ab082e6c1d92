//! A catalog that is made of the one before it is the one that all its shelves make anew, whatever
//! changed, and that is the one of the plain way: every shelf, every name, from the first to the last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use tool::{
    BoxFuture, CallContext, CatalogItem, ExecuteError, ExecutionState, Executor, Offer, Org,
    Problem, RecordedCall, SourceListing, SourceName, SourceTrust, ToolName,
};

use super::Catalog;
use crate::{CatalogEntry, SourceCatalog};
use tool::confusable_text::{confusable_skeleton, confusable_skeletons};
use tool::source::ToolAlias;

/// What can be asked of a catalog.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// Names, sources, and the places that run them.
    tools: Vec<(String, String, Vec<String>)>,
    problems: BTreeMap<String, Vec<Problem>>,
    /// Where each name leads.
    found: BTreeMap<String, (String, String)>,
}

/// Names that are alike in all the ways there are, and some that are qualified ones of others.
const NAMES: [&str; 20] = [
    "a", "A", "b", "i", "I", "l", "1", "L", "ai", "aI", "al", "a1", "aIb", "alb", "II", "lI",
    "s1.a", "S0.ai", "s2.s1.a", "s3.l",
];
/// Titles: plain, in other letters, and in others that read as a name.
const TITLES: [&str; 4] = ["a", "\u{e4}", "\u{430}i", "\u{430}l"];
const SOURCES: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];

fn told(catalog: &Catalog) -> Told {
    let tools = catalog.list_tools().map(|entry| {
        (entry.name.to_string(), entry.tool_key.source.to_string(), entry.executor.node_ids())
    });
    let problems = catalog.list_sources().map(|shelf| {
        (shelf.source.to_string(), catalog.source_problems(&shelf.source).cloned().collect())
    });
    let found = NAMES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), identity(catalog.find_tool(name)?.1))));
    Told { tools: tools.collect(), problems: problems.collect(), found: found.collect() }
}

/// Name and source, whatever name it is listed by.
fn identity(entry: &CatalogEntry) -> (String, String) {
    (entry.tool_key.name.to_string(), entry.tool_key.source.to_string())
}

/// The advice where a tool can be called by no name.
const RENAME: &str = "rename one of the two";

/// Who has which look by now.
type Taken = HashMap<String, Arc<CatalogEntry>>;
/// What is wrong, by source.
type Problems = BTreeMap<String, Vec<Problem>>;

/// The name is this entry's from now on, unless a source before has one that looks like it; the fix of that is
/// still to be told.
fn take(taken: &mut Taken, entry: &Arc<CatalogEntry>) -> Result<(), Problem> {
    let (name, source) = (entry.tool_key.name.as_str(), &entry.tool_key.source);
    let other = confusable_skeletons(name)
        .filter_map(|look| taken.get(&look))
        .find(|it| it.tool_key.source != *source);
    if let Some(other) = other {
        let (holder, source) = (&other.tool_key.name, &other.tool_key.source);
        let message = if other.tool_key.name == entry.tool_key.name {
            format!("the name `{name}` is already taken by source `{source}`")
        } else {
            format!("the name `{name}` looks like `{holder}` of source `{source}`")
        };
        return Err(Problem::new(name, message));
    }
    for look in confusable_skeletons(name) {
        taken.entry(look).or_insert_with(|| Arc::clone(entry));
    }
    Ok(())
}

/// Titles that look like a tool of another source.
fn titled(shelves: &[Arc<SourceCatalog>], taken: &Taken, problems: &mut Problems) {
    for shelf in shelves {
        for entry in &shelf.tools {
            let title = entry.tool.title.as_deref().filter(|title| !title.is_ascii());
            let other = title.and_then(|title| taken.get(&confusable_skeleton(title)));
            if let Some(other) = other.filter(|other| other.tool_key.source != shelf.source) {
                let (name, source) = (&other.tool_key.name, &other.tool_key.source);
                let message =
                    format!("its title looks like the tool `{name}` of source `{source}`");
                let problem = Problem::new(entry.tool_key.name.to_string(), message);
                let told = problems.entry(shelf.source.to_string()).or_default();
                told.push(problem.with_help("review it: `toolkeep pin show`"));
            }
        }
    }
}

/// Tools with the names that they are listed by, and the places that run them.
type Named = Vec<(Arc<CatalogEntry>, String, Vec<String>)>;

/// What all own names look like, of tools and of what is held back.
fn own_looks(shelves: &[Arc<SourceCatalog>]) -> HashSet<String> {
    let tools = shelves.iter().flat_map(|shelf| &shelf.tools);
    let held = shelves.iter().flat_map(|shelf| &shelf.blocked).map(|held| &held.entry);
    let names = tools.chain(held).map(|entry| entry.tool_key.name.as_str());
    names.flat_map(|name| confusable_skeletons(name).collect::<Vec<_>>()).collect()
}

/// Who has which name.
fn named(shelves: &[Arc<SourceCatalog>], taken: &mut Taken, problems: &mut Problems) -> Named {
    let own = own_looks(shelves);
    let free = |name: &str| !confusable_skeletons(name).any(|look| own.contains(&look));
    let mut tools = Named::new();
    for shelf in shelves {
        let told = problems.entry(shelf.source.to_string()).or_default();
        told.extend(shelf.problems.iter().cloned());
        for entry in &shelf.tools {
            let places = entry.executor.node_ids();
            let first = tools.iter_mut().find(|(first, name, at)| {
                first.tool_key.name == entry.tool_key.name
                    && *name == *first.tool_key.name.as_str()
                    && first.tool_key.source != entry.tool_key.source
                    && first.definition_digest == entry.definition_digest
                    && !at.is_empty()
            });
            if let Some((.., first)) = first.filter(|_| !places.is_empty()) {
                first.extend(places);
                continue;
            }
            let Err(problem) = take(taken, entry) else {
                tools.push((Arc::clone(entry), entry.tool_key.name.to_string(), places));
                continue;
            };
            let qualified = format!("{}.{}", shelf.source, entry.tool_key.name);
            if !free(&qualified) {
                told.push(problem.with_help(RENAME));
                continue;
            }
            let instead = "or list its source first to give it the short name";
            told.push(problem.with_help(format!("use the name `{qualified}`, {instead}")));
            tools.push((Arc::clone(entry), qualified, places));
        }
        let held = shelf.blocked.iter().filter_map(|held| take(taken, &held.entry).err());
        told.extend(held.map(|problem| problem.with_help(RENAME)));
    }
    tools
}

/// The tool that a name is the qualified one of.
fn qualified(tools: &Named, name: &str) -> Option<(String, String)> {
    let halves = name.match_indices('.').filter_map(|(dot, _)| {
        let (source, own) = name.split_at_checked(dot)?;
        Some((source, own.strip_prefix('.')?))
    });
    let mut found = halves.flat_map(|(source, own)| {
        tools.iter().filter(move |(entry, ..)| {
            entry.tool_key.source.as_str() == source && entry.tool_key.name.as_str() == own
        })
    });
    found.next().map(|(entry, ..)| identity(entry))
}

/// All of it from the beginning, in the plainest way.
fn plain(shelves: &[Arc<SourceCatalog>]) -> Told {
    let (mut taken, mut problems) = (Taken::new(), Problems::new());
    let tools = named(shelves, &mut taken, &mut problems);
    titled(shelves, &taken, &mut problems);
    let listed: BTreeMap<_, _> =
        tools.iter().rev().map(|(entry, name, _)| (name.clone(), identity(entry))).collect();
    let mut aliases = BTreeMap::new();
    for ToolAlias { alias, tool_name } in shelves.iter().flat_map(|shelf| &shelf.aliases) {
        let free = !confusable_skeletons(alias.as_str()).any(|look| taken.contains_key(&look));
        if let Some(to) = listed.get(tool_name.as_str()).filter(|_| free) {
            aliases.entry(alias.to_string()).or_insert_with(|| to.clone());
        }
    }
    let find = |name: &str| {
        let found = listed.get(name).or_else(|| aliases.get(name)).cloned();
        found.or_else(|| qualified(&tools, name))
    };
    let found = NAMES.iter().filter_map(|name| Some(((*name).to_owned(), find(name)?))).collect();
    let tools = tools.iter().map(|(entry, name, places)| {
        (name.clone(), entry.tool_key.source.to_string(), places.clone())
    });
    Told { tools: tools.collect(), problems, found }
}

/// Runs nothing, in places.
#[derive(Debug)]
struct Somewhere(Vec<String>);

impl Executor for Somewhere {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(std::future::pending())
    }

    fn node_ids(&self) -> Vec<String> {
        self.0.clone()
    }

    fn merge_with(&self, others: &[Arc<dyn Executor>]) -> Option<Arc<dyn Executor>> {
        let others = others.iter().flat_map(|other| other.node_ids());
        Some(Arc::new(Self(self.0.iter().cloned().chain(others).collect())))
    }
}

/// A tool of a shelf: its name, its title, whether it has a place, whether it is held back, and which
/// definition it has.
type Made = (usize, Option<usize>, bool, bool, bool);
/// The tools of a shelf, and its aliases: from a name to a name.
type Offers = (Vec<Made>, Vec<(usize, usize)>);

#[derive(Debug, Clone)]
struct Change {
    source: usize,
    /// Nothing where the source goes.
    offers: Option<Offers>,
    /// Where a source that comes stands; behind the others mostly.
    at: Option<usize>,
    /// Two that change places.
    turned: Option<(usize, usize)>,
}

fn shelf(source: &str, (tools, aliases): &(Vec<Made>, Vec<(usize, usize)>)) -> Arc<SourceCatalog> {
    let offers = tools.iter().map(|(name, title, placed, _, other)| {
        let description = if *other { "other" } else { "one" };
        let mut tool =
            testkit::read_only_tool(NAMES[*name], description, &json!({"type": "object"}));
        tool.title = title.map(|title| TITLES[title].to_owned());
        let places = if *placed { vec![source.to_owned()] } else { Vec::new() };
        Offer { item: CatalogItem::Tool(Arc::new(tool)), executor: Arc::new(Somewhere(places)) }
    });
    let name = |at: &usize| ToolName::new(NAMES[*at]).unwrap();
    let listing = SourceListing {
        offers: offers.collect(),
        aliases: aliases
            .iter()
            .map(|(alias, to)| ToolAlias { alias: name(alias), tool_name: name(to) })
            .collect(),
        ..SourceListing::default()
    };
    let mut shelf =
        SourceCatalog::new_starting(SourceName::new(source).unwrap(), "test", SourceTrust::Full)
            .with_listing(&Org::default(), listing);
    let back = |name: &ToolName| tools.iter().any(|it| NAMES[it.0] == name.as_str() && it.3);
    shelf.apply_pins(|name, _| !back(name));
    Arc::new(shelf)
}

fn changed(shelves: &mut Vec<Arc<SourceCatalog>>, change: &Change) {
    let source = SOURCES[change.source];
    let there = shelves.iter().position(|shelf| shelf.source.as_str() == source);
    match (there, &change.offers) {
        (Some(at), Some(offers)) => shelves[at] = shelf(source, offers),
        (Some(at), None) => drop(shelves.remove(at)),
        (None, Some(offers)) => {
            let at = change.at.map_or(shelves.len(), |at| at.min(shelves.len()));
            shelves.insert(at, shelf(source, offers));
        }
        (None, None) => {}
    }
    if let Some((one, other)) = change.turned
        && one.max(other) < shelves.len()
    {
        shelves.swap(one, other);
    }
}

fn rarely<T: std::fmt::Debug>(what: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.1, what)
}

fn change() -> impl Strategy<Value = Change> {
    let title = prop::option::weighted(0.2, 0..TITLES.len());
    let sometimes = || prop::bool::weighted(0.3);
    let tool = (0..NAMES.len(), title, any::<bool>(), prop::bool::weighted(0.1), sometimes());
    let alias = (0..NAMES.len(), 0..NAMES.len());
    let offers = (prop::collection::vec(tool, 0..7), prop::collection::vec(alias, 0..3));
    let turned = (0..SOURCES.len(), 0..SOURCES.len());
    let parts = (
        0..SOURCES.len(),
        prop::option::weighted(0.85, offers),
        rarely(0..SOURCES.len()),
        rarely(turned),
    );
    parts.prop_map(|(source, offers, at, turned)| Change { source, offers, at, turned })
}

fn cases() -> u32 {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 20_000 } else { 400 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn step_by_step_is_all_at_once(
        changes in prop::collection::vec(prop::collection::vec(change(), 1..3), 1..16),
    ) {
        let (mut shelves, mut catalog) = (Vec::new(), Catalog::default());
        for (number, step) in (1..).zip(&changes) {
            for change in step {
                changed(&mut shelves, change);
            }
            let before = told(&catalog);
            let next = catalog.with_sources(number, shelves.clone());
            prop_assert_eq!(told(&catalog), before, "who has the old one sees nothing of it");
            let expected = plain(&shelves);
            prop_assert_eq!(&told(&next), &expected);
            prop_assert_eq!(&told(&Catalog::from_sources(number, shelves.clone())), &expected);
            prop_assert_eq!(next.len(), expected.tools.len());
            for (at, entry) in expected.tools.iter().filter_map(|(name, ..)| next.find_tool(name)) {
                let part = next.merged_sources()[at.slot_index()].as_ref().unwrap();
                let there = part.tools_from(at.tool_index())[0].as_ref().unwrap();
                prop_assert!(Arc::ptr_eq(there, entry));
            }
            catalog = next;
        }
    }
}

/// One shelf of many changes: the other parts are those of the catalog before, whatever their number.
#[test]
fn only_the_parts_that_have_to_do_with_a_change_are_new() {
    let shelf = |source: &str, tools: &[&str]| {
        let offer = |name: &&str| Offer {
            item: CatalogItem::Tool(Arc::new(testkit::read_only_tool(
                name,
                source,
                &json!({"type": "object"}),
            ))),
            executor: testkit::executor::echo_executor(),
        };
        let listing =
            SourceListing { offers: tools.iter().map(offer).collect(), ..SourceListing::default() };
        let shelf = SourceCatalog::new_starting(
            SourceName::new(source).unwrap(),
            "test",
            SourceTrust::Full,
        );
        Arc::new(shelf.with_listing(&Org::default(), listing))
    };
    let mut shelves: Vec<_> =
        (0..50).map(|at| shelf(&format!("s{at}"), &[&format!("t{at}"), "same"])).collect();
    let before = Catalog::from_sources(1, shelves.clone());
    assert_eq!(before.len(), 100, "50 of them by a qualified name, but for the first");
    let mut new = |at: usize, tools: &[&str], catalog: &Catalog| {
        shelves[at] = shelf(&format!("s{at}"), tools);
        let next = catalog.with_sources(2, shelves.clone());
        let both = catalog.merged_sources().iter().zip(next.merged_sources());
        let new = both.filter(|(a, b)| !Arc::ptr_eq(a.as_ref().unwrap(), b.as_ref().unwrap()));
        let new = new
            .map(|(_, part)| part.as_ref().unwrap().source_catalog().source.to_string())
            .collect();
        (next, new)
    };
    let (next, parts): (_, Vec<String>) = new(7, &["t7", "more"], &before);
    assert_eq!(parts, ["s7"]);
    let (next, parts) = new(8, &["t8", "t9"], &next);
    assert_eq!(parts, ["s8", "s9"], "it takes a name of another source");
    let (_, parts) = new(0, &["t0"], &next);
    assert!(parts.len() > 40, "all others hear of it whom the name is no longer refused for");
}
