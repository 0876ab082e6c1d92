//! Each command is a client of REST with its own key, or has a reason why no server is asked: it decides nothing, so
//! that what a principal gets by it is what it gets at the route.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use super::played::{Played, listener};
use crate::Cli;

/// Commands, what they are given, and the route that they ask first. `{file}` is an empty file.
const COMMANDS: &[(&str, &[&str], &str)] = &[
    ("tool list", &[], "GET /v1/tools"),
    ("tool search", &["a"], "GET /v1/search"),
    ("tool count", &[], "GET /v1/tools"),
    ("tool export", &["--format", "mcp"], "GET /v1/tools"),
    ("tool show", &["a"], "GET /v1/tools/{name}"),
    ("tool call", &["a", "--args", "{}"], "POST /v1/calls"),
    ("toolset list", &[], "GET /v1/toolsets"),
    ("toolset show", &["a"], "GET /v1/toolsets/{name}"),
    ("toolset add", &["a", "--tool", "b"], "PUT /v1/toolsets/{name}"),
    ("toolset remove", &["a"], "DELETE /v1/toolsets/{name}"),
    ("toolset accept", &["a"], "GET /v1/toolsets/{name}"),
    ("source list", &[], "GET /v1/sources"),
    ("source refresh", &[], "POST /v1/sources/refresh"),
    ("source disable", &["a"], "PUT /v1/switches"),
    ("source enable", &["a", "b"], "PUT /v1/switches"),
    ("source login", &["a"], "POST /v1/sources/login"),
    ("source logout", &["a"], "POST /v1/sources/logout"),
    ("pin list", &[], "GET /v1/pins"),
    ("pin show", &["a/b"], "GET /v1/pins/{source}/{tool}"),
    ("pin diff", &["a/b"], "GET /v1/pins/{source}/{tool}"),
    ("pin approve", &["a/b"], "GET /v1/pins/{source}/{tool}"),
    ("pin reject", &["a/b"], "GET /v1/pins/{source}/{tool}"),
    ("module list", &[], "GET /api/modules"),
    ("module refresh", &[], "POST /refresh-tools"),
    ("plugin list", &[], "GET /v1/plugins"),
    ("plugin reload", &[], "POST /v1/plugins/reload"),
    ("plugin settings", &["a"], "GET /v1/plugins/{name}/settings"),
    ("persona create", &["a", "--modules", "b"], "POST /v1/personas"),
    ("persona list", &[], "GET /v1/personas"),
    ("persona set", &["a", "--modules", "b"], "POST /v1/personas/{name}"),
    ("persona default", &["a"], "POST /v1/personas/{name}"),
    ("role set", &["a"], "PUT /v1/roles/{name}"),
    ("role list", &[], "GET /v1/roles"),
    ("role revoke", &["a"], "DELETE /v1/roles/{name}"),
    ("org create", &["a"], "POST /v1/orgs"),
    ("org list", &[], "GET /v1/orgs"),
    ("org tools", &["a"], "GET /v1/orgs/{org}/tools"),
    ("org disable", &["a"], "DELETE /v1/orgs/{org}"),
    ("org enable", &["a"], "POST /v1/orgs/{org}/enable"),
    ("user create", &["a"], "POST /v1/users"),
    ("user list", &[], "GET /v1/users"),
    ("user promote", &["a", "--level", "user"], "POST /v1/users/{subject}/level"),
    ("user disable", &["a"], "DELETE /v1/users/{subject}"),
    ("user enable", &["a"], "POST /v1/users/{subject}/enable"),
    ("node list", &[], "GET /v1/nodes"),
    ("node show", &["a"], "GET /v1/nodes/{node_id}"),
    ("node invite", &["a"], "POST /v1/nodes/{node_id}/invite"),
    ("node revoke", &["a"], "POST /v1/nodes/{node_id}/revoke"),
    ("node drain", &["a"], "POST /v1/nodes/{node_id}/drain"),
    ("node resume", &["a"], "POST /v1/nodes/{node_id}/resume"),
    ("node join", &["a"], "POST /v1/nodes/{node_id}/join"),
    ("approval list", &[], "GET /v1/approvals"),
    ("approval show", &["a"], "GET /v1/approvals/{id}"),
    ("approval approve", &["a"], "POST /v1/approvals/{id}/approve"),
    ("approval deny", &["a"], "POST /v1/approvals/{id}/deny"),
    ("approval edit", &["a", "--args", "{}"], "POST /v1/approvals/{id}/edit"),
    ("program run", &["{file}"], "POST /v1/programs"),
    ("program list", &[], "GET /v1/programs"),
    ("program show", &["a"], "GET /v1/programs/{id}"),
    ("program resume", &["a"], "POST /v1/programs/{id}/resume"),
    ("program cancel", &["a"], "POST /v1/programs/{id}/cancel"),
    ("program tools", &[], "GET /v1/programs/tools"),
    ("record list", &[], "GET /v1/records"),
    ("record show", &["a"], "GET /v1/calls/{id}"),
    ("key create", &["--subject", "a"], "POST /v1/keys"),
    ("key create", &["--delegate"], "POST /v1/keys/delegate"),
    ("key list", &[], "GET /v1/keys"),
    ("key revoke", &["a"], "DELETE /v1/keys/{id}"),
    ("policy explain", &["--tool", "a"], "POST /v1/explain"),
    ("policy preview", &["{file}"], "POST /v1/policy/preview"),
];

