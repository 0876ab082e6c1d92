//! Tests that no request holds the thread of its connection for longer where there are more tools, prompts,
//! resources or bytes: work that takes long first moves the other connections of the thread away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use server::{ConnectionWorkers, HttpService};
use tokio::net::TcpListener;
use tool::Offer;

use crate::support::client::message;
use crate::support::{Client, FixtureServer, Reply, tools, within_a_minute};

/// Number of tools of the small catalog and of the large one.
const SIZES: [usize; 2] = [100, 5_000];
/// Letters of the large argument. A small one is as long as [`SIZES`] has tools.
const LARGE_TEXT: usize = 900 << 10;
/// Each request is measured several times, each with another catalog, and the shortest time counts: a machine that is busy
/// makes one of them long, work that holds the thread all.
const ROUNDS: usize = 4;
/// Rounds after which a request is slow. There are fewer if none is.
const MAX_ROUNDS: usize = 20;
/// What a request may take in the large catalog, as a multiple of the small one and beside it. Without the
/// moving away, a search takes sixteen times as long, and a call seventy times.
const MAX_GROWTH: u32 = 3;
const ALLOWANCE: Duration = Duration::from_millis(3);
/// The same for a call with the large argument, whose body of 1 MB and reply of 2 MB the connection's thread reads and
/// writes itself.
const CALL_ALLOWANCE: Duration = Duration::from_millis(15);
/// The calls with the large argument.
const CALLS: [&str; 2] = ["POST /v1/calls", "tools/call"];

fn offers(size: usize, round: usize) -> Vec<Offer> {
    let mut offers = tools::many_offers(size - 1);
    // Another catalog in each round, with other views, pages and indexes.
    offers.push(tools::tool_offer(
        tools::test_tool(&format!("round.t{round}")),
        testkit::executor::echo_executor(),
    ));
    for number in 0..size {
        offers.push(tools::prompt_offer(&json!({"name": format!("p{number:05}")})));
        offers.push(tools::resource_offer(
            &json!({"uri": format!("test://{number:05}"), "name": "r"}),
        ));
    }
    offers
}

/// Serves the fixture on these threads, and returns a client of them.
async fn client_on(server: &FixtureServer, workers: ConnectionWorkers) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = server.owner_client().await.with_address(listener.local_addr().unwrap());
    let service = HttpService::new(&server.state).with_console(&server.state);
    let stop = server.stop.clone();
    drop(server.serving.spawn(async move {
        server::serve_http(listener, service, &workers, stop).await;
    }));
    client
}

