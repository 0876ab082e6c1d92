//! Tests of the gRPC interface: calls in the caller's view only.

use bytes::Bytes;
use identity::NewKey;
use proto::client::{GrpcChannel, IoStream};
use proto::node::call_event::Event;
use proto::node::{CallRequest, CancelRequest, ListRequest};
use proto::toolrpc::{CallFunctionRequest, CallFunctionResponse};
use serde_json::{Value, json};
use server::{ConnectionWorkers, serve_grpc};
use server_core::KeyStore;
use testkit::executor::echo_executor;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::{Clock as _, PermissionLevel};

use crate::support::executors::Gate;
use crate::support::tools::{test_tool, tool_offer, tool_with};
use crate::support::{Client, FixtureServer, within_a_minute};

struct GrpcServer {
    server: FixtureServer,
    line: GrpcChannel,
    stop: CancellationToken,
    tasks: TaskTracker,
}

async fn grpc_server(server: FixtureServer) -> GrpcServer {
    let (line, stop, tasks) = connect_grpc(&server).await;
    GrpcServer { server, line, stop, tasks }
}

/// A line to the gRPC door of a server, which ends with it at the latest.
#[expect(clippy::disallowed_methods, reason = "a test is the client, too")]
pub(crate) async fn connect_grpc(
    server: &FixtureServer,
) -> (GrpcChannel, CancellationToken, TaskTracker) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), server.stop.child_token());
    let (doors, ending, tasks) = (server.state.clone(), stop.clone(), TaskTracker::new());
    drop(tasks.spawn(async move {
        serve_grpc(&doors, listener, None, &ConnectionWorkers::on_current_runtime(), ending)
            .await
            .unwrap();
    }));
    let line = GrpcChannel::new(move || {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // Else the second frame of a call waits for the acknowledgement of the first.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn IoStream>)
        })
    });
    (line, stop, tasks)
}

/// Makes a call with these metadata in addition to the credential. Returns whether it ran, or its
/// error.
pub(crate) async fn call_with_claims(
    line: &GrpcChannel,
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
    let said = line.executor_client().call_function(request).await.unwrap().into_inner();
    (said.success, said.error)
}

/// The metadata of a tool in the list that this client's key gets.
pub(crate) async fn list_metadata(server: &FixtureServer, client: &Client, name: &str) -> Value {
    let (line, stop, _tasks) = connect_grpc(server).await;
    let request = with_key(ListRequest {}, &client.bearer());
    let list = line.node_client().list(request).await.unwrap().into_inner();
    let tool = list.tools.into_iter().find(|tool| tool.name == name).unwrap();
    stop.cancel();
    serde_json::from_slice(&tool.metadata).unwrap()
}

/// The names of the tools that this client's key gets.
pub(crate) async fn listed_names(server: &FixtureServer, client: &Client) -> Vec<String> {
    let (line, stop, _tasks) = connect_grpc(server).await;
    let request = with_key(ListRequest {}, &client.bearer());
    let list = line.node_client().list(request).await.unwrap().into_inner();
    stop.cancel();
    list.tools.into_iter().map(|tool| tool.name).collect()
}

impl GrpcServer {
    async fn key(&self, subject: &str, level: PermissionLevel) -> String {
        let mut key = NewKey::for_user(KeyStore::generate_key_id().unwrap(), subject);
        key.level = level;
        let (secret, _) =
            self.server.keys.create_key(key, self.server.clock.wall_now()).await.unwrap();
        format!("Bearer {}", secret.expose())
    }

    async fn call(&self, key: &str, name: &str, input: Value) -> CallFunctionResponse {
        let input = Bytes::from(input.to_string());
        let call = CallFunctionRequest { tool_name: name.to_owned(), input };
        self.line.executor_client().call_function(with_key(call, key)).await.unwrap().into_inner()
    }
}

pub(crate) fn with_key<T>(message: T, key: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", key.parse().unwrap());
    request
}

fn offers() -> Vec<tool::Offer> {
    let admins = tool_with("secret", |tool| tool.traits.min_level = PermissionLevel::Admin);
    vec![tool_offer(test_tool("say"), echo_executor()), tool_offer(admins, echo_executor())]
}