/// Commands that follow a server that runs already, and the route that they ask.
const FOLLOWING: &[(&str, &[&str], &str)] = &[
    ("approval watch", &[], "GET /v1/approvals"),
    ("top", &["--once"], "GET /v1/attention"),
    ("record tail", &[], "GET /v1/records"),
    ("status", &[], "GET /readyz"),
    ("ui", &[], "POST /v1/sign-in-links"),
];

/// Commands that are nobody's in particular.
const APART: &[(&str, &str)] = &[
    ("serve", "is the server"),
    ("stop", "ends a process of this machine"),
    ("config trust", "writes a file of the user's configuration"),
    ("mcp", "passes messages on to /mcp, or offers what its key may call there"),
    ("tool install", "a program on this machine"),
    ("source add", "writes the configuration file"),
    ("plugin new", "writes a folder"),
    ("plugin test", "runs a folder's plugin in a sandbox, with no server"),
    ("plugin schema", "prints a constant"),
    ("model install", "files of the data directory"),
    ("node authority", "the store of the data directory: whoever holds it is its owner"),
    ("node serve", "is a node, with the key that it got by `node join`"),
    ("node forward", "is a node, with the key that it got by `node join`"),
    ("record verify", "files of the data directory"),
    ("record checkpoint", "files of the data directory"),
    ("record export", "files of the data directory"),
    ("record proof", "files that were written before"),
    ("policy check", "a configuration file"),
    ("policy diff", "two configuration files"),
    ("store list", "the store of the data directory: whoever holds it is its owner"),
    ("key recover", "the data directory: whoever holds it is its owner"),
    ("store accept", "the store of the data directory: whoever holds it is its owner"),
    ("store remove", "the store of the data directory: whoever holds it is its owner"),
    ("config check", "a configuration file"),
    ("config show", "a configuration file"),
    ("config schema", "prints a constant"),
    ("upgrade", "files of the data directory and a configuration file"),
    ("version", "describes the program and this machine"),
    ("doctor", "checks this machine; what it asks of a server goes through the client"),
    ("error", "prints a constant"),
    ("completions", "prints a constant"),
];

