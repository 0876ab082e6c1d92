//! Tests that random principals get the same by built-in tools, programs and commands as by REST.
//! The server crate tests REST itself.

mod matrix_fixture;
mod observe;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::run_count;
use crate::support::seeded_random::Random;
use matrix_fixture::{MATRIX_TOOLS, MatrixFixture, Person};
use observe::{COMMANDS, InterfaceOutcome, STATE_TOOLS};

/// Number of principals: 250, or 500 in a deep run.
fn people_count() -> usize {
    run_count(250, 500)
}

/// Number of principals that also run a script, which takes a process.
const SCRIPTS: usize = 50;

/// Panics if a result differs from that of REST. Control: compared with REST's result for the next
/// principal, each interface must differ somewhere, so that an interface that ignores its principal
/// is detected.
fn assert_same(people: &[Person], seen: &[(usize, InterfaceOutcome)]) {
    let differs = seen.iter().filter(|(_, it)| it.came != it.by_rest);
    let differs: Vec<_> =
        differs.map(|(who, it)| format!("{it:?} of {}", people[*who].told)).collect();
    let shown = differs.iter().take(12).cloned().collect::<Vec<_>>().join("\n");
    assert!(differs.is_empty(), "{} of {} differ:\n{shown}", differs.len(), seen.len());
    let mut last = BTreeMap::new();
    let mut others = BTreeMap::<&str, usize>::new();
    for (_, it) in seen {
        let at = (it.interface, it.what.as_str());
        if let Some(before) = last.insert(at, it.by_rest.as_str()) {
            *others.entry(it.interface).or_default() += usize::from(before != it.came);
        }
    }
    println!("{} outcomes; the control: {others:?} differ from another principal's", seen.len());
    assert!(others.values().all(|count| *count > 5), "{others:?}");
}

#[tokio::test]
async fn random_principals_get_by_built_in_tools_and_programs_what_rest_gives_them() {
    let world = MatrixFixture::new().await;
    let mut random = Random::new(0x5eed_2026);
    let (mut people, mut seen) = (Vec::new(), Vec::new());
    for who in 0..people_count() {
        let person = world.person(&mut random, who).await;
        let of_tools = observe::tools(&world, &person).await;
        let tool = random.index(MATRIX_TOOLS.len());
        let of_programs =
            observe::programs(&person, (tool, who % (people_count() / SCRIPTS) == 0)).await;
        seen.extend(of_tools.into_iter().chain(of_programs).map(|outcome| (who, outcome)));
        people.push(person);
    }
    // The control: to whom a program and an answer belong, there they are.
    let owner =
        Person { client: world.owner.clone(), key: String::new(), told: "the owner".to_owned() };
    let of_owner = observe::tools(&world, &owner).await;
    for tool in ["program_status", "read_artefact", "search_artefact"] {
        let outcome = of_owner.iter().find(|outcome| outcome.what == tool).unwrap();
        assert_eq!(outcome.came, "allowed", "{outcome:?}");
    }
    seen.extend(of_owner.into_iter().map(|outcome| (people.len(), outcome)));
    people.push(owner);
    assert_same(&people, &seen);
    let whats: BTreeSet<_> = seen.iter().map(|(_, outcome)| outcome.what.as_str()).collect();
    let untried =
        STATE_TOOLS.iter().filter(|tool| **tool != "run_program" && !whats.contains(**tool));
    assert_eq!(untried.count(), 0, "{whats:?}");
    // A tool of the tool file cannot have a handler that is not among those above.
    let local = world.owner.find_source("local").await.unwrap()["problems"].to_string();
    assert!(local.contains("use one of catalog.list, record.recent, source.status\""), "{local}");
    assert!(world.server.stop().await.success());
}

#[tokio::test]
async fn random_principals_get_by_a_command_what_rest_gives_them() {
    let world = MatrixFixture::new().await;
    let mut random = Random::new(0xc0_2026);
    let (mut people, mut seen) = (Vec::new(), Vec::new());
    for who in 0..people_count() {
        let person = world.person(&mut random, who).await;
        seen.push((who, observe::command(&world, &person, who).await));
        people.push(person);
    }
    assert_same(&people, &seen);
    let whats: BTreeSet<_> = seen.iter().map(|(_, outcome)| outcome.what.as_str()).collect();
    assert_eq!(whats.len(), COMMANDS.len());
    assert!(world.server.stop().await.success());
}

/// Built-in tools that read and change nothing of the server, and why.
const APART: &[(&[&str], &str)] = &[
    (&["calculator", "json_query", "csv_to_json", "json_to_csv", "echo", "lint_python"], COMPUTES),
    (&["generate_uuid", "get_current_datetime", "get_current_date", "get_current_time"], COMPUTES),
    (&["sql_query"], "computes from its arguments, in memory of its own"),
    (&["read_file", "write_file", "list_directory"], FILES),
    (&["archive_open", "archive_extract", "archive_file", "archive_search"], FILES),
    (&["git_status", "python_eval", "run_shell"], FILES),
    (&["http_get", "http_post", "web_search", "fetch_wikipedia"], "the network, through guard"),
];

const COMPUTES: &str = "computes from its arguments";
const FILES: &str = "the folder for work, the same for all who may call it";

#[test]
fn each_built_in_tool_is_in_the_matrix_or_has_a_reason() {
    let there: BTreeSet<_> = builtin_manifests::ToolFamily::General
        .registry()
        .tool_names()
        .chain(builtin_manifests::ToolFamily::Programs.registry().tool_names())
        .collect();
    let undecided = |apart: &[(&[&'static str], &str)]| -> Vec<&str> {
        let apart = apart.iter().flat_map(|(names, _)| names.iter().copied());
        let known: BTreeSet<_> = apart.chain(STATE_TOOLS).collect();
        there.iter().filter(|name| !known.contains(*name)).copied().collect()
    };
    assert_eq!(undecided(APART), Vec::<&str>::new());
    let gone = APART.iter().flat_map(|(names, _)| names.iter()).filter(|it| !there.contains(*it));
    assert_eq!(gone.collect::<Vec<_>>(), Vec::<&&str>::new());
    assert_eq!(undecided(&APART[1..]).len(), 6, "the control");
    // Those of the other crates compute, which is all that they can: they know nothing of a server.
    let computing = builtin_manifests::ToolFamily::Math
        .registry()
        .tool_names()
        .chain(builtin_manifests::ToolFamily::Symbolic.registry().tool_names());
    assert!(
        computing
            .chain(builtin_manifests::ToolFamily::Text.registry().tool_names())
            .all(|name| !STATE_TOOLS.contains(&name))
    );
}
