//! Nodes as servers here, and calls of their tools without a pipeline.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, EgressOptions};
use nodes::{NodeAddresses, PersistentNodeRegistry};
use proto::MetadataMap;
use proto::Status;
use proto::client::{ConnectFuture, IoStream};
use proto::node::Tool as Listed;
use proto::server::{
    FunctionResult, GrpcListener, IncomingCall, ServiceFuture, ToolService, serve_listener,
    serve_tcp,
};
use store::MemoryStore;
use testkit::clock::FakeClock;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::node_registry::{NodeAccess, NodeRegistry as _, NodeTool};
use tool::{
    CallArguments, CallContext, CallId, CatalogItem, ExecuteError, ExecutionState, Executor,
    IntentReceipt, Json, Org, Outcome, RecordedCall, Source as _, ToolCall, ToolKey,
};

/// A node whose tools behave as their names say.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) events: mpsc::Receiver<NodeEvent>,
    /// Its own, so that it can be ended with all that it does, as a machine is.
    runtime: Option<Runtime>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum NodeEvent {
    Call { tool: String, input: String, within: Option<Duration> },
    Dropped,
}

struct TestTools(mpsc::Sender<NodeEvent>);

impl ToolService for TestTools {
    fn caller_id(&self, _: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Listed>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let heard = self.0.clone();
        Box::pin(async move {
            let input = String::from_utf8(asked.input.to_vec()).unwrap();
            let call =
                NodeEvent::Call { tool: asked.tool_name.clone(), input, within: asked.timeout };
            heard.try_send(call).unwrap();
            let _dropped = CallDropNotifier(heard);
            match asked.tool_name.as_str() {
                "echo" => Ok(FunctionResult {
                    success: true,
                    output: asked.input,
                    ..FunctionResult::default()
                }),
                "fails" => Ok(FunctionResult {
                    error: "it broke\nTraceback (most recent call last):\n  secret".to_owned(),
                    ..FunctionResult::default()
                }),
                "tells" => {
                    asked.progress.send_progress(1.0, Some(2.0), "half");
                    tokio::task::yield_now().await;
                    let told = asked.progress.has_receiver().to_string();
                    Ok(FunctionResult {
                        success: true,
                        output: told.into(),
                        ..FunctionResult::default()
                    })
                }
                _ => std::future::pending().await,
            }
        })
    }
    fn node_id(&self) -> String {
        "n1".to_owned()
    }
    fn is_draining(&self) -> bool {
        false
    }
}

struct CallDropNotifier(mpsc::Sender<NodeEvent>);
impl Drop for CallDropNotifier {
    fn drop(&mut self) {
        drop(self.0.try_send(NodeEvent::Dropped));
    }
}

/// Listens there, as soon as the node that was there before is gone.
async fn bind_when_free(address: &str) -> TcpListener {
    let soon = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                assert!(tokio::time::Instant::now() < soon, "{address} stays in use");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            listener => return listener.unwrap(),
        }
    }
}

impl Node {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    pub(crate) async fn start_at(address: &str) -> Self {
        Self::with(address, None).await
    }

    /// Over TLS.
    pub(crate) async fn start_with_tls(address: &str, tls: Arc<proto::ServerConfig>) -> Self {
        Self::with(address, Some(tls)).await
    }

    async fn with(address: &str, tls: Option<Arc<proto::ServerConfig>>) -> Self {
        let listener = bind_when_free(address).await;
        let address = listener.local_addr().unwrap();
        let (sender, heard) = mpsc::channel(64);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = listener.into_std().unwrap();
        drop(TaskTracker::new().spawn_on(
            async move {
                let listener = TcpListener::from_std(listener).unwrap();
                serve_tcp(Arc::new(TestTools(sender)), listener, tls, CancellationToken::new())
                    .await
            },
            runtime.handle(),
        ));
        Self { address, events: heard, runtime: Some(runtime) }
    }

    /// Connects to a server that waits for nodes there, again and again.
    #[expect(clippy::disallowed_methods, reason = "a test is the node, too")]
    pub(crate) fn start_reverse(
        server: SocketAddr,
        id: &str,
        tls: Arc<proto::ServerConfig>,
    ) -> Self {
        let (sender, heard) = mpsc::channel(64);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let dial = move || -> ConnectFuture {
            Box::pin(async move {
                let stream = tokio::net::TcpStream::connect(server).await?;
                Ok(Box::new(stream) as Box<dyn IoStream>)
            })
        };
        let on = GrpcListener::Reverse { dial: Arc::new(dial), node_id: id.to_owned(), tls };
        let serving = serve_listener(Arc::new(TestTools(sender)), on, CancellationToken::new());
        drop(TaskTracker::new().spawn_on(serving, runtime.handle()));
        Self { address: server, events: heard, runtime: Some(runtime) }
    }

