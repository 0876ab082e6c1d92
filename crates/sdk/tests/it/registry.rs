//! Test registry that records the requests it receives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Received request: method, path, body, key.
pub(crate) type Asked = (String, String, Value, String);

#[derive(Clone)]
pub(crate) struct Registry {
    asked: watch::Sender<Vec<Asked>>,
    /// Names of tools that it rejects.
    pub(crate) refused: Arc<Mutex<Vec<String>>>,
    /// Whether it knows the node.
    pub(crate) known: Arc<Mutex<bool>>,
    pub(crate) url: String,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let registry = Self {
            asked: watch::Sender::new(Vec::new()),
            refused: Arc::default(),
            known: Arc::new(Mutex::new(true)),
            url,
        };
        let app = Router::new().fallback(answer).with_state(registry.clone());
        drop(TaskTracker::new().spawn(async move { axum::serve(listener, app).await }));
        registry
    }

    pub(crate) fn all(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    pub(crate) fn bodies(&self, method: &str, path: &str) -> Vec<Value> {
        let all = self.all().into_iter().filter(|(m, p, ..)| m == method && p == path);
        all.map(|(_, _, body, _)| body).collect()
    }

    pub(crate) async fn until(&self, wanted: impl Fn(&[Asked]) -> bool) {
        let mut asked = self.asked.subscribe();
        let came = asked.wait_for(|all| wanted(all));
        tokio::time::timeout(Duration::from_secs(30), came).await.unwrap().unwrap();
    }
}

async fn answer(
    State(registry): State<Registry>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, axum::Json<Value>) {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = body["name"].as_str().unwrap_or_default().to_owned();
    let key = headers.get("authorization").map(|key| key.to_str().unwrap().to_owned());
    let one = (method.to_string(), uri.path().to_owned(), body, key.unwrap_or_default());
    let answer = if uri.path().ends_with("/heartbeat") && !*registry.known.lock().unwrap() {
        (StatusCode::NOT_FOUND, json!({ "error": { "message": "Node not found" } }))
    } else if registry.refused.lock().unwrap().contains(&name) {
        (StatusCode::CONFLICT, json!({ "error": "taken" }))
    } else {
        (StatusCode::CREATED, json!({ "message": "Tool created", "id": "1" }))
    };
    registry.asked.send_modify(|all| all.push(one));
    (answer.0, axum::Json(answer.1))
}
