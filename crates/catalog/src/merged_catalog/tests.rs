mod changes;

use std::sync::Arc;

use serde_json::json;
use tool::source::{SourceErrorKind, ToolAlias};
use tool::{
    CatalogItem, Offer, Org, Problem, SourceError, SourceListing, SourceName, SourceTrust, WallTime,
};

use super::Catalog;
use crate::{SourceCatalog, SourceState};
use tool::confusable_text::confusable_skeleton;

fn offer(name: &str, description: &str) -> Offer {
    let schema = json!({"type": "object"});
    let tool = testkit::read_only_tool(name, description, &schema);
    Offer { item: CatalogItem::Tool(Arc::new(tool)), executor: testkit::executor::echo_executor() }
}

fn empty(source: &str) -> SourceCatalog {
    SourceCatalog::new_starting(SourceName::new(source).unwrap(), "test", SourceTrust::Full)
}

fn shelf(source: &str, offers: Vec<Offer>) -> SourceCatalog {
    empty(source)
        .with_listing(&Org::default(), SourceListing { offers, ..SourceListing::default() })
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.list_tools().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn the_first_source_keeps_the_name_and_the_other_has_its_qualified_one() {
    let a = shelf("a", vec![offer("x", "of a"), offer("y", "of a")]);
    let b = shelf("b", vec![offer("x", "of b"), offer("X", "of b"), offer("z", "of b")]);
    let catalog = Catalog::from_sources(1, vec![Arc::new(a), Arc::new(b)]);
    assert_eq!(names(&catalog), ["x", "y", "b.x", "b.X", "z"]);
    let found = |name: &str| catalog.find_tool(name).map(|(_, entry)| entry.tool_key.to_string());
    assert_eq!(found("x").unwrap(), "default/a/x");
    assert_eq!(found("b.x").unwrap(), "default/b/x");
    assert_eq!(found("b.X").unwrap(), "default/b/X");
    // Each is found by its qualified name, and under no name of another.
    assert_eq!(found("a.x").unwrap(), "default/a/x");
    assert_eq!(found("b.z").unwrap(), "default/b/z");
    assert_eq!((found("X"), found("a.z"), found("c.x")), (None, None, None));
    let b = SourceName::new("b").unwrap();
    let told: Vec<_> = catalog.source_problems(&b).map(|p| p.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "the name `x` is already taken by source `a`",
            "the name `X` looks like `x` of source `a`"
        ]
    );
}

#[test]
fn one_source_may_have_names_that_look_alike() {
    let a = shelf("a", vec![offer("l1", "1"), offer("ll", "2")]);
    assert_eq!(confusable_skeleton("l1"), confusable_skeleton("LL"));
    assert_eq!(names(&Catalog::from_sources(1, vec![Arc::new(a)])), ["l1", "ll"]);
}

#[test]
fn within_a_source_the_first_definition_stays() {
    let a = shelf("a", vec![offer("x", "1"), offer("x", "1"), offer("x", "2")]);
    assert_eq!(a.tools.len(), 1);
    assert_eq!(a.tools[0].tool.description, "1");
    assert_eq!(a.problems.len(), 1);
    assert_eq!(a.problems[0].message, "Tool x already registered");
}

/// Whatever the last listing had where: the result is that of a first listing.
#[test]
fn a_repeated_name_is_one_in_each_listing() {
    let listings = [
        &[("x", "1"), ("y", "1"), ("z", "1")][..],
        &[("x", "1"), ("y", "2"), ("z", "1"), ("x", "1")],
        &[("x", "1"), ("x", "2"), ("y", "2"), ("y", "1")],
        &[("y", "2"), ("x", "1"), ("y", "1"), ("z", "1"), ("z", "2")],
        &[("x", "1"), ("x", "1")],
        &[("x", "1"), ("y", "1"), ("x", "2")],
    ];
    let (mut last, mut problems) = (empty("a"), 0);
    for listing in listings {
        let offers = || listing.iter().map(|(name, text)| offer(name, text)).collect();
        let next = SourceListing { offers: offers(), ..SourceListing::default() };
        last = last.with_listing(&Org::default(), next);
        let first = shelf("a", offers());
        let tools = |of: &SourceCatalog| -> Vec<_> {
            of.tools.iter().map(|it| (it.name.clone(), it.tool.description.clone())).collect()
        };
        assert_eq!(tools(&last), tools(&first), "{listing:?}");
        assert_eq!(last.problems, first.problems, "{listing:?}");
        problems += last.problems.len();
    }
    assert_eq!(problems, 5);
}

#[test]
fn a_tool_with_a_bad_schema_does_not_take_the_others_down() {
    let bad = testkit::read_only_tool("bad", "d", &json!({"type": "dict"}));
    let bad = Offer {
        item: CatalogItem::Tool(Arc::new(bad)),
        executor: testkit::executor::echo_executor(),
    };
    let a = shelf("a", vec![offer("x", "1"), bad, offer("y", "1")]);
    assert_eq!(a.tools.len(), 2);
    assert_eq!(a.problems[0].location, "bad");
}