#[tokio::test]
async fn call_function_runs_what_the_caller_may_call_and_hidden_is_unknown() {
    let door = grpc_server(FixtureServer::with_offers(offers()).await).await;
    let ann = door.key("ann", PermissionLevel::User).await;
    let said = door.call(&ann, "say", json!({ "n": 3 })).await;
    assert_eq!((said.success, said.error.as_str()), (true, ""));
    assert_eq!(serde_json::from_slice::<Value>(&said.output).unwrap(), json!({ "n": 3 }));
    assert!(said.metadata.contains_key("call_id"));
    for name in ["secret", "nothing"] {
        let said = door.call(&ann, name, json!({})).await;
        let told = format!("Tool '{name}' not found.");
        assert_eq!((said.success, said.error), (false, told));
    }
    // Authorised callers succeed, and invalid arguments are reported.
    let root = door.key("root", PermissionLevel::Owner).await;
    assert!(door.call(&root, "secret", json!({})).await.success);
    let unfit = door.call(&ann, "say", json!({ "n": 11 })).await;
    assert!(!unfit.success && unfit.error.contains("maximum"), "{}", unfit.error);
    // Each is on record: two calls that ran, and three that did not.
    assert_eq!(door.server.recorded_intents().len(), 2);
    assert_eq!(door.server.recorded_refusals().len(), 3);
}

#[tokio::test]
async fn without_a_key_nobody_is_let_in() {
    let door = grpc_server(FixtureServer::with_offers(offers()).await).await;
    let call = || CallFunctionRequest { tool_name: "say".to_owned(), input: Bytes::new() };
    let bare = door.line.executor_client().call_function(call()).await.unwrap_err();
    assert_eq!(bare.code(), tonic::Code::Unauthenticated);
    let wrong = door.line.executor_client().call_function(with_key(call(), "Bearer nothing")).await;
    assert_eq!(wrong.unwrap_err().code(), tonic::Code::Unauthenticated);
    let list = door.line.node_client().list(ListRequest {}).await.unwrap_err();
    assert_eq!(list.code(), tonic::Code::Unauthenticated);
    assert!(door.server.recorded_intents().is_empty());
}

/// One connection, on which a key is known again: to itself, and as long as it holds.
#[tokio::test]
async fn a_key_is_known_again_and_gone_when_it_is_taken_back() {
    let door = grpc_server(FixtureServer::with_offers(offers()).await).await;
    let key = NewKey::for_user(KeyStore::generate_key_id().unwrap(), "ann");
    let now = door.server.clock.wall_now();
    let (secret, record) = door.server.keys.create_key(key, now).await.unwrap();
    let (ann, root) =
        (format!("Bearer {}", secret.expose()), door.key("root", PermissionLevel::Owner).await);
    for _ in 0..3 {
        assert!(door.call(&ann, "say", json!({})).await.success);
        assert!(!door.call(&ann, "secret", json!({})).await.success);
        assert!(door.call(&root, "secret", json!({})).await.success);
    }
    let callers = door.server.recorded_intents().into_iter().map(|intent| intent.caller.subject);
    assert_eq!(callers.collect::<Vec<_>>(), ["ann", "root"].repeat(3));
    assert!(door.call(&ann, "say", json!({})).await.success);
    door.server.keys.revoke_key(record.id.as_str(), now).await.unwrap();
    let call = CallFunctionRequest { tool_name: "say".to_owned(), input: Bytes::new() };
    let gone = door.line.executor_client().call_function(with_key(call, &ann)).await.unwrap_err();
    assert_eq!(gone.code(), tonic::Code::Unauthenticated);
    assert!(door.call(&root, "secret", json!({})).await.success);
}

/// The status in the response headers of a call, and its message, if any.
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
    let head = within_a_minute(answer).await.unwrap();
    let status = head.headers().get("grpc-status")?;
    Some(tonic::Code::from_bytes(status.as_bytes()))
}

#[tokio::test]
async fn who_has_no_key_is_answered_before_a_message_comes() {
    let server = FixtureServer::with_offers(offers()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), server.stop.child_token());
    let doors = server.state.clone();
    drop(TaskTracker::new().spawn(async move {
        serve_grpc(&doors, listener, None, &ConnectionWorkers::on_current_runtime(), stop)
            .await
            .unwrap();
    }));
    let refused = Some(tonic::Code::Unauthenticated);
    for key in [None, Some("Bearer nothing")] {
        assert_eq!(first_status(address, key, None).await, refused, "{key:?}");
    }
    // Control: with a key the call runs, and its status follows its response.
    let key = NewKey::for_user(KeyStore::generate_key_id().unwrap(), "ann");
    let (secret, _) = server.keys.create_key(key, server.clock.wall_now()).await.unwrap();
    let key = format!("Bearer {}", secret.expose());
    let say = b"\0\0\0\0\x05\x0a\x03say";
    assert_eq!(first_status(address, Some(&key), Some(say)).await, None);
    assert_eq!(server.recorded_intents().len(), 1);
}

