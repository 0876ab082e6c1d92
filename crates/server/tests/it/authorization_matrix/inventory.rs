//! Inventory of the matrix: every route, gRPC method and MCP method is tried or has a reason. It is
//! compared with the server, so that a new method fails until it is added.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::path::Path;

use super::model::Action;
use super::requests::REQUESTS;
use super::{Group, MatrixObservation};

/// Routes of an action of the model, and the group of actions that tests it.
const ACTIONS: &[(&str, Group, Action)] = &[
    ("GET /v1/tools", Group::Tools, Action::List),
    ("GET /v1/tools/{name}", Group::Tools, Action::Show(0)),
    ("GET /v1/search", Group::Tools, Action::List),
    ("POST /v1/calls", Group::Tools, Action::Call(0)),
    ("POST /v1/explain", Group::Tools, Action::Explain(0)),
    ("GET /tools", Group::Tools, Action::List),
    ("POST /execute", Group::Tools, Action::Call(0)),
    ("POST /api/modules/{module}/execute", Group::Tools, Action::Call(0)),
    ("POST /cluster-tools/execute", Group::Tools, Action::Call(0)),
    ("POST /v1/calls/{id}/resume", Group::Decisions, Action::ResumeOther),
    ("GET /v1/approvals", Group::Decisions, Action::Approvals),
    ("GET /v1/approvals/{id}", Group::Decisions, Action::Approval(0)),
    ("POST /v1/approvals/{id}/approve", Group::Decisions, Action::Approve(0)),
    ("POST /v1/approvals/{id}/deny", Group::Decisions, Action::Deny(0)),
    ("POST /v1/approvals/{id}/edit", Group::Decisions, Action::Edit(0)),
    ("GET /v1/artefacts/{id}", Group::Requests, Action::Artefact),
    ("GET /v1/records", Group::Requests, Action::Records),
    ("GET /v1/sources", Group::Requests, Action::Sources),
    ("GET /v0.1/servers", Group::Requests, Action::Servers),
    ("POST /v1/sources/refresh", Group::Requests, Action::RefreshSource),
    ("GET /v1/pins", Group::Requests, Action::Pins),
    ("POST /v1/pins/{source}/{tool}/approve", Group::Requests, Action::DecidePin),
    ("GET /v1/plugins", Group::Requests, Action::Plugins),
    ("GET /v1/plugins", Group::Requests, Action::ChangedPlugins),
    ("GET /v1/plugins/{name}/settings", Group::Requests, Action::PluginSettings),
    ("POST /v1/plugins/{name}/settings", Group::Requests, Action::SetPluginSettings),
    ("GET /v1/keys", Group::Requests, Action::Keys),
    ("GET /v1/nodes", Group::Requests, Action::Nodes),
    ("GET /tools/{node_id}", Group::Requests, Action::NodeTools),
    ("GET /api/modules", Group::Requests, Action::Modules),
];

/// Routes without a principal, or tried in another matrix.
const ROUTES_APART: &[(&str, &str)] = &[
    ("GET /healthz", "public: whether the process lives"),
    ("GET /health", "public: the same for the module API"),
    ("GET /readyz", "public: whether calls can be recorded"),
    ("GET /version", "public: name and version"),
    ("GET /openapi.json", "public: this list itself"),
    ("GET /.well-known/oauth-protected-resource", "public: how a client gets a token"),
    ("GET /.well-known/oauth-protected-resource/mcp", "public: how a client gets a token"),
    ("GET /.well-known/oauth-protected-resource/mcp/{source}", "public: the same for any name"),
    ("GET /.well-known/ai-catalog.json", "public: where the server card is"),
    ("GET /mcp/server-card", "public: how clients connect"),
    ("GET /approvals/{id}", "public: a page that says the same of any id"),
    ("GET /v1/programs", OF_PROGRAMS),
    ("POST /v1/programs", OF_PROGRAMS),
    ("GET /v1/programs/tools", OF_PROGRAMS),
    ("GET /v1/programs/{id}", OF_PROGRAMS),
    ("POST /v1/programs/{id}/resume", OF_PROGRAMS),
    ("POST /v1/programs/{id}/cancel", OF_PROGRAMS),
];

const OF_PROGRAMS: &str = "programs run in the binary: `toolkeep::it::matrix`";