#[test]
fn what_is_known_outlives_a_failure() {
    let error = SourceError {
        kind: SourceErrorKind::Unreachable,
        problem: Problem::new("http://x", "connection refused"),
    };
    let new = empty("a").with_failure(&error, WallTime(5));
    assert_eq!(
        (new.state, new.tools.len()),
        (SourceState::Failed(SourceErrorKind::Unreachable), 0)
    );
    let known = shelf("a", vec![offer("x", "1")])
        .with_failure(&error, WallTime(5))
        .with_failure(&error, WallTime(9));
    assert_eq!((known.state, known.tools.len()), (SourceState::Stale, 1));
    assert_eq!((known.stale_since, known.problems.len()), (Some(WallTime(5)), 1));
}

#[test]
fn what_is_held_back_is_in_no_list_and_keeps_its_name() {
    let mut a = shelf("a", vec![offer("x", "of a"), offer("y", "of a")]);
    a.apply_pins(|name, _| name.as_str() != "x");
    let b = shelf("b", vec![offer("x", "of b"), offer("z", "of b")]);
    let (a, b) = (Arc::new(a), Arc::new(b));
    let catalog = Catalog::from_sources(1, vec![Arc::clone(&a), Arc::clone(&b)]);
    assert_eq!(names(&catalog), ["y", "b.x", "z"]);
    assert!(catalog.find_tool("x").is_none(), "nobody comes into its place");
    assert_eq!(catalog.source_problems(&b.source).count(), 1);
    let mut again = SourceCatalog::clone(&a);
    again.apply_pins(|_, _| true);
    assert_eq!((again.tools.len(), again.blocked.len()), (2, 0));
    let catalog = Catalog::from_sources(2, vec![Arc::new(again), b]);
    assert_eq!(catalog.find_tool("x").unwrap().1.tool.description, "of a");
}

#[test]
fn a_title_in_other_letters_that_reads_as_anothers_tool_is_told() {
    let titled = |name: &str, title: &str| {
        let mut tool = testkit::read_only_tool(name, "d", &json!({"type": "object"}));
        tool.title = Some(title.to_owned());
        Offer {
            item: CatalogItem::Tool(Arc::new(tool)),
            executor: testkit::executor::echo_executor(),
        }
    };
    let a = shelf("a", vec![offer("read_file", "of a")]);
    let plain = titled("b.x", "read_file");
    let disguised = titled("b.y", "r\u{435}\u{430}d_file");
    let b = shelf("b", vec![plain, disguised]);
    let catalog = Catalog::from_sources(1, vec![Arc::new(a), Arc::new(b)]);
    assert_eq!(names(&catalog), ["read_file", "b.x", "b.y"]);
    let b = SourceName::new("b").unwrap();
    let told: Vec<_> = catalog.source_problems(&b).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].location, "b.y");
}

#[test]
fn hidden_characters_are_written_out_and_the_hash_is_of_what_was_received() {
    let plain = shelf("a", vec![offer("x", "sum")]);
    let odd = shelf("a", vec![offer("x", "s\u{200b}um\u{1b}[8m")]);
    let again = shelf("a", vec![offer("x", "s\\u{200b}um\\u{1b}[8m")]);
    assert_eq!(odd.tools[0].tool.description, "s\\u{200b}um\\u{1b}[8m");
    assert!(odd.tools[0].has_invisible_chars && !plain.tools[0].has_invisible_chars);
    assert!(!odd.tools[0].tool.raw_definition.as_str().contains('\u{200b}'));
    // What is only shown the same is not the same.
    assert_eq!(odd.tools[0].tool, again.tools[0].tool);
    assert_ne!(odd.tools[0].definition_digest, again.tools[0].definition_digest);
}

/// Runs nothing, in places.
#[derive(Debug)]
struct Somewhere(Vec<String>);

impl tool::Executor for Somewhere {
    fn execute<'a>(
        &'a self,
        _: tool::RecordedCall<'a>,
        _: &'a tool::CallContext<'a>,
    ) -> tool::BoxFuture<'a, Result<tool::ExecutionState, tool::ExecuteError>> {
        Box::pin(std::future::pending())
    }

    fn node_ids(&self) -> Vec<String> {
        self.0.clone()
    }

    fn merge_with(&self, others: &[Arc<dyn tool::Executor>]) -> Option<Arc<dyn tool::Executor>> {
        let others = others.iter().flat_map(|other| other.node_ids());
        Some(Arc::new(Self(self.0.iter().cloned().chain(others).collect())))
    }
}