/// A request, by the way it is sent.
enum Request {
    /// A path of REST.
    Get(&'static str),
    /// A call through REST.
    Call(Value),
    /// A message of 2026-07-28, with the query of the address.
    Message(&'static str, &'static str, Value),
    /// A message of 2025-11-25.
    Legacy(&'static str),
}

impl Request {
    async fn send(self, client: &Client) -> Reply {
        match self {
            Self::Get(path) => client.get(path).await,
            Self::Call(arguments) => client.call_tool("many.t00001", arguments).await,
            Self::Message(query, method, params) => {
                client.with_query(query).modern_request(method, params).await
            }
            Self::Legacy(method) => client.legacy_request(&message(method, json!({}))).await,
        }
    }
}

/// All requests with their names; a call has an argument of so many letters.
fn requests(letters: usize) -> Vec<(&'static str, Request)> {
    use Request::{Call, Get, Legacy, Message};
    let search = json!({"name": "search_tools", "arguments": {"queries": ["the tool many"]}});
    let arguments = json!({"text": "x".repeat(letters)});
    let call = json!({"name": "many.t00001", "arguments": arguments});
    vec![
        ("tools/list", Message("", "tools/list", json!({}))),
        ("tools/list again", Message("", "tools/list", json!({}))),
        ("tools/list of 2025-11-25", Legacy("tools/list")),
        ("deferred list", Message("?mode=deferred", "tools/list", json!({}))),
        ("search mode", Message("?mode=search", "tools/list", json!({}))),
        ("search_tools", Message("?mode=search", "tools/call", search)),
        ("prompts/list", Message("", "prompts/list", json!({}))),
        ("resources/list", Message("", "resources/list", json!({}))),
        ("resources/templates/list", Message("", "resources/templates/list", json!({}))),
        ("GET /v1/tools", Get("/v1/tools?limit=100")),
        ("GET /v1/tools, openai", Get("/v1/tools?format=openai")),
        ("GET /v1/search", Get("/v1/search?q=tool+many")),
        ("GET /v1/sources", Get("/v1/sources")),
        ("GET /v1/attention", Get("/v1/attention")),
        ("GET /v1/tools/NAME", Get("/v1/tools/many.t00001")),
        ("POST /v1/calls", Call(arguments)),
        ("tools/call", Message("", "tools/call", call)),
    ]
}

/// Sends every request once; returns the longest poll of each.
async fn longest_polls(
    server: &FixtureServer,
    client: &Client,
    letters: usize,
) -> Vec<(&'static str, Duration)> {
    let times = &server.state.metrics.poll_times;
    // A connection holds one reference until its last poll is observed.
    let without_connections = Arc::strong_count(times);
    let mut longest = Vec::new();
    for (name, request) in requests(letters) {
        times.take_longest();
        let reply = request.send(client).await;
        let text: String = reply.text().chars().take(300).collect();
        assert_eq!(reply.status.as_u16(), 200, "{name}: {text}");
        let has_ended = async {
            while Arc::strong_count(times) > without_connections {
                tokio::task::yield_now().await;
            }
        };
        within_a_minute(has_ended).await;
        longest.push((name, times.take_longest()));
    }
    longest
}

/// The shortest of each request's longest polls, by the request.
type ShortestPolls = BTreeMap<&'static str, Duration>;

/// A server with its client, the number of its tools, and the number of letters of large arguments.
struct MeasuredServer {
    server: FixtureServer,
    client: Client,
    size: usize,
    letters: usize,
    round: usize,
    shortest: ShortestPolls,
}

impl MeasuredServer {
    async fn start((size, letters): (usize, usize), workers: ConnectionWorkers) -> Self {
        let server = FixtureServer::with_offers(offers(size, 0)).await;
        let client = client_on(&server, workers).await;
        Self { server, client, size, letters, round: 0, shortest: ShortestPolls::new() }
    }

    async fn measure_round(&mut self) {
        for (name, longest) in longest_polls(&self.server, &self.client, self.letters).await {
            let known = self.shortest.entry(name).or_insert(longest);
            *known = longest.min(*known);
        }
        self.round += 1;
        self.server.replace_offers(offers(self.size, self.round)).await;
    }
}

/// Requests that hold their thread for longer in the large catalog, in each of so many rounds.
async fn slow_requests(
    workers: impl Fn() -> ConnectionWorkers,
    max_rounds: usize,
) -> Vec<&'static str> {
    let mut small = MeasuredServer::start((SIZES[0], SIZES[0]), workers()).await;
    let mut large = MeasuredServer::start((SIZES[1], LARGE_TEXT), workers()).await;
    for _ in 0..ROUNDS {
        small.measure_round().await;
    }
    loop {
        large.measure_round().await;
        let is_slow = |(name, large): &(&&'static str, &Duration)| {
            let allowance = if CALLS.contains(name) { CALL_ALLOWANCE } else { ALLOWANCE };
            **large > small.shortest[**name] * MAX_GROWTH + allowance
        };
        let slow: Vec<_> = large.shortest.iter().filter(is_slow).map(|(name, _)| *name).collect();
        if slow.is_empty() || large.round == max_rounds {
            println!("{:?}\n{:?}", small.shortest, large.shortest);
            return slow;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_holds_its_thread_longer_where_there_is_more() {
    let workers = || ConnectionWorkers::start_threads().unwrap();
    assert_eq!(slow_requests(workers, MAX_ROUNDS).await, [""; 0]);
}

/// Control: on a runtime of one thread, no other thread can take the connections.
#[tokio::test]
async fn on_one_thread_large_searches_and_calls_hold_it() {
    let slow = slow_requests(ConnectionWorkers::on_current_runtime, ROUNDS).await;
    for name in ["search_tools", "tools/call", "POST /v1/calls"] {
        assert!(slow.contains(&name), "{name}: {slow:?}");
    }
}