/// Methods of MCP that are tried, and the action behind them.
const METHODS: &[(&str, Action)] = &[
    ("tools/list", Action::List),
    ("tools/call", Action::Call(0)),
    ("prompts/list", Action::Method(0)),
    ("prompts/get", Action::Method(0)),
    ("resources/list", Action::Method(1)),
    ("resources/templates/list", Action::Method(1)),
    ("resources/read", Action::Method(1)),
    ("skills/list", Action::Method(1)),
    ("completion/complete", Action::Method(2)),
    ("resources/directory/read", Action::Method(4)),
];

const METHODS_APART: &[(&str, &str)] = &[
    ("ping", "reads and changes nothing"),
    ("initialize", "begins a session of the caller's own; `it::mcp::sessions`"),
    ("server/discover", "says what the server can do, and nothing of tools"),
    ("logging/setLevel", "of the caller's own session; `it::mcp::streams`"),
    ("subscriptions/listen", "the caller's own stream; `it::mcp::streams`"),
    ("tasks/get", "the caller's own call, by a sealed id; `it::mcp::tasks`"),
    (
        "events/list",
        "the event types that the caller may subscribe to; `it::mcp::events`, `it::mcp::source_events`",
    ),
    ("events/poll", "events of what the caller sees; `it::mcp::events`, `it::mcp::random_views`"),
    ("events/stream", "as `events/poll`; `it::mcp::events`"),
    ("events/subscribe", "as `events/poll`, to a webhook of the caller; `it::mcp::events`"),
    ("events/unsubscribe", "the caller's own webhook; `it::mcp::events`"),
    ("tasks/update", "the caller's own call, by a sealed id; `it::mcp::tasks`"),
    ("tasks/cancel", "the caller's own call, by a sealed id; `it::mcp::tasks`"),
    (
        "resources/subscribe",
        "lasts as long as a session; the view is asked as for `resources/read`",
    ),
    ("resources/unsubscribe", "of the caller's own session"),
    ("skills/get", "an entry of `skills/list`: `it::mcp::skills`, `it::mcp::random_views`"),
];

/// Methods of gRPC.
const GRPC: &[(&str, Action)] = &[
    ("ToolExecutor.CallFunction", Action::Call(0)),
    ("Node.List", Action::List),
    ("Node.Call", Action::Call(0)),
];

const GRPC_APART: &[(&str, &str)] = &[(
    "Node.Cancel",
    "the caller's own call: `it::grpc::a_call_is_cancelled_by_its_caller_and_nobody_else`",
)];

/// Whether all actions of this group were tested.
pub(super) fn assert_tried(group: Group, seen: &[MatrixObservation]) {
    let tried: Vec<_> = seen.iter().map(|(_, action, ..)| discriminant(action)).collect();
    let of_group = ACTIONS.iter().filter(|(_, of, _)| *of == group);
    for (what, _, action) in of_group {
        assert!(tried.contains(&discriminant(action)), "nobody tried {what} by {action:?}");
    }
    if group == Group::Tools {
        for (what, action) in METHODS.iter().chain(GRPC) {
            assert!(tried.contains(&discriminant(action)), "nobody tried {what} by {action:?}");
        }
    }
    if group == Group::Requests {
        let indices = seen.iter().filter_map(|(_, action, ..)| match action {
            Action::Request(index) => Some(*index),
            _ => None,
        });
        assert_eq!(indices.collect::<BTreeSet<_>>().len(), REQUESTS.len());
    }
}

/// Compares the existing actions with the tested and the excepted ones: no entry is missing on one
/// side, and no tested action has an exception.
fn compare<'a>(
    there: &BTreeSet<String>,
    tried: impl Iterator<Item = &'a str>,
    apart: &[(&str, &str)],
) -> Vec<String> {
    let tried: BTreeSet<_> = tried.map(str::to_owned).collect();
    let apart: BTreeMap<_, _> =
        apart.iter().map(|(what, why)| ((*what).to_owned(), *why)).collect();
    let known: BTreeSet<_> = tried.iter().chain(apart.keys()).cloned().collect();
    let undecided = there.difference(&known).map(|what| format!("{what} is tried by nobody"));
    let gone = known.difference(there).map(|what| format!("there is no {what}"));
    let both = tried.iter().filter(|what| apart.contains_key(*what));
    let both = both.map(|what| format!("{what} is tried, and has a reason not to be"));
    undecided.chain(gone).chain(both).collect()
}

