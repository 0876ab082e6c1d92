//! Fifteen servers that others wrote, behind one Toolkeep: what each says of its tools when it is asked
//! directly is, byte for byte, what Toolkeep's callers read; and each answers a call as it does directly.

mod around;
mod compare;
pub(super) mod door;
mod peer;
mod raw;
mod servers;

use serde_json::{Value, json};

use super::record;
use crate::support::home::Home;
use crate::support::marks::{self, MARK, carriers, eventually};
use crate::support::server::{SOON, Server, start};
use crate::support_real::cli;
use around::Around;
use compare::{Everywhere, Row, Verdict};
use door::{Door, Revision};
use peer::Peer;
use servers::{Side, Upstream};

/// Of all fifteen, for a client that can do nothing of its own; the one that is there over HTTP too is
/// not counted twice.
const TOOLS: usize = 187;
/// Tools of `server-everything`: to such a client, and to one that answers questions, as Toolkeep does.
const EVERYTHING: [usize; 2] = [13, 17];
/// `server-everything` once more.
const REMOTE: &str = "remote";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifteen_servers_are_listed_byte_for_byte_and_answer_as_they_do_directly() {
    let home = Home::new("");
    let around = Around::start(&home).await;
    let (through, direct) = (Side::new(&home, "through"), Side::new(&home, "direct"));
    let (ours, theirs) = (servers::all(&around, &through), servers::all(&around, &direct));
    home.write("toolkeep.yaml", &configuration(&ours, &around, &through));
    let server = start(&home).ready().await;
    all_are_up(&server, ours.len() + 1).await;

    let mut plain = Peer::able((&theirs[0], &direct), &json!({})).await;
    assert_eq!(plain.list("tools/list", "tools").await.unwrap().len(), EVERYTHING[0]);
    plain.end().await;

    let everywhere = Everywhere::read(&server).await;
    let mut verdict = Verdict::default();
    for (at, (own, other)) in ours.iter().zip(&theirs).enumerate() {
        let mut alone = Peer::direct(other, &direct).await;
        let names = [Some(own.name), (own.name == "everything").then_some(REMOTE)];
        for source in names.into_iter().flatten() {
            let row = Row::of((&server, source), &mut alone, &everywhere).await;
            let revision = Revision::ALL[at % Revision::ALL.len()];
            let mut door = Peer::Door(Door::open(&server, source, revision).await);
            let calls = [own.calls.as_slice(), &other.calls];
            verdict.0.push(row.calls([&mut door, &mut alone], calls, [&through, &direct]).await);
        }
        alone.end().await;
    }

    let sound = cli(&server, &["record", "verify"]);
    assert_eq!(sound.code, Some(0), "while it runs: {}{}", sound.out, sound.err);
    let left = marks::children(server.pid).len();
    assert!(left >= ours.len(), "a supervisor for each: {left}");
    let all = peer::descendants(server.pid);
    assert!(all.len() > 2 * ours.len(), "every server has a process: {}", all.len());
    let said = server.said();
    assert!(server.stop().await.success(), "{said}");
    assert_eq!((marks::running(&all), carriers(&through.mark)), (0, vec![]), "left behind");
    assert!(eventually(SOON, || carriers(&direct.mark).is_empty()).await, "left by the test");
    verdict.judge(REMOTE, TOOLS + EVERYTHING[1] - EVERYTHING[0]);
    record::holds(&home.records(), verdict.calls(), &[]).await;
}

/// All as sources; the same server a second time, over HTTP. JSON is YAML.
fn configuration(servers: &[Upstream], around: &Around, side: &Side) -> String {
    let source = |server: &Upstream| {
        let mut env: serde_json::Map<_, _> = server.env(side).map(|(k, v)| (k, json!(v))).collect();
        env.insert(MARK.to_owned(), json!(side.mark));
        let (command, args) = server.words.split_first().unwrap();
        let mcp = json!({ "command": command, "args": args, "env": env, "cwd": side.folder });
        trusted(server.name, &mcp)
    };
    let mut sources: Vec<_> = servers.iter().map(source).collect();
    sources.push(trusted(REMOTE, &json!({ "url": around.remote })));
    json!({ "version": 1, "sources": sources }).to_string()
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
    panic!("never up: {last:#}\n{}", server.said());
}
