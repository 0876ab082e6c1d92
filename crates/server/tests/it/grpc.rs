//! The gRPC door: spec 4's call for the caller's view, and nobody else's.

use bytes::Bytes;
use identity::NewKey;
use proto::connect::{Duplex, Line};
use proto::node::call_event::Event;
use proto::node::{CallRequest, CancelRequest, ListRequest};
use proto::toolrpc::{CallFunctionRequest, CallFunctionResponse};
use serde_json::{Value, json};
use server::{Workers, listen_grpc};
use server_core::Keys;
use testkit::executor::echo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::{Clock as _, Level};

use crate::support::executors::Gate;
use crate::support::tools::{offer, tool, with};
use crate::support::{Client, Server, soon};

struct Door {
    server: Server,
    line: Line,
    stop: CancellationToken,
    tasks: TaskTracker,
}

async fn door(server: Server) -> Door {
    let (line, stop, tasks) = listening(&server).await;
    Door { server, line, stop, tasks }
}

/// A line to the gRPC door of a server, which ends with it at the latest.
#[expect(clippy::disallowed_methods, reason = "a test is the client, too")]
pub(crate) async fn listening(server: &Server) -> (Line, CancellationToken, TaskTracker) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), server.stop.child_token());
    let (doors, ending, tasks) = (server.doors.clone(), stop.clone(), TaskTracker::new());
    drop(tasks.spawn(async move {
        listen_grpc(&doors, listener, None, (&Workers::here(), ending)).await.unwrap();
    }));
    let line = Line::new(move || {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // Else the second frame of a call waits for the acknowledgement of the first.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    });
    (line, stop, tasks)
}

/// A call whose metadata hold these beside the credential: whether it ran, and what was told if not.
pub(crate) async fn claiming(
    line: &Line,
    key: &str,
    (tool, args): (&str, &Value),
    claims: &[(&str, &str)],
) -> (bool, String) {
    let input = Bytes::from(args.to_string());
    let call = CallFunctionRequest { tool_name: tool.to_owned(), input };
    let mut request = with_key(call, key);
    for (name, value) in claims {
        let name: tonic::metadata::AsciiMetadataKey = name.to_lowercase().parse().unwrap();
        request.metadata_mut().insert(name, value.parse().unwrap());
    }
    let said = line.executor().call_function(request).await.unwrap().into_inner();
    (said.success, said.error)
}

/// The metadata of a tool in the list that this client's key gets.
pub(crate) async fn listed(server: &Server, client: &Client, name: &str) -> Value {
    let (line, stop, _tasks) = listening(server).await;
    let request = with_key(ListRequest {}, &client.bearer());
    let list = line.node().list(request).await.unwrap().into_inner();
    let tool = list.tools.into_iter().find(|tool| tool.name == name).unwrap();
    stop.cancel();
    serde_json::from_slice(&tool.metadata).unwrap()
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

pub(crate) fn with_key<T>(message: T, key: &str) -> tonic::Request<T> {
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

/// One connection, on which a key is known again: to itself, and as long as it holds.
#[tokio::test]
async fn a_key_is_known_again_and_gone_when_it_is_taken_back() {
    let door = door(Server::of(offers()).await).await;
    let key = NewKey::user(Keys::fresh_id().unwrap(), "ann");
    let now = door.server.clock.wall();
    let (secret, record) = door.server.keys.create(key, now).await.unwrap();
    let (ann, root) = (format!("Bearer {}", secret.open()), door.key("root", Level::Owner).await);
    for _ in 0..3 {
        assert!(door.call(&ann, "say", json!({})).await.success);
        assert!(!door.call(&ann, "secret", json!({})).await.success);
        assert!(door.call(&root, "secret", json!({})).await.success);
    }
    let callers = door.server.intents().into_iter().map(|intent| intent.caller.subject);
    assert_eq!(callers.collect::<Vec<_>>(), ["ann", "root"].repeat(3));
    assert!(door.call(&ann, "say", json!({})).await.success);
    door.server.keys.revoke(record.id.as_str(), now).await.unwrap();
    let call = CallFunctionRequest { tool_name: "say".to_owned(), input: Bytes::new() };
    let gone = door.line.executor().call_function(with_key(call, &ann)).await.unwrap_err();
    assert_eq!(gone.code(), tonic::Code::Unauthenticated);
    assert!(door.call(&root, "secret", json!({})).await.success);
}

/// The status that comes with the first answer to a call's headers, and its message where one is sent.
#[expect(clippy::disallowed_methods, reason = "a test is the client, too")]
async fn first_status(
    address: std::net::SocketAddr,
    key: Option<&str>,
    message: Option<&'static [u8]>,
) -> Option<tonic::Code> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    drop(TaskTracker::new().spawn(connection));
    let mut call = axum::http::Request::post("http://d/toolrpc.ToolExecutor/CallFunction")
        .header("content-type", "application/grpc");
    if let Some(key) = key {
        call = call.header("authorization", key);
    }
    let mut send = send.ready().await.unwrap();
    let (answer, mut body) = send.send_request(call.body(()).unwrap(), false).unwrap();
    if let Some(message) = message {
        body.send_data(Bytes::from_static(message), true).unwrap();
    }
    let head = soon(answer).await.unwrap();
    let status = head.headers().get("grpc-status")?;
    Some(tonic::Code::from_bytes(status.as_bytes()))
}

#[tokio::test]
async fn who_has_no_key_is_answered_before_a_message_comes() {
    let server = Server::of(offers()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), server.stop.child_token());
    let doors = server.doors.clone();
    drop(TaskTracker::new().spawn(async move {
        listen_grpc(&doors, listener, None, (&Workers::here(), stop)).await.unwrap();
    }));
    let refused = Some(tonic::Code::Unauthenticated);
    for key in [None, Some("Bearer nothing")] {
        assert_eq!(first_status(address, key, None).await, refused, "{key:?}");
    }
    // The control: with a key the call is made, and its status comes after its answer.
    let key = NewKey::user(Keys::fresh_id().unwrap(), "ann");
    let (secret, _) = server.keys.create(key, server.clock.wall()).await.unwrap();
    let key = format!("Bearer {}", secret.open());
    let say = b"\0\0\0\0\x05\x0a\x03say";
    assert_eq!(first_status(address, Some(&key), Some(say)).await, None);
    assert_eq!(server.intents().len(), 1);
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
async fn context_in_the_metadata_narrows_and_what_cannot_be_read_is_refused() {
    let web = with("fetch", |tool| tool.traits.scopes = vec![tool::Scope::Network]);
    let door = door(Server::of(vec![offer(tool("say"), echo()), offer(web, echo())]).await).await;
    let (ann, args) = (door.key("ann", Level::User).await, json!({}));
    let ran = async |tool: &str, claims: &[(&str, &str)]| {
        claiming(&door.line, &ann, (tool, &args), claims).await.0
    };
    assert!(ran("fetch", &[]).await && ran("say", &[]).await);
    for narrowing in [("toolkeep-no-web", "true"), ("toolkeep-task-type", "math")] {
        assert!(!ran("fetch", &[narrowing]).await, "{narrowing:?}");
        assert!(ran("say", &[narrowing]).await, "{narrowing:?}");
    }
    assert!(ran("fetch", &[("toolkeep-no-web", "false")]).await, "it gives nothing");
    let mut list = with_key(ListRequest {}, &ann);
    list.metadata_mut().insert("toolkeep-no-web", "true".parse().unwrap());
    let listed = door.line.node().list(list).await.unwrap().into_inner();
    assert_eq!(listed.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>(), ["say"]);
    // What is meant to narrow and cannot be read is no small matter.
    let call = CallFunctionRequest { tool_name: "say".to_owned(), input: Bytes::new() };
    let mut unread = with_key(call, &ann);
    unread.metadata_mut().insert("toolkeep-no-web", "perhaps".parse().unwrap());
    let refused = door.line.executor().call_function(unread).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
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
