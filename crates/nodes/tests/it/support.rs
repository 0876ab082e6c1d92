//! Nodes as servers here, and calls of their tools without a pipeline.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use egress::{Egress, EgressSettings};
use nodes::{Addresses, Registry};
use proto::MetadataMap;
use proto::Status;
use proto::connect::{Dialled, Duplex};
use proto::node::Tool as Listed;
use proto::serve::{Asked, Boxed, On, Said, Tools, serve, serve_on};
use store::MemoryStore;
use testkit::clock::FakeClock;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::node::{NodeTool, Nodes as _, Speaks};
use tool::{
    Args, Call, CallId, Context, ExecuteError, Executor, Granted, Item, Json, Org, Outcome,
    Source as _, Step, Ticket, ToolKey,
};

/// A node whose tools do what their names say.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) heard: mpsc::Receiver<Heard>,
    /// Its own, so that it can be ended with all that it does, as a machine is.
    runtime: Option<Runtime>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    Call { tool: String, input: String, within: Option<Duration> },
    Dropped,
}

struct Does(mpsc::Sender<Heard>);

impl Tools for Does {
    fn who(&self, _: MetadataMap) -> Boxed<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn list(&self, _: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        let heard = self.0.clone();
        Box::pin(async move {
            let input = String::from_utf8(asked.input.to_vec()).unwrap();
            let call = Heard::Call { tool: asked.tool_name.clone(), input, within: asked.within };
            heard.try_send(call).unwrap();
            let _dropped = OnDrop(heard);
            match asked.tool_name.as_str() {
                "echo" => Ok(Said { success: true, output: asked.input, ..Said::default() }),
                "fails" => Ok(Said {
                    error: "it broke\nTraceback (most recent call last):\n  secret".to_owned(),
                    ..Said::default()
                }),
                "tells" => {
                    asked.progress.tell(1.0, Some(2.0), "half");
                    tokio::task::yield_now().await;
                    let told = asked.progress.wanted().to_string();
                    Ok(Said { success: true, output: told.into(), ..Said::default() })
                }
                _ => std::future::pending().await,
            }
        })
    }
    fn node_id(&self) -> String {
        "n1".to_owned()
    }
    fn draining(&self) -> bool {
        false
    }
}

struct OnDrop(mpsc::Sender<Heard>);
impl Drop for OnDrop {
    fn drop(&mut self) {
        drop(self.0.try_send(Heard::Dropped));
    }
}