#[test]
fn one_definition_in_several_places_is_one_tool_and_another_is_a_name_that_is_taken() {
    let at = |place: &str, name: &str, description: &str| {
        let executor = Arc::new(Somewhere(vec![place.to_owned()]));
        Offer { executor, ..offer(name, description) }
    };
    let shelves = [
        shelf("a", vec![at("a", "x", "1")]),
        shelf("b", vec![at("b", "x", "1"), at("b", "y", "1")]),
        shelf("c", vec![at("c", "x", "2")]),
        // Of no place, so it is no other place of the same tool.
        shelf("d", vec![offer("y", "1")]),
    ];
    let catalog = Catalog::from_sources(1, shelves.into_iter().map(Arc::new).collect());
    assert_eq!(names(&catalog), ["x", "y", "c.x", "d.y"]);
    let places = |name: &str| catalog.find_tool(name).unwrap().1.executor.node_ids();
    assert_eq!(
        (places("x"), places("y")),
        (vec!["a".to_owned(), "b".into()], vec!["b".to_owned()])
    );
    let told = |source: &str| catalog.source_problems(&SourceName::new(source).unwrap()).count();
    assert_eq!((told("b"), told("c"), told("d")), (0, 1, 1));
}

#[test]
fn a_second_name_leads_to_its_tool_where_nothing_else_has_it() {
    let name = |name: &str| tool::ToolName::new(name).unwrap();
    let aliased = |source: &str, tools: &[&str]| {
        let full = |tool: &&str| format!("{source}.{tool}");
        let offers = tools.iter().map(|tool| offer(&full(tool), source)).collect();
        let alias = |tool: &&str| ToolAlias { alias: name(tool), tool_name: name(&full(tool)) };
        let aliases = tools.iter().map(alias).collect();
        let listing = SourceListing { offers, aliases, ..SourceListing::default() };
        Arc::new(empty(source).with_listing(&Org::default(), listing))
    };
    let shelves = vec![
        aliased("p", &["read_file", "list_dir", "look"]),
        aliased("q", &["list_dir", "gone"]),
        Arc::new(shelf("builtin", vec![offer("read_file", "builtin"), offer("Iook", "builtin")])),
    ];
    let catalog = Catalog::from_sources(1, shelves);
    let found =
        |name: &str| catalog.find_tool(name).map(|(_, entry)| entry.tool_key.name.to_string());
    assert_eq!(found("read_file").unwrap(), "read_file");
    assert_eq!(found("list_dir").unwrap(), "p.list_dir");
    assert_eq!(found("gone").unwrap(), "q.gone");
    assert_eq!(found("q.list_dir").unwrap(), "q.list_dir");
    assert_eq!(found("look"), None, "it looks like `Iook`");
    assert_eq!(names(&catalog).len(), 7, "a second name is no second tool");
}

#[test]
fn a_tool_of_that_very_name_goes_before_a_qualified_name() {
    let shelves = |with: bool| {
        let mut other = vec![offer("b.z", "of c")];
        other.extend(with.then(|| offer("b.x", "of c")));
        let all = [
            shelf("a", vec![offer("x", "of a")]),
            shelf("b", vec![offer("x", "of b")]),
            shelf("c", other),
        ];
        all.into_iter().map(Arc::new).collect::<Vec<_>>()
    };
    let found =
        |catalog: &Catalog, name: &str| catalog.find_tool(name).unwrap().1.tool_key.to_string();
    let first = Catalog::from_sources(1, shelves(false));
    assert_eq!(
        (found(&first, "b.x"), found(&first, "b.z")),
        ("default/b/x".into(), "default/c/b.z".into())
    );
    // As it comes and goes, whoever is called by the qualified name has it or not.
    let second = first.with_sources(2, shelves(true));
    assert_eq!(names(&second), ["x", "b.z", "b.x"]);
    assert_eq!(found(&second, "b.x"), "default/c/b.x");
    assert_eq!(
        second.source_problems(&SourceName::new("b").unwrap()).next().unwrap().help.as_deref(),
        Some("rename one of the two")
    );
    let third = second.with_sources(3, shelves(false));
    assert_eq!(names(&third), ["x", "b.x", "b.z"]);
    assert_eq!(found(&third, "b.x"), "default/b/x");
}

#[test]
fn an_identity_leads_to_its_tool_by_whichever_name_it_is_listed() {
    let a = Arc::new(shelf("a", vec![offer("x", "of a")]));
    let b = Arc::new(shelf("b", vec![offer("x", "of b")]));
    let key = b.tools[0].tool_key.clone();
    for shelves in [vec![Arc::clone(&a), Arc::clone(&b)], vec![Arc::clone(&b), Arc::clone(&a)]] {
        let catalog = Catalog::from_sources(1, shelves);
        assert_eq!(catalog.find_by_key(&key).unwrap().1.tool.description, "of b");
    }
    assert!(
        Catalog::from_sources(1, vec![a]).find_by_key(&key).is_none(),
        "another's tool is not it"
    );
}