/// The words of each command that has none below it.
fn commands() -> BTreeSet<String> {
    fn below(command: &clap::Command, words: &str, found: &mut BTreeSet<String>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let words = format!("{words} {}", inner.get_name());
            if inner.has_subcommands() {
                below(inner, &words, found);
            } else {
                found.insert(words.trim().to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    below(&Cli::command(), "", &mut found);
    found
}

/// Methods and paths of the router.
fn routes() -> BTreeSet<String> {
    let document = server::openapi();
    let paths = document["paths"].as_object().unwrap().iter();
    let routes = paths.flat_map(|(path, of_path)| {
        let methods = of_path.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    routes.collect()
}

/// Whether a path is one of the route's.
fn fits(path: &str, route: &str) -> bool {
    let (parts, of_route): (Vec<_>, Vec<_>) =
        (path.split('/').collect(), route.split('/').collect());
    let fits = |(part, of_route): (&&str, &&str)| part == of_route || of_route.starts_with('{');
    parts.len() == of_route.len() && parts.iter().zip(&of_route).all(fits)
}

fn undecided(there: &BTreeSet<String>, apart: &[(&str, &str)]) -> Vec<String> {
    let asking = COMMANDS.iter().map(|(words, ..)| *words).chain(FOLLOWING.iter().map(|it| it.0));
    let known = asking.chain(apart.iter().map(|it| it.0));
    let known: BTreeSet<_> = known.map(str::to_owned).collect();
    there.symmetric_difference(&known).cloned().collect()
}

#[test]
fn each_command_asks_a_route_or_has_a_reason() {
    let there = commands();
    assert!(there.len() > 80, "{}", there.len());
    assert_eq!(undecided(&there, APART), Vec::<String>::new());
    let both = COMMANDS.iter().filter(|(words, ..)| APART.iter().any(|(apart, _)| apart == words));
    assert_eq!(both.count(), 0);
    // The control: a command without a reason is found.
    assert_eq!(undecided(&there, &APART[1..]), ["serve"]);
}

#[test]
fn each_command_asks_its_route_with_the_key_that_it_was_given() {
    let routes = routes();
    let mut wrong = Vec::new();
    for (words, args, route) in COMMANDS {
        assert!(routes.contains(*route), "{route}");
        let played = Played::default();
        let file = played.data().with_file_name("script.py");
        fs::write(&file, "1").unwrap();
        let args = args.iter().map(|it| if *it == "{file}" { file.to_str().unwrap() } else { it });
        let line: Vec<_> = words.split(' ').chain(args).chain(["--key", "tk_mine"]).collect();
        played.run(&line);
        let requests = played.requests();
        let fits = |asked: &str| {
            let ((method, path), (of_route, route)) =
                (asked.split_once(' ').unwrap(), route.split_once(' ').unwrap());
            method == of_route && fits(path, route)
        };
        // A list looks first which sources it leaves out.
        let looks = |asked: &str| asked == "GET /v1/sources" && !fits(asked);
        let first = requests.iter().find(|(asked, _)| !looks(asked));
        if !first.is_some_and(|(asked, _)| fits(asked)) {
            wrong.push(format!("{words} asks {first:?}, and not {route}"));
        }
        let own = requests.iter().all(|(_, key)| key.as_deref() == Some("Bearer tk_mine"));
        if !own {
            wrong.push(format!("{words} shows another key: {requests:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_command_that_follows_a_server_asks_its_route_with_the_key_that_it_was_given() {
    let routes = routes();
    for (words, args, route) in FOLLOWING {
        assert!(routes.contains(*route), "{route}");
        let (url, asked) = listener();
        let given = args.iter().copied().chain(["--url", &url, "--key", "tk_mine"]);
        let line: Vec<_> = words.split(' ').chain(given).collect();
        Played::default().run(&line);
        let head = asked.recv().unwrap();
        let path = head.split([' ', '?']).take(2).collect::<Vec<_>>().join(" ");
        assert_eq!(path, *route, "{head}");
        assert!(head.contains("authorization: Bearer tk_mine\r\n"), "{head}");
    }
}

/// Files of the command line, without those of its tests.
fn sources() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files =
        ["cli", "cli-core", "cli-node"].map(|name| crates.join(name).join("src")).to_vec();
    let mut found = Vec::new();
    while let Some(path) = files.pop() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            files.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file() && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let own = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            found.push((name, own));
        }
    }
    found
}

#[test]
fn commands_ask_a_server_through_one_client_and_at_routes_alone() {
    let routes = routes();
    let paths: Vec<_> = routes.iter().map(|route| route.split_once(' ').unwrap().1).collect();
    let (mut doors, mut senders, mut asked) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (name, text) in sources() {
        if text.contains("HttpTransport::new(") {
            doors.insert(name.clone());
        }
        let code: String = text.split_whitespace().collect();
        if ["send_request(", "send_streaming("]
            .iter()
            .any(|it| code.contains(&format!("transport.{it}")))
        {
            senders.insert(name.clone());
        }
        let quoted = text.split('"').skip(1).step_by(2);
        let own = quoted.filter(|it| {
            ["/v1/", "/api/", "/tools", "/refresh", "/execute"].iter().any(|at| it.starts_with(at))
        });
        asked.extend(own.map(str::to_owned));
    }
    // The second is that of `toolkeep mcp`: at the address of the data directory's own server, and no other.
    assert_eq!(doors, ["background_transport.rs", "command_context.rs"].map(str::to_owned).into());
    assert_eq!(senders, ["rest_client.rs".to_owned()].into());
    assert!(asked.len() > 15, "{asked:?}");
    for path in asked {
        let begins = |route: &&str| *route == path || route.starts_with(&format!("{path}/"));
        assert!(paths.iter().any(begins), "{path} is no route");
    }
}
