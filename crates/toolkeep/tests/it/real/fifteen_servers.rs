//! Tests of fifteen third-party servers behind one Toolkeep: definitions pass through byte for
//! byte, and calls give the same answers as directly.

mod backing_services;
mod context_tokens;
pub(super) mod gateway_peer;
mod list_comparison;
mod mcp_peer;
mod raw_json;
mod server_list;

use serde_json::{Value, json};

use super::record;
use crate::real_support::run_cli;
use crate::support::installation::Installation;
use crate::support::process_marks::{self, MARK_VARIABLE, marked_processes, wait_until};
use crate::support::server_process::{READY_LIMIT, Server, spawn_server};
use backing_services::BackingServices;
use gateway_peer::{GatewayPeer, Revision};
use list_comparison::{RevisionLists, Row, Verdict};
use mcp_peer::McpPeer;
use server_list::{Side, Upstream};

/// Of all fifteen, for a client that can do nothing of its own; the one that is there over HTTP too is
/// not counted twice.
const TOOLS: usize = 187;
/// Tools of `server-everything`: to such a client, and to one that answers questions, as Toolkeep does.
const EVERYTHING: [usize; 2] = [13, 17];
/// `server-everything` once more.
const REMOTE: &str = "remote";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifteen_servers_are_listed_byte_for_byte_and_answer_as_they_do_directly() {
    let home = Installation::new("");
    let around = BackingServices::start(&home).await;
    let (through, direct) = (Side::new(&home, "through"), Side::new(&home, "direct"));
    let (ours, theirs) = (server_list::all(&around, &through), server_list::all(&around, &direct));
    home.write("toolkeep.yaml", &configuration(&ours, &around, &through));
    let server = spawn_server(&home).wait_until_ready().await;
    all_are_up(&server, ours.len() + 1).await;

    let mut plain = McpPeer::able((&theirs[0], &direct), &json!({})).await;
    assert_eq!(plain.list("tools/list", "tools").await.unwrap().len(), EVERYTHING[0]);
    plain.end().await;

    let everywhere = RevisionLists::read(&server).await;
    let mut verdict = Verdict::default();
    for (at, (own, other)) in ours.iter().zip(&theirs).enumerate() {
        let mut alone = McpPeer::direct(other, &direct).await;
        let names = [Some(own.name), (own.name == "everything").then_some(REMOTE)];
        for source in names.into_iter().flatten() {
            let row = Row::of((&server, source), &mut alone, &everywhere).await;
            let revision = Revision::ALL[at % Revision::ALL.len()];
            let mut door = McpPeer::Door(GatewayPeer::open(&server, source, revision).await);
            let calls = [own.calls.as_slice(), &other.calls];
            verdict.0.push(row.calls([&mut door, &mut alone], calls, [&through, &direct]).await);
        }
        alone.end().await;
    }

    let sound = run_cli(&server, &["record", "verify"]);
    assert_eq!(sound.code, Some(0), "while it runs: {}{}", sound.out, sound.err);
    let left = process_marks::children(server.pid).len();
    assert!(left >= ours.len(), "a supervisor for each: {left}");
    let all = mcp_peer::descendants(server.pid);
    assert!(all.len() > 2 * ours.len(), "every server has a process: {}", all.len());
    let said = server.log_text();
    assert!(server.stop().await.success(), "{said}");
    assert_eq!(
        (process_marks::count_running(&all), marked_processes(&through.mark)),
        (0, vec![]),
        "left behind"
    );
    assert!(
        wait_until(READY_LIMIT, || marked_processes(&direct.mark).is_empty()).await,
        "left by the test"
    );
    verdict.judge(REMOTE, TOOLS + EVERYTHING[1] - EVERYTHING[0], &everywhere);
    record::holds(&home.records(), verdict.calls(), &[]).await;
}

/// All as sources; the same server a second time, over HTTP. JSON is YAML.
fn configuration(servers: &[Upstream], around: &BackingServices, side: &Side) -> String {
    let mut sources = trusted_sources(servers, side);
    sources.push(trusted(REMOTE, &json!({ "url": around.remote })));
    json!({ "version": 1, "sources": sources }).to_string()
}

fn trusted_sources(servers: &[Upstream], side: &Side) -> Vec<Value> {
    let source = |server: &Upstream| {
        let mut env: serde_json::Map<_, _> = server.env(side).map(|(k, v)| (k, json!(v))).collect();
        env.insert(MARK_VARIABLE.to_owned(), json!(side.mark));
        let (command, args) = server.words.split_first().unwrap();
        let mcp = json!({ "command": command, "args": args, "env": env, "cwd": side.folder });
        trusted(server.name, &mcp)
    };
    servers.iter().map(source).collect()
}

/// A source whose annotations go on as they came, and none of whose calls waits for a person.
fn trusted(name: &str, mcp: &Value) -> Value {
    json!({ "name": name, "mcp": mcp, "trust_annotations": true, "destructive": false })
}

/// A server that is slow to start is tried again, so only the last word counts.
async fn all_are_up(server: &Server, wanted: usize) {
    let owner = server.owner();
    let mut last = json!(null);
    for _ in 0..1_500 {
        last = owner.get("/v1/sources").await.body["sources"].take();
        let up = last
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["name"] != "builtin" && it["state"] == "ok");
        if up.count() == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("never up: {last:#}\n{}", server.log_text());
}