/// Method and path of each route of the router, which mounts the entries of this document.
fn routes() -> BTreeSet<String> {
    let document = server::openapi();
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, of_path)| {
        let methods = of_path.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect()
}

fn tried_routes() -> impl Iterator<Item = &'static str> {
    ACTIONS.iter().map(|(route, ..)| *route).chain(REQUESTS.iter().map(|request| request.route))
}

#[test]
fn each_route_is_in_the_matrix_or_has_a_reason() {
    let there = routes();
    assert!(there.len() > 80, "{}", there.len());
    assert_eq!(compare(&there, tried_routes(), ROUTES_APART), Vec::<String>::new());
    // Whoever is let in without a key is on the list of what is public, and nothing else is.
    let document = server::openapi();
    for (route, why) in ROUTES_APART {
        let (method, path) = route.split_once(' ').unwrap();
        let keyed = document["paths"][path][method.to_lowercase()].get("security").is_some();
        assert_eq!(keyed, !why.starts_with("public"), "{route}");
    }
    // The control: one more route, one less, and one that is on both lists are each found.
    let mut other = there;
    other.insert("GET /v1/more".to_owned());
    other.remove("GET /version");
    let both = [ROUTES_APART, &[("GET /v1/tools", "no reason")]].concat();
    assert_eq!(compare(&other, tried_routes(), &both).len(), 3);
}

#[test]
fn each_request_goes_to_the_route_that_it_stands_for() {
    for request in REQUESTS {
        let (_, route) = request.route.split_once(' ').unwrap();
        let path = request.path.split('?').next().unwrap();
        let (parts, of_route): (Vec<_>, Vec<_>) =
            (path.split('/').collect(), route.split('/').collect());
        let fits = |(part, of_route): (&&str, &&str)| part == of_route || of_route.starts_with('{');
        assert_eq!(parts.len(), of_route.len(), "{}", request.path);
        assert!(parts.iter().zip(&of_route).all(fits), "{}", request.path);
    }
}

/// A file of this repository, by its path from this crate.
fn source(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Besides the table of routes, only the two MCP endpoints are mounted.
#[test]
fn no_route_is_mounted_beside_the_table() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["server", "server-core", "server-rest", "server-mcp", "server-compat"];
    let mut files = folders.map(|name| crates.join(name).join("src")).to_vec();
    let mut found = BTreeMap::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let count = text.matches(".route(").count() + text.matches(".route_service(").count();
        let name = path.strip_prefix(&crates).unwrap().to_string_lossy().into_owned();
        *found.entry(name).or_insert(0) += count;
    }
    found.retain(|_, count| *count > 0);
    let mounted =
        [("server-mcp/src/lib.rs".to_owned(), 2), ("server/src/route_table.rs".to_owned(), 1)];
    assert_eq!(found, BTreeMap::from(mounted));
}

/// Texts between quotes.
fn quoted(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split('"').skip(1).step_by(2).map(str::to_owned)
}

#[test]
fn each_method_of_mcp_is_in_the_matrix_or_has_a_reason() {
    let text = source("../server-mcp/src/dispatch.rs");
    let (_, table) = text.split_once("match (context.method, context.era) {").unwrap();
    let (table, _) = table.split_once("_ => source_methods::relay_method(&context)").unwrap();
    let there: BTreeSet<_> = quoted(table).collect();
    assert!(there.len() > 15, "{there:?}");
    let tried = || METHODS.iter().map(|(method, _)| *method);
    assert_eq!(compare(&there, tried(), METHODS_APART), Vec::<String>::new());
    // The control: a method without a reason is found.
    assert_eq!(compare(&there, tried(), &METHODS_APART[1..]).len(), 1);
}

#[test]
fn each_method_of_grpc_is_in_the_matrix_or_has_a_reason() {
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/proto")];
    let mut there = BTreeSet::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut service = "";
        for line in text.lines().map(str::trim) {
            let name = |word: &str| line.strip_prefix(word)?.split([' ', '(', '{']).next();
            service = name("service ").unwrap_or(service);
            there.extend(name("rpc ").map(|method| format!("{service}.{method}")));
        }
    }
    let tried = || GRPC.iter().map(|(method, _)| *method);
    assert_eq!(compare(&there, tried(), GRPC_APART), Vec::<String>::new());
    assert_eq!(compare(&there, tried(), &GRPC_APART[1..]).len(), 1, "the control");
}