#[tokio::test]
async fn the_callers_view_is_listed() {
    let door = grpc_server(FixtureServer::with_offers(offers()).await).await;
    let names = async |key: &str| {
        let listed = door.line.node_client().list(with_key(ListRequest {}, key)).await.unwrap();
        let tools = listed.into_inner().tools.into_iter();
        tools.map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&door.key("ann", PermissionLevel::User).await).await, ["say"]);
    assert_eq!(names(&door.key("root", PermissionLevel::Owner).await).await, ["say", "secret"]);
}

#[tokio::test]
async fn context_in_the_metadata_narrows_and_what_cannot_be_read_is_refused() {
    let web = tool_with("fetch", |tool| tool.traits.scopes = vec![tool::AccessScope::Network]);
    let door = grpc_server(
        FixtureServer::with_offers(vec![
            tool_offer(test_tool("say"), echo_executor()),
            tool_offer(web, echo_executor()),
        ])
        .await,
    )
    .await;
    let (ann, args) = (door.key("ann", PermissionLevel::User).await, json!({}));
    let ran = async |tool: &str, claims: &[(&str, &str)]| {
        call_with_claims(&door.line, &ann, (tool, &args), claims).await.0
    };
    assert!(ran("fetch", &[]).await && ran("say", &[]).await);
    for narrowing in [("toolkeep-no-web", "true"), ("toolkeep-task-type", "math")] {
        assert!(!ran("fetch", &[narrowing]).await, "{narrowing:?}");
        assert!(ran("say", &[narrowing]).await, "{narrowing:?}");
    }
    assert!(ran("fetch", &[("toolkeep-no-web", "false")]).await, "it gives nothing");
    let mut list = with_key(ListRequest {}, &ann);
    list.metadata_mut().insert("toolkeep-no-web", "true".parse().unwrap());
    let listed = door.line.node_client().list(list).await.unwrap().into_inner();
    assert_eq!(listed.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>(), ["say"]);
    // An invalid restriction is an error.
    let call = CallFunctionRequest { tool_name: "say".to_owned(), input: Bytes::new() };
    let mut unread = with_key(call, &ann);
    unread.metadata_mut().insert("toolkeep-no-web", "perhaps".parse().unwrap());
    let refused = door.line.executor_client().call_function(unread).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_caller_and_nobody_else() {
    let gate = Gate::new();
    let door =
        grpc_server(FixtureServer::with_offers(vec![tool_offer(test_tool("slow"), gate)]).await)
            .await;
    let (ann, bob) = (
        door.key("ann", PermissionLevel::User).await,
        door.key("bob", PermissionLevel::User).await,
    );
    let call_id = "c1".to_owned();
    let call = CallRequest {
        call_id: call_id.clone(),
        tool_name: "slow".to_owned(),
        input: Bytes::from_static(b"{}"),
    };
    let mut events = door.line.node_client().call(with_key(call, &ann)).await.unwrap().into_inner();
    let cancel = async |key: &str| {
        let cancel = CancelRequest { call_id: call_id.clone() };
        door.line.node_client().cancel(with_key(cancel, key)).await.unwrap().into_inner().found
    };
    assert!(!cancel(&bob).await);
    assert!(cancel(&ann).await);
    let event = within_a_minute(events.message()).await.unwrap().unwrap().event;
    let Some(Event::Result(said)) = event else { panic!("{event:?}") };
    assert_eq!((said.success, said.error.as_str()), (false, "the call was cancelled"));
}

#[tokio::test]
async fn the_door_ends_with_the_server() {
    let GrpcServer { stop, tasks, line, server } =
        grpc_server(FixtureServer::with_offers(offers()).await).await;
    drop(line);
    stop.cancel();
    tasks.close();
    within_a_minute(tasks.wait()).await;
    drop(server);
}
