//! The handler of `tools/call`, with the argument headers and native tool names it needs.

use std::sync::{Arc, Mutex, PoisonError};

use catalog::{At, Catalog, Part};
use gateway::{Given, Request, View};
use http::HeaderName;
use mcp::header::{Mirror, Mismatch};
use mcp::{Era, code};
use tool::{Interface, Json, Limits, Map};

use super::asked::{Asked, text};
use super::body::Reply;
use super::refused::Refused;
use super::run::{Finish, run};
use super::scope::{Scope, speaks_mcp};
use server_core::lists::aside;

/// Handles the method `tools/call`.
pub(crate) async fn tool(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let name = text("name", asked.named.name.as_ref())?;
    let args = asked.named.args.clone().filter(|args| args.kind() != "null");
    let args = args.unwrap_or_else(Json::empty);
    let view = asked.who.view();
    let native = native(asked, &view, &name);
    if asked.era == Era::Stateless {
        mirrored(asked, &view, (&native, &args))?;
    }
    let mut finish = Finish::tool(asked, (&native, name), &args);
    let continues = finish.continues(asked).await?;
    // The limits that the message was parsed with, less the levels around the arguments; the number
    // of nodes depends on the size.
    let by = Limits { bytes: usize::MAX, nodes: usize::MAX, ..Limits::ARGUMENTS };
    let mut request = Box::new(Request::new(native, Given::Checked(args, by), Interface::Mcp));
    request.unasked = continues.is_none().then(|| asked.unasked()).flatten();
    request.continues = continues;
    Ok(run(asked, finish, request).await)
}

/// Resolves the name that a client used to the native tool name. A name unknown at the endpoint
/// becomes one that no tool can have, so that no tool of another source matches.
fn native(asked: &Asked<'_>, view: &View, name: &str) -> String {
    let Scope::Source(source) = asked.who.scope else {
        return asked.who.doors.lists.native(view, name);
    };
    let own = asked.who.doors.mcp.own.of(view, asked.who.scope, source);
    own.get(name).cloned().unwrap_or_else(|| format!("{source}/{name}"))
}

/// Checks that arguments repeated in headers equal those in the body. Only callers who see the tool
/// learn that it has such arguments.
fn mirrored(asked: &Asked<'_>, view: &View, (name, args): (&str, &Json)) -> Result<(), Refused> {
    let mirrors = asked.who.doors.mcp.mirrors.of(view.catalog());
    let known = mirrors.any.then(|| view.catalog().find(name)).flatten();
    let at = known.filter(|_| view.find(name).is_some());
    // Only for the primary name: an alias has no headers.
    let Some(mirror) = at.and_then(|(at, _)| mirrors.get(at, name)) else { return Ok(()) };
    if args.kind() != "object" {
        return Ok(());
    }
    let header = |name: &str| {
        let Ok(name) = HeaderName::try_from(name) else { return Ok(None) };
        asked.heads.one(&name).map_err(|refused| Mismatch(refused.error.message))
    };
    mirror
        .check(&args.value(), header)
        .map_err(|mismatch| Refused::bad(code::HEADER_MISMATCH, mismatch.to_string()))
}

/// A map from native tool names.
type ByName<T> = Arc<Map<String, T>>;

/// Tools with arguments that are repeated in headers, of the newest catalog.
#[derive(Debug, Default)]
pub(crate) struct Mirrors(Mutex<Arc<Marked>>);

/// The argument headers of one catalog. Sources that did not change since the previous catalog are
/// not indexed again.
#[derive(Debug, Default)]
struct Marked {
    of: Option<u64>,
    /// Whether any tool has such arguments.
    any: bool,
    /// The argument headers of each merged source, by its slot.
    parts: Vec<Option<(Arc<Part>, ByName<Mirror>)>>,
}

impl Mirrors {
    fn of(&self, catalog: &Catalog) -> Arc<Marked> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&lock());
        if before.of == Some(catalog.number) {
            return before;
        }
        // Indexed outside the lock: two callers may do it at once after a change, with equal
        // results.
        let marked = Arc::new(aside(catalog.len(), || Marked::new(catalog, &before)));
        *lock() = Arc::clone(&marked);
        marked
    }
}

impl Marked {
    fn new(catalog: &Catalog, before: &Self) -> Self {
        let slots = catalog.parts().iter().enumerate();
        let parts = slots.map(|(slot, part)| {
            let part = part.as_ref()?;
            let known = before.parts.get(slot).and_then(Option::as_ref);
            let known = known.filter(|(known, _)| Arc::ptr_eq(known, part));
            Some(known.cloned().unwrap_or_else(|| (Arc::clone(part), read(part))))
        });
        let parts: Vec<_> = parts.collect();
        let any = parts.iter().flatten().any(|(_, marked)| !marked.is_empty());
        Self { of: Some(catalog.number), any, parts }
    }

    /// The argument headers of a tool; `None` if it has none.
    fn get(&self, at: At, name: &str) -> Option<&Mirror> {
        self.parts.get(at.slot())?.as_ref()?.1.get(name)
    }
}

fn read(part: &Part) -> ByName<Mirror> {
    let marked = part.tools().filter(|entry| entry.tool.input.as_str().contains("x-mcp-header"));
    // A schema with invalid marks has no argument headers: clients must not list it, and cannot
    // send them.
    let read = marked.filter_map(|entry| {
        let mirror = Mirror::of(&entry.tool.input.value()).ok()?;
        Some((entry.name.to_string(), mirror))
    });
    Arc::new(read.filter(|(_, mirror)| !mirror.is_empty()).collect())
}

/// The native names of a source's tools, as its endpoint lists them, with their names in the
/// catalog.
#[derive(Debug, Default)]
pub(crate) struct OwnNames(Mutex<Map<(u64, String), ByName<String>>>);

/// Maximum number of cached views and sources; the cache is cleared beyond that.
const REMEMBERED: usize = 1_024;

impl OwnNames {
    fn of(&self, view: &View, scope: &Scope, source: &str) -> ByName<String> {
        let key = (view.id, source.to_owned());
        if let Some(found) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(found);
        }
        let received = scope.shelf(view).ok().flatten().is_some_and(|shelf| speaks_mcp(shelf));
        let names = view.tools_of(source).map(|entry| {
            let own = entry.tool.received.get("name").filter(|_| received);
            let own = own.and_then(|own| own.read().ok());
            (own.unwrap_or_else(|| entry.key.name.to_string()), entry.name.to_string())
        });
        let names = Arc::new(names.collect());
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= REMEMBERED {
            cached.clear();
        }
        cached.insert(key, Arc::clone(&names));
        names
    }
}
