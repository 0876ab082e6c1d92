//! An HTTP module in this process that accepts and records all requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Shared state of a module and its requests.
#[derive(Debug, Clone)]
struct Shared {
    manifest: Arc<Value>,
    received: Arc<Mutex<Vec<Value>>>,
    /// Whether calls wait before they are answered.
    held: watch::Sender<bool>,
    /// Milliseconds that each answer takes.
    slow: Arc<AtomicU64>,
}

/// A module that runs until it is dropped or stopped.
#[derive(Debug)]
pub(crate) struct Module {
    address: SocketAddr,
    shared: Shared,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// A manifest: tools as name, permission and parameters, each parameter an optional text.
pub(crate) fn manifest(module: &str, tools: &[(&str, &str, &[&str])]) -> Value {
    let parameter = |name: &&str| {
        let description = format!("The {name}.");
        json!({ "name": name, "type": "string", "description": description, "required": false })
    };
    let tool = |&(name, permission, parameters): &(&str, &str, &[&str])| {
        let parameters: Vec<_> = parameters.iter().map(parameter).collect();
        let description = format!("Does {name}.");
        json!({
            "name": name, "description": description, "parameters": parameters,
            "required_permission": permission,
        })
    };
    let tools: Vec<_> = tools.iter().map(tool).collect();
    json!({ "module_name": module, "description": "A module.", "tools": tools })
}

impl Module {
    /// Starts it on a free port of the loopback.
    pub(crate) fn start(manifest: Value) -> Self {
        let shared = Shared {
            manifest: Arc::new(manifest),
            received: Arc::default(),
            held: watch::Sender::new(false),
            slow: Arc::default(),
        };
        let (address, running) = serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), shared.clone());
        Self { address, shared, running: Some(running) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that it was sent to execute, oldest first.
    pub(crate) fn received(&self) -> Vec<Value> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Holds the calls that come from here on, or lets all go.
    pub(crate) fn hold_calls(&self, held: bool) {
        self.shared.held.send_replace(held);
    }

    /// Takes so long for each call from here on.
    pub(crate) fn set_delay(&self, ms: u64) {
        self.shared.slow.store(ms, Ordering::Relaxed);
    }

    /// Ends it: nothing answers at its address from here on.
    pub(crate) fn stop_module(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            let _ended = stop.send(());
            thread.join().unwrap();
        }
    }

    /// Starts it again at the same address.
    pub(crate) fn restart_module(&mut self) {
        let (address, running) = serve(self.address, self.shared.clone());
        self.address = address;
        self.running = Some(running);
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.stop_module();
    }
}

type Running = (oneshot::Sender<()>, JoinHandle<()>);

fn serve(address: SocketAddr, shared: Shared) -> (SocketAddr, Running) {
    let (stop, stopped) = oneshot::channel();
    let (bound, address_of) = channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind(address).await.unwrap();
            bound.send(listener.local_addr().unwrap()).unwrap();
            let router = axum::Router::new()
                .route("/manifest", get(serve_manifest))
                .route("/execute", post(serve_call))
                .route("/health", get(|| async { Json(json!({ "status": "ok" })) }))
                .with_state(shared);
            // Stopped hard, connections and all: as a module that dies is.
            tokio::select! {
                served = axum::serve(listener, router) => served.unwrap(),
                _ = stopped => {}
            }
        });
    });
    (address_of.recv().unwrap(), (stop, thread))
}

async fn serve_manifest(State(shared): State<Shared>) -> Json<Value> {
    Json((*shared.manifest).clone())
}

/// Takes the user from the arguments first, as some modules do.
async fn serve_call(State(shared): State<Shared>, Json(call): Json<Value>) -> Json<Value> {
    let user = match &call["arguments"]["user_id"] {
        Value::Null => call["user_id"].clone(),
        given => given.clone(),
    };
    let answer = json!({
        "tool_name": call["tool_name"], "success": true, "result": { "for": user }, "error": null,
    });
    shared.received.lock().unwrap().push(call);
    tokio::time::sleep(Duration::from_millis(shared.slow.load(Ordering::Relaxed))).await;
    shared.held.subscribe().wait_for(|held| !held).await.unwrap();
    Json(answer)
}
