//! Scripted MCP server inside the test, over in-memory pipes.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use source_mcp::{
    ConnectionError, McpOptions, McpSource, PipeConnection, PipeConnector, ServerProcess,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use tool::{BoxFuture, Source as _, SourceName};

type Script = dyn Fn(Talk) -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync;

/// Connector that runs a script at each start.
#[derive(Clone)]
pub(crate) struct Peer {
    script: Arc<Script>,
    starts: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<Value>>>,
    lines: Arc<Mutex<Vec<String>>>,
    alive: Arc<AtomicUsize>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peer")
    }
}

impl Peer {
    /// Creates a peer. The script returns its exit status.
    pub(crate) fn new<F>(script: impl Fn(Talk) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        Self {
            script: Arc::new(move |talk| Box::pin(script(talk))),
            starts: Arc::default(),
            heard: Arc::default(),
            lines: Arc::default(),
            alive: Arc::default(),
        }
    }

    /// Creates a server that lists `tools` and answers every call with its arguments.
    pub(crate) fn echo(tools: Vec<Value>) -> Self {
        Self::new(move |mut talk| {
            let tools = tools.clone();
            async move {
                talk.handshake(json!({"tools": {"listChanged": true}})).await;
                while let Some(request) = talk.hear().await {
                    match request["method"].as_str() {
                        Some("tools/list") => talk.answer(&request, json!({"tools": tools})).await,
                        Some("tools/call") => {
                            let said = request["params"]["arguments"].to_string();
                            talk.answer(&request, text(&said)).await;
                        }
                        _ => {}
                    }
                }
                "exit status 0".to_owned()
            }
        })
    }

    pub(crate) fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    /// Number of scripts that run now.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    /// Returns all messages that any of them received.
    pub(crate) fn heard(&self) -> Vec<Value> {
        self.heard.lock().unwrap().clone()
    }

    /// Returns all received messages as text lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits until a message that `fits` was received.
    pub(crate) async fn hears(&self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(found) = self.heard().into_iter().find(&fits) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn source(&self, name: &str, options: McpOptions) -> McpSource {
        McpSource::with_pipes(SourceName::new(name).unwrap(), options, Arc::new(self.clone()))
    }

    fn begin(&self) -> PipeConnection {
        let nth = self.starts.fetch_add(1, Ordering::SeqCst) + 1;
        let (ours_in, theirs_out) = tokio::io::duplex(1 << 16);
        let (theirs_in, ours_out) = tokio::io::duplex(1 << 16);
        let (end, ended) = watch::channel(None);
        let lines = BufReader::new(theirs_in).lines();
        let talk = Talk {
            nth,
            lines,
            out: theirs_out,
            heard: Arc::clone(&self.heard),
            raw: Arc::clone(&self.lines),
        };
        let alive = Alive::new(&self.alive);
        let script = (self.script)(talk);
        let task = TaskTracker::new().spawn(async move {
            let how = script.await;
            drop(alive);
            end.send_replace(Some(how));
        });
        let process = Box::new(Running { task: task.abort_handle(), ended });
        PipeConnection { reader: Box::new(ours_in), writer: Box::new(ours_out), process }
    }
}

struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PipeConnector for Peer {
    fn display_address(&self) -> String {
        "`peer`".to_owned()
    }
    fn connect_pipes(&self) -> BoxFuture<'_, Result<PipeConnection, ConnectionError>> {
        Box::pin(async { Ok(self.begin()) })
    }
}

#[derive(Debug)]
struct Running {
    task: AbortHandle,
    ended: watch::Receiver<Option<String>>,
}

impl ServerProcess for Running {
    fn wait_for_exit(&mut self) -> BoxFuture<'_, String> {
        Box::pin(async {
            match self.ended.wait_for(Option::is_some).await {
                Ok(how) => how.clone().unwrap(),
                Err(_) => "killed".to_owned(),
            }
        })
    }
    fn terminate_process(self: Box<Self>, _: Duration) -> BoxFuture<'static, ()> {
        self.task.abort();
        Box::pin(async move {
            let mut ended = self.ended.clone();
            while ended.changed().await.is_ok() {}
        })
    }
    fn stderr_tail(&self) -> String {
        "starting\nboom: \u{1b}[31mno such file\n".to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One run of a script.
pub(crate) struct Talk {
    /// Number of the run, from 1.
    pub(crate) nth: usize,
    lines: Lines<BufReader<DuplexStream>>,
    out: DuplexStream,
    heard: Arc<Mutex<Vec<Value>>>,
    raw: Arc<Mutex<Vec<String>>>,
}

impl Talk {
    /// Returns the next message; `None` when the client closed its end.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        let message: Value = serde_json::from_str(&line).unwrap();
        self.heard.lock().unwrap().push(message.clone());
        self.raw.lock().unwrap().push(line);
        Some(message)
    }

    /// Returns the next message of this method and skips others.
    pub(crate) async fn hear_of(&mut self, method: &str) -> Option<Value> {
        loop {
            let message = self.hear().await?;
            if message["method"] == method {
                return Some(message);
            }
        }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        // The client may have disconnected.
        drop(self.out.write_all(text.as_bytes()).await);
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.write(&format!("{message}\n")).await;
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    /// Answers `initialize` and skips the following notification.
    pub(crate) async fn handshake(&mut self, capabilities: Value) {
        let Some(request) = self.hear_of("initialize").await else { return };
        let version = &request["params"]["protocolVersion"];
        let info = json!({"name": "peer", "version": "1"});
        let result =
            json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info});
        self.answer(&request, result).await;
        self.hear_of("notifications/initialized").await;
    }
}

/// Builds the definition of a tool.
pub(crate) fn definition(name: &str) -> Value {
    json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}})
}

/// Builds a result with one text.
pub(crate) fn text(said: &str) -> Value {
    json!({"content": [{"type": "text", "text": said}]})
}

/// Returns the names of a source's items, in order.
pub(crate) async fn names(source: &McpSource) -> Vec<String> {
    let listing = source.list_offers().await.unwrap();
    let name = |offer: &tool::Offer| match &offer.item {
        tool::CatalogItem::Tool(tool) | tool::CatalogItem::Method(tool) => tool.name.to_string(),
        tool::CatalogItem::Prompt(prompt) => prompt.name.to_string(),
        tool::CatalogItem::Resource(resource) => resource.uri.clone(),
        tool::CatalogItem::Skill(skill) => skill.uri.clone(),
        tool::CatalogItem::Event(event) => event.name.to_string(),
    };
    listing.offers.iter().map(name).collect()
}
