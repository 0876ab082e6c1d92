//! All a server offers, page by page, within bounds of count, bytes and time.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use ::mcp::header::Mirror;
use ::mcp::{RpcError, code};
use serde_json::value::RawValue;
use tool::source::SourceFault;
use tool::{Executor, Item, Json, Listing, Offer, Problem, Tool};

use super::call::{NotCalled, Support, ToolCall};
use super::definition::{self, Read};
use super::dial::Fault;
use super::fail::{refused, unasked};
use super::greeting::Can;
use super::link::Link;
use super::page::{Kind, page};
use super::patience::WINDOW;
use super::upstream::Upstream;
use source_layers::ToolSelection;

/// Problems named one by one; the rest is counted.
const PROBLEMS: usize = 100;

/// Lists everything over `link`.
///
/// # Errors
/// Where the tools could not be listed. Prompts and resources that fail are problems beside them.
pub(super) async fn list(upstream: &Arc<Upstream>, link: &Arc<Link>) -> Result<Listing, Fault> {
    // Before the first question: what changes while it is asked counts as news.
    let revision = upstream.revision();
    let mut gathered = Gathered::new(upstream);
    let greeted = link.greeted();
    let can = greeted.can;
    for kind in [Kind::Tools, Kind::Prompts, Kind::Resources, Kind::Templates] {
        if !declared(can, kind) {
            continue;
        }
        let problem = match gathered.all(link, kind).await {
            Ok(()) => continue,
            Err(fault) if kind == Kind::Tools && can.tools.is_some() => return Err(fault),
            // A server that declares no tools may still have some, and need not.
            Err(_) if kind == Kind::Tools => continue,
            Err(fault) => fault.problem(&format!("{} of `{}`", kind.method(), upstream.name)),
        };
        gathered.problem(problem);
    }
    gathered.unmatched_marks();
    let Gathered { mut offers, mut problems, unnamed, .. } = gathered;
    offers.extend(super::method::offers(upstream, link));
    if unnamed > 0 {
        problems.push(Problem::new(
            upstream.name.as_str(),
            format!("{unnamed} more problems of the same list"),
        ));
    }
    problems.extend(link.shared.noise.problem(&upstream.place));
    problems.extend(upstream.scar().map(|(fault, ends)| {
        let message = format!(
            "is up again; it ended {} within {} minutes, the last time it {}",
            if ends == 1 { "once".to_owned() } else { format!("{ends} times") },
            WINDOW.as_secs() / 60,
            fault.message
        );
        Problem::new(upstream.place.clone(), message)
    }));
    problems.extend(upstream.account().and_then(|account| account.problem(&upstream.place)));
    let about = Some(greeted.about.clone());
    let trusted_annotations = upstream.options.marks.trust_annotations;
    Ok(Listing { revision, offers, problems, about, trusted_annotations, ..Listing::default() })
}

/// Whether to ask for lists of this kind. Tools are asked for in any case.
fn declared(can: Can, kind: Kind) -> bool {
    match kind {
        Kind::Tools => true,
        Kind::Prompts => can.prompts.is_some(),
        Kind::Resources | Kind::Templates => can.resources.is_some(),
    }
}

struct Gathered<'a> {
    upstream: &'a Arc<Upstream>,
    offers: Vec<Offer>,
    problems: Vec<Problem>,
    /// Problems that were only counted.
    unnamed: usize,
    items: usize,
    bytes: usize,
    names: HashSet<(&'static str, String)>,
    tools: BTreeSet<String>,
    /// Whether headers have to say again what arguments say.
    mirrors: bool,
}

impl<'a> Gathered<'a> {
    fn new(upstream: &'a Arc<Upstream>) -> Self {
        Self {
            upstream,
            offers: Vec::new(),
            problems: Vec::new(),
            unnamed: 0,
            items: 0,
            bytes: 0,
            names: HashSet::new(),
            tools: BTreeSet::new(),
            mirrors: false,
        }
    }

    fn problem(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS {
            self.problems.push(problem);
        } else {
            self.unnamed += 1;
        }
    }

    /// Follows the pages of one kind to their end.
    async fn all(&mut self, link: &Arc<Link>, kind: Kind) -> Result<(), Fault> {
        let mut cursors = HashSet::new();
        let mut cursor = None;
        self.mirrors = link.mirrors();
        loop {
            let params = match &cursor {
                Some(cursor) => Json::of(&serde_json::json!({"cursor": cursor})),
                None => Json::empty(),
            };
            let method = kind.method();
            let answer = link.page(method, &params).await.map_err(|why| unasked(method, why))?;
            // Resources need no templates, and many servers have no method for them.
            let is_missing = |error: &RpcError| error.code == code::METHOD_NOT_FOUND;
            if kind == Kind::Templates && answer.as_ref().is_err_and(is_missing) {
                return Ok(());
            }
            let result = answer.map_err(|error| {
                let why = refused(&error);
                Fault::new(SourceFault::Failed, format!("answered `{method}` with: {why}"))
            })?;
            let result = match result {
                Ok(result) => result.bytes().clone(),
                Err(spoiled) => spoiled.result,
            };
            let page = page(kind, &result).map_err(|why| {
                Fault::new(
                    SourceFault::Malformed,
                    format!("answered `{method}` with what cannot be read: {why}"),
                )
            })?;
            for raw in page.items {
                if let Err(problem) = self.take(kind, raw) {
                    self.problem(problem);
                    return Ok(());
                }
            }
            match page.next {
                None => return Ok(()),
                Some(next) if cursors.insert(next.clone()) => cursor = Some(next),
                Some(_) => {
                    let place = format!("{} of `{}`", kind.method(), self.upstream.name);
                    self.problem(Problem::new(
                        place,
                        "gives the same page again; what came before it is taken",
                    ));
                    return Ok(());
                }
            }
        }
    }

