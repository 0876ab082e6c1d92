//! The gRPC door: spec 4's call for the caller's view, and nobody else's.

use bytes::Bytes;
use identity::NewKey;
use proto::connect::{Duplex, Line};
use proto::node::call_event::Event;
use proto::node::{CallRequest, CancelRequest, ListRequest};
use proto::toolrpc::{CallFunctionRequest, CallFunctionResponse};
use serde_json::{Value, json};
use server::{Keys, listen_grpc};
use testkit::executor::echo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::{Clock as _, Level};

use crate::support::executors::Gate;
use crate::support::tools::{offer, tool, with};
use crate::support::{Server, soon};

struct Door {
    server: Server,
    line: Line,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[expect(clippy::disallowed_methods, reason = "a test is the client, too")]
async fn door(server: Server) -> Door {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let (doors, ending, tasks) = (server.doors.clone(), stop.clone(), TaskTracker::new());
    drop(tasks.spawn(async move { listen_grpc(&doors, listener, ending).await.unwrap() }));
    let line = Line::new(move || {
        Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Duplex>) })
    });
    Door { server, line, stop, tasks }
}

impl Door {
    async fn key(&self, subject: &str, level: Level) -> String {
        let mut key = NewKey::user(Keys::fresh_id().unwrap(), subject);
        key.level = level;
        let (secret, _) = self.server.keys.create(key, self.server.clock.wall()).await.unwrap();
        format!("Bearer {}", secret.open())
    }

    async fn call(&self, key: &str, name: &str, input: Value) -> CallFunctionResponse {
        let input = Bytes::from(input.to_string());
        let call = CallFunctionRequest { tool_name: name.to_owned(), input };
        self.line.executor().call_function(with_key(call, key)).await.unwrap().into_inner()
    }
}

fn with_key<T>(message: T, key: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", key.parse().unwrap());
    request
}

fn offers() -> Vec<tool::Offer> {
    let admins = with("secret", |tool| tool.traits.level = Level::Admin);
    vec![offer(tool("say"), echo()), offer(admins, echo())]
}

#[tokio::test]
async fn call_function_runs_what_the_caller_may_call_and_hidden_is_unknown() {
    let door = door(Server::of(offers()).await).await;
    let ann = door.key("ann", Level::User).await;
    let said = door.call(&ann, "say", json!({ "n": 3 })).await;
    assert_eq!((said.success, said.error.as_str()), (true, ""));
    assert_eq!(serde_json::from_slice::<Value>(&said.output).unwrap(), json!({ "n": 3 }));
    assert!(said.metadata.contains_key("call_id"));
    for name in ["secret", "nothing"] {
        let said = door.call(&ann, name, json!({})).await;
        let told = format!("Tool '{name}' not found.");
        assert_eq!((said.success, said.error), (false, told));
    }
    // Whoever may, does; and arguments that do not fit are told.
    let root = door.key("root", Level::Owner).await;
    assert!(door.call(&root, "secret", json!({})).await.success);
    let unfit = door.call(&ann, "say", json!({ "n": 11 })).await;
    assert!(!unfit.success && unfit.error.contains("maximum"), "{}", unfit.error);
    // Each is on record: two calls that ran, and three that did not.
    assert_eq!(door.server.intents().len(), 2);
    assert_eq!(door.server.refusals().len(), 3);
}

#[tokio::test]
async fn without_a_key_nobody_is_let_in() {
    let door = door(Server::of(offers()).await).await;
    let call = || CallFunctionRequest { tool_name: "say".to_owned(), input: Bytes::new() };
    let bare = door.line.executor().call_function(call()).await.unwrap_err();
    assert_eq!(bare.code(), tonic::Code::Unauthenticated);
    let wrong = door.line.executor().call_function(with_key(call(), "Bearer nothing")).await;
    assert_eq!(wrong.unwrap_err().code(), tonic::Code::Unauthenticated);
    let list = door.line.node().list(ListRequest {}).await.unwrap_err();
    assert_eq!(list.code(), tonic::Code::Unauthenticated);
    assert!(door.server.intents().is_empty());
}

#[tokio::test]
async fn the_callers_view_is_listed() {
    let door = door(Server::of(offers()).await).await;
    let names = async |key: &str| {
        let listed = door.line.node().list(with_key(ListRequest {}, key)).await.unwrap();
        let tools = listed.into_inner().tools.into_iter();
        tools.map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&door.key("ann", Level::User).await).await, ["say"]);
    assert_eq!(names(&door.key("root", Level::Owner).await).await, ["say", "secret"]);
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_caller_and_nobody_else() {
    let gate = Gate::new();
    let door = door(Server::of(vec![offer(tool("slow"), gate)]).await).await;
    let (ann, bob) = (door.key("ann", Level::User).await, door.key("bob", Level::User).await);
    let call_id = "c1".to_owned();
    let call = CallRequest {
        call_id: call_id.clone(),
        tool_name: "slow".to_owned(),
        input: Bytes::from_static(b"{}"),
    };
    let mut events = door.line.node().call(with_key(call, &ann)).await.unwrap().into_inner();
    let cancel = async |key: &str| {
        let cancel = CancelRequest { call_id: call_id.clone() };
        door.line.node().cancel(with_key(cancel, key)).await.unwrap().into_inner().found
    };
    assert!(!cancel(&bob).await);
    assert!(cancel(&ann).await);
    let event = soon(events.message()).await.unwrap().unwrap().event;
    let Some(Event::Result(said)) = event else { panic!("{event:?}") };
    assert_eq!((said.success, said.error.as_str()), (false, "the call was cancelled"));
}

#[tokio::test]
async fn the_door_ends_with_the_server() {
    let Door { stop, tasks, line, server } = door(Server::of(offers()).await).await;
    drop(line);
    stop.cancel();
    tasks.close();
    soon(tasks.wait()).await;
    drop(server);
}