/// Listens there, as soon as the node that was there before is gone.
async fn free(address: &str) -> TcpListener {
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
        Self::at("127.0.0.1:0").await
    }

    pub(crate) async fn at(address: &str) -> Self {
        Self::with(address, None).await
    }

    /// Over TLS.
    pub(crate) async fn showing(address: &str, tls: Arc<proto::ServerConfig>) -> Self {
        Self::with(address, Some(tls)).await
    }

    async fn with(address: &str, tls: Option<Arc<proto::ServerConfig>>) -> Self {
        let listener = free(address).await;
        let address = listener.local_addr().unwrap();
        let (sender, heard) = mpsc::channel(64);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = listener.into_std().unwrap();
        drop(TaskTracker::new().spawn_on(
            async move {
                let listener = TcpListener::from_std(listener).unwrap();
                serve(Arc::new(Does(sender)), listener, tls, CancellationToken::new()).await
            },
            runtime.handle(),
        ));
        Self { address, heard, runtime: Some(runtime) }
    }

    /// Connects to a server that waits for nodes there, again and again.
    #[expect(clippy::disallowed_methods, reason = "a test is the node, too")]
    pub(crate) fn dialling(server: SocketAddr, id: &str, tls: Arc<proto::ServerConfig>) -> Self {
        let (sender, heard) = mpsc::channel(64);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let dial = move || -> Dialled {
            Box::pin(async move {
                let stream = tokio::net::TcpStream::connect(server).await?;
                Ok(Box::new(stream) as Box<dyn Duplex>)
            })
        };
        let on = On::Dialled { dial: Arc::new(dial), node_id: id.to_owned(), tls };
        let serving = serve_on(Arc::new(Does(sender)), on, CancellationToken::new());
        drop(TaskTracker::new().spawn_on(serving, runtime.handle()));
        Self { address: server, heard, runtime: Some(runtime) }
    }

    /// The next call that it heard of.
    pub(crate) async fn next(&mut self) -> Heard {
        tokio::time::timeout(Duration::from_secs(20), self.heard.recv()).await.unwrap().unwrap()
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
pub(crate) async fn registry(address: Option<SocketAddr>, tools: &[&str]) -> Registry {
    timed(Arc::new(FakeClock::default()), address, tools).await
}

/// The same, with this clock.
pub(crate) async fn timed(
    clock: Arc<dyn tool::Clock>,
    address: Option<SocketAddr>,
    tools: &[&str],
) -> Registry {
    let egress = Egress::new(EgressSettings::default()).unwrap();
    let store = Arc::new(MemoryStore::new());
    let registry = Registry::open(store, egress, clock).await.unwrap();
    has(&registry, "n1", tools).await;
    if let Some(address) = address {
        moved(&registry, address);
    }
    registry
}

/// A node has these tools from now on.
pub(crate) async fn has(registry: &Registry, node: &str, tools: &[&str]) {
    for tool in tools {
        let tool = NodeTool {
            name: (*tool).to_owned(),
            node_id: node.to_owned(),
            input_spec: Json::empty(),
            metadata: Json::of(&serde_json::json!({ "shared": true })),
            description: String::new(),
        };
        registry.register(&Speaks::All, tool).await.unwrap();
    }
}

/// These nodes live here from now on.
pub(crate) fn live(registry: &Registry, nodes: &[(&str, SocketAddr)]) {
    let url = |(id, at): &(&str, SocketAddr)| ((*id).to_owned(), format!("http://{at}"));
    let nodes = nodes.iter().map(url).collect();
    registry.set_addresses(Addresses { nodes, ..Addresses::default() });
}

/// `n1` lives here from now on.
pub(crate) fn moved(registry: &Registry, address: SocketAddr) {
    live(registry, &[("n1", address)]);
}

/// One call, as the pipeline makes it.
pub(crate) async fn call(
    registry: &Registry,
    name: &str,
    args: &str,
    ctx: &Context<'_>,
) -> Result<Outcome, ExecuteError> {
    let (tool, executor) = offered(registry, 0, name).await;
    run((&tool, &executor), args, ctx).await
}

/// One call of this executor.
pub(crate) async fn run(
    (tool, executor): (&Arc<tool::Tool>, &Arc<dyn Executor>),
    args: &str,
    ctx: &Context<'_>,
) -> Result<Outcome, ExecuteError> {
    let id = CallId(uuid());
    let source = tool::SourceName::new("node.n1").unwrap();
    let key = ToolKey { org: Org::default(), source, name: tool.name.clone() };
    let args = Args::check(args.to_owned()).unwrap();
    let call = Call {
        id,
        parent: None,
        continues: None,
        unasked: None,
        key,
        tool: Arc::clone(tool),
        args,
    };
    let ticket = Ticket::issue(id, |_| {});
    match executor.execute(Granted::of(&call, &ticket).unwrap(), ctx).await? {
        Step::Done(outcome) => Ok(outcome),
        Step::Wait(wait) => panic!("{wait:?}"),
    }
}

/// A tool of the node that came at this place, and what runs it.
pub(crate) async fn offered(
    registry: &Registry,
    node: usize,
    name: &str,
) -> (Arc<tool::Tool>, Arc<dyn Executor>) {
    let listing = registry.sources()[node].list().await.unwrap();
    for offer in listing.offers {
        if let Item::Tool(tool) = offer.item
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