    /// One definition; an error ends the list.
    fn take(&mut self, kind: Kind, raw: &RawValue) -> Result<(), Problem> {
        let bounds = &self.upstream.options.bounds;
        self.items += 1;
        self.bytes = self.bytes.saturating_add(raw.get().len());
        if self.items > bounds.items || self.bytes > bounds.definitions {
            let message = format!(
                "offers more than {} definitions or {} bytes; what came after is left out",
                bounds.items, bounds.definitions
            );
            return Err(Problem::new(self.upstream.name.as_str(), message));
        }
        if let Err(problem) = self.offer(kind, (self.items - 1, raw)) {
            self.problem(problem);
        }
        Ok(())
    }

    fn offer(&mut self, kind: Kind, raw: (usize, &RawValue)) -> Result<(), Problem> {
        let (source, marks) = (&self.upstream.name, &self.upstream.options.marks);
        let (mut mirror, mut support) = (None, Support::None);
        let (own, item, problem) = match kind {
            Kind::Tools => {
                let Read { own, item, problem } = definition::tool(source, marks, raw)?;
                if !marks.offers(&own) {
                    self.tools.insert(own);
                    return Ok(());
                }
                mirror = self.mirror(&own, &item)?;
                support = Support::of(&item.received);
                (own, Item::Tool(Arc::new(item)), problem)
            }
            Kind::Prompts => {
                let Read { own, item, problem } = definition::prompt(source, raw)?;
                (own, Item::Prompt(item), problem)
            }
            Kind::Resources | Kind::Templates => {
                let Read { own, item, problem } =
                    definition::resource(kind == Kind::Templates, raw)?;
                (own, Item::Resource(item), problem)
            }
        };
        if !self.names.insert((kind.method(), own.clone())) {
            let place = format!("{} `{}`", kind.method(), tool::display_text::shown(&own, 80));
            return Err(Problem::new(place, "is defined twice; the first stands"));
        }
        let executor: Arc<dyn Executor> = if kind == Kind::Tools {
            self.tools.insert(own.clone());
            Arc::new(ToolCall::new(Arc::clone(self.upstream), &own, (mirror, support)))
        } else {
            Arc::new(NotCalled)
        };
        if let Some(problem) = problem {
            self.problem(problem);
        }
        self.offers.push(Offer { item, executor });
        Ok(())
    }

    /// Marks of headers that do not hold make a tool unfit to be called, where headers count.
    fn mirror(&self, own: &str, tool: &Tool) -> Result<Option<Mirror>, Problem> {
        match Mirror::of(&tool.input.value()) {
            Ok(mirror) => Ok(Some(mirror)),
            Err(_) if !self.mirrors => Ok(None),
            Err(why) => {
                let place = format!("tool `{}`", tool::display_text::shown(own, 80));
                let fix = "mend the mark in the tool's input schema at its server";
                Err(Problem::new(place, format!("is not offered: {why}")).fix(fix))
            }
        }
    }

    /// A mark for a tool that is not there is a slip of the pen that may leave a tool unmarked.
    fn unmatched_marks(&mut self) {
        let marks = &self.upstream.options.marks;
        let mut problems = Vec::new();
        let marked = [
            ("read_only", &marks.read_only),
            ("idempotent", &marks.idempotent),
            ("destructive", marks.destructive.as_ref().unwrap_or(&ToolSelection::None)),
            ("chain", &marks.chain),
        ];
        let marked = marked.map(|(mark, marked)| (mark, marked.names().collect::<Vec<_>>()));
        let sets =
            [("disabled_tools", Some(&marks.disabled)), ("includeTools", marks.enabled.as_ref())];
        let sets = sets
            .map(|(mark, names)| (mark, names.into_iter().flatten().map(String::as_str).collect()));
        for (mark, names) in marked.into_iter().chain(sets) {
            for name in names.into_iter().filter(|name| !self.tools.contains(*name)) {
                let message = format!("`{mark}` names `{name}`, which the server does not offer");
                let fix =
                    "write the name as the server has it, without the source's name before it";
                problems.push(Problem::new(self.upstream.name.as_str(), message).fix(fix));
            }
        }
        for problem in problems {
            self.problem(problem);
        }
    }
}