    /// The next call that it heard of.
    pub(crate) async fn next(&mut self) -> NodeEvent {
        tokio::time::timeout(Duration::from_secs(20), self.events.recv()).await.unwrap().unwrap()
    }

    /// Ends at once, calls and all.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

/// A registry with these tools of `n1`, which lives at `address`.
pub(crate) async fn registry(
    address: Option<SocketAddr>,
    tools: &[&str],
) -> PersistentNodeRegistry {
    timed(Arc::new(FakeClock::default()), address, tools).await
}

/// Creates it with this clock.
pub(crate) async fn timed(
    clock: Arc<dyn tool::Clock>,
    address: Option<SocketAddr>,
    tools: &[&str],
) -> PersistentNodeRegistry {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let store = Arc::new(MemoryStore::new());
    let registry = PersistentNodeRegistry::open_local(store, egress, clock).await.unwrap();
    register_tools(&registry, "n1", tools).await;
    if let Some(address) = address {
        set_address(&registry, address);
    }
    registry
}

/// A node has these tools from now on.
pub(crate) async fn register_tools(registry: &PersistentNodeRegistry, node: &str, tools: &[&str]) {
    for tool in tools {
        let tool = NodeTool {
            name: (*tool).to_owned(),
            node_id: node.to_owned(),
            input_spec: Json::empty_object(),
            metadata: Json::encode(&serde_json::json!({ "shared": true })),
            description: String::new(),
        };
        registry.register_tool(&NodeAccess::All, tool).await.unwrap();
    }
}

/// These nodes live here from now on.
pub(crate) fn set_node_addresses(registry: &PersistentNodeRegistry, nodes: &[(&str, SocketAddr)]) {
    let url = |(id, at): &(&str, SocketAddr)| ((*id).to_owned(), format!("http://{at}"));
    let nodes = nodes.iter().map(url).collect();
    registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
}

/// `n1` lives here from now on.
pub(crate) fn set_address(registry: &PersistentNodeRegistry, address: SocketAddr) {
    set_node_addresses(registry, &[("n1", address)]);
}

/// One call, as the pipeline makes it.
pub(crate) async fn call(
    registry: &PersistentNodeRegistry,
    name: &str,
    args: &str,
    ctx: &CallContext<'_>,
) -> Result<Outcome, ExecuteError> {
    let (tool, executor) = listed_offers(registry, 0, name).await;
    run((&tool, &executor), args, ctx).await
}

/// One call of this executor.
pub(crate) async fn run(
    (tool, executor): (&Arc<tool::Tool>, &Arc<dyn Executor>),
    args: &str,
    ctx: &CallContext<'_>,
) -> Result<Outcome, ExecuteError> {
    let id = CallId(uuid());
    let source = tool::SourceName::new("node.n1").unwrap();
    let key = ToolKey { org: Org::default(), source, name: tool.name.clone() };
    let args = CallArguments::parse(args.to_owned()).unwrap();
    let call = ToolCall {
        id,
        parent_id: None,
        resumption: None,
        unsolicited_input: None,
        tool_key: key,
        tool: Arc::clone(tool),
        arguments: args,
    };
    let ticket = IntentReceipt::with_abandon_hook(id, |_| {});
    match executor.execute(RecordedCall::from_receipt(&call, &ticket).unwrap(), ctx).await? {
        ExecutionState::Completed(outcome) => Ok(outcome),
        ExecutionState::Pending(wait) => panic!("{wait:?}"),
    }
}

/// A tool of the node that came at this place, and what runs it.
pub(crate) async fn listed_offers(
    registry: &PersistentNodeRegistry,
    node: usize,
    name: &str,
) -> (Arc<tool::Tool>, Arc<dyn Executor>) {
    let listing = registry.node_sources()[node].list_offers().await.unwrap();
    for offer in listing.offers {
        if let CatalogItem::Tool(tool) = offer.item
            && tool.name.as_str() == name
        {
            return (tool, offer.executor);
        }
    }
    panic!("no tool `{name}`")
}

fn uuid() -> uuid::Uuid {
    uuid::Uuid::now_v7()
}
