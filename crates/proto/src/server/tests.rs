mod fast_path;
mod pinned_connections;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::metadata::MetadataMap;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ListServiceResponse, ServerReflectionRequest};

use super::{
    FunctionResult, IncomingCall, RuntimeAssignment, ServiceFuture, ToolService, serve_pinned,
    serve_tcp,
};
use crate::client::GrpcChannel;
use crate::node::call_event::Event;
use crate::node::{CallRequest, CancelRequest, ListRequest, Tool};
use crate::toolrpc::{CallFunctionRequest, CallFunctionResponse};

/// `echo` answers its input, `slow` tells progress and waits until it is cancelled, `lost` tells when it
/// is dropped.
struct TwoCallerTools {
    dropped: mpsc::Sender<()>,
}

impl ToolService for TwoCallerTools {
    fn caller_id(&self, headers: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        Box::pin(async move { parse_caller(&headers) })
    }

    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Tool>, Status>> {
        let tool = Tool { name: "echo".to_owned(), ..Tool::default() };
        Box::pin(async move { Ok(vec![tool]) })
    }

    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let dropped = DropNotifier(self.dropped.clone());
        Box::pin(async move {
            parse_caller(&asked.headers)?;
            let _dropped = dropped;
            match asked.tool_name.as_str() {
                "echo" => Ok(FunctionResult {
                    success: true,
                    output: asked.input,
                    ..FunctionResult::default()
                }),
                "slow" => {
                    asked.progress.send_progress(1.0, Some(2.0), "half");
                    asked.cancel_token.unwrap().cancelled().await;
                    Ok(FunctionResult {
                        error: "cancelled".to_owned(),
                        ..FunctionResult::default()
                    })
                }
                "lost" => std::future::pending().await,
                name => Ok(FunctionResult {
                    error: format!("Tool '{name}' not found."),
                    ..FunctionResult::default()
                }),
            }
        })
    }

    fn node_id(&self) -> String {
        "node-1".to_owned()
    }

    fn is_draining(&self) -> bool {
        false
    }
}

fn parse_caller(headers: &MetadataMap) -> Result<String, Status> {
    match headers.get("authorization").map(|value| value.to_str()) {
        Some(Ok("Bearer bad")) => Err(Status::unauthenticated("no such key")),
        Some(Ok(who)) => Ok(who.to_owned()),
        _ => Ok(String::new()),
    }
}

struct DropNotifier(mpsc::Sender<()>);
impl Drop for DropNotifier {
    fn drop(&mut self) {
        let _unheard = self.0.try_send(());
    }
}

struct ServerFixture {
    line: GrpcChannel,
    dropped: mpsc::Receiver<()>,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

#[expect(clippy::disallowed_methods, reason = "a test is the client and the server")]
async fn start_server(seated: bool) -> ServerFixture {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, dropped) = mpsc::channel(8);
    let stop = CancellationToken::new();
    let (tools, ending) = (Arc::new(TwoCallerTools { dropped: sender }), stop.clone());
    let served = TaskTracker::new().spawn(async move {
        if !seated {
            return serve_tcp(tools, listener, None, ending).await;
        }
        let seat = || RuntimeAssignment {
            runtime: tokio::runtime::Handle::current(),
            guard: Box::new(()),
        };
        serve_pinned(tools, listener, &seat, ending).await
    });
    let line = GrpcChannel::new(move || {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            Ok(Box::new(stream) as Box<dyn crate::client::IoStream>)
        })
    });
    ServerFixture { line, dropped, stop, served }
}

fn call_of(tool_name: &str) -> CallFunctionRequest {
    CallFunctionRequest { tool_name: tool_name.to_owned(), input: Bytes::from_static(b"{}") }
}

fn as_ann<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", "Bearer ann".parse().unwrap());
    request
}

#[test]
fn the_messages_are_those_of_the_cluster_tools_on_the_wire() {
    let request = CallFunctionRequest { tool_name: "up".to_owned(), input: b"hi"[..].into() };
    assert_eq!(request.encode_to_vec(), b"\x0a\x02up\x12\x02hi");
    let metadata = [("v".to_owned(), "1".to_owned())].into();
    let (output, error) = (b"HI"[..].into(), "no".to_owned());
    let response = CallFunctionResponse { success: true, output, error, metadata };
    assert_eq!(response.encode_to_vec(), b"\x08\x01\x12\x02HI\x1a\x02no\x22\x06\x0a\x01v\x12\x011");
}

#[tokio::test]
async fn cluster_tools_calls_are_answered_whatever_becomes_of_them() {
    for seated in [false, true] {
        let up = start_server(seated).await;
        let said =
            up.line.executor_client().call_function(call_of("echo")).await.unwrap().into_inner();
        assert!(said.success);
        assert_eq!(said.output, "{}");
        let said =
            up.line.executor_client().call_function(call_of("gone")).await.unwrap().into_inner();
        assert_eq!((said.success, said.error.as_str()), (false, "Tool 'gone' not found."));
    }
}

#[tokio::test]
async fn a_bad_credential_is_a_status_and_calls_nothing() {
    for seated in [false, true] {
        let up = start_server(seated).await;
        let bad = || "Bearer bad".parse().unwrap();
        let mut request = tonic::Request::new(call_of("echo"));
        request.metadata_mut().insert("authorization", bad());
        let status = up.line.executor_client().call_function(request).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
        let call_id = "c1".to_owned();
        let mut request = tonic::Request::new(CancelRequest { call_id });
        request.metadata_mut().insert("authorization", bad());
        let status = up.line.node_client().cancel(request).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
    }
}

#[tokio::test]
async fn progress_comes_before_the_result_and_a_call_is_cancelled_by_its_own_caller_alone() {
    for seated in [false, true] {
        let up = start_server(seated).await;
        let (call_id, tool_name) = ("c1".to_owned(), "slow".to_owned());
        let call = CallRequest { call_id: call_id.clone(), tool_name, input: Bytes::new() };
        let mut events = up.line.node_client().call(as_ann(call)).await.unwrap().into_inner();
        let Some(Event::Progress(told)) = events.message().await.unwrap().unwrap().event else {
            panic!("no progress")
        };
        assert_eq!((told.done, told.total, told.message.as_str()), (1.0, Some(2.0), "half"));
        let cancel = CancelRequest { call_id };
        let other = up.line.node_client().cancel(cancel.clone()).await.unwrap().into_inner();
        assert!(!other.found, "nobody cancels the calls of others");
        assert!(
            up.line.node_client().cancel(as_ann(cancel.clone())).await.unwrap().into_inner().found
        );
        let Some(Event::Result(said)) = events.message().await.unwrap().unwrap().event else {
            panic!("no result")
        };
        assert_eq!(said.error, "cancelled");
        assert!(events.message().await.unwrap().is_none());
        assert!(!up.line.node_client().cancel(as_ann(cancel)).await.unwrap().into_inner().found);
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_call_along() {
    for seated in [false, true] {
        let mut up = start_server(seated).await;
        let mut client = up.line.executor_client();
        let call = client.call_function(call_of("lost"));
        assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
        up.dropped.recv().await.unwrap();
    }
}

#[tokio::test]
async fn list_health_and_reflection_answer_and_stopping_ends_the_server() {
    for seated in [false, true] {
        let up = start_server(seated).await;
        let list = up.line.node_client().list(ListRequest {}).await.unwrap().into_inner();
        assert_eq!((list.node_id.as_str(), list.tools.len()), ("node-1", 1));
        let mut health = HealthClient::new(up.line.tonic_channel());
        let ask =
            tonic_health::pb::HealthCheckRequest { service: "toolrpc.ToolExecutor".to_owned() };
        let answer = health.check(ask).await.unwrap().into_inner();
        assert_eq!(answer.status, 1, "SERVING");
        let ask = ServerReflectionRequest {
            message_request: Some(MessageRequest::ListServices(String::new())),
            ..ServerReflectionRequest::default()
        };
        let mut reflection = ServerReflectionClient::new(up.line.tonic_channel());
        let asked = futures_util::stream::iter([ask]);
        let mut told = reflection.server_reflection_info(asked).await.unwrap().into_inner();
        let told = told.message().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(ListServiceResponse { service }) = told else {
            panic!("no list")
        };
        let names: Vec<_> = service.iter().map(|service| service.name.as_str()).collect();
        assert!(names.contains(&"toolrpc.ToolExecutor"), "{names:?}");
        assert!(names.contains(&"toolkeep.node.v1.Node"), "{names:?}");
        drop((health, reflection));
        drop(up.line);
        up.stop.cancel();
        up.served.await.unwrap().unwrap();
    }
}
