//! The client of the tool registry: registers tools, sends heartbeats, unregisters on shutdown.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use egress::{Class, Egress, EgressSettings, HttpLimits, Origin};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tool::Secret;

use crate::Described;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Registration {
    egress: Egress,
    class: Class,
    url: String,
    key: Option<HeaderValue>,
    node_id: String,
    tools: Mutex<Vec<Described>>,
    every: Duration,
    refused: Mutex<BTreeMap<String, String>>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("node_id", &self.node_id).finish_non_exhaustive()
    }
}

impl Registration {
    pub(crate) fn new(
        (url, origin): (&str, Origin),
        key: Option<Secret>,
        node_id: &str,
        tools: Vec<Described>,
        every: Duration,
    ) -> Result<Self, String> {
        let egress = Egress::new(EgressSettings::default()).map_err(|error| error.to_string())?;
        let bearer = |key: Secret| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.open()))
                .map_err(|_| "the key cannot be sent in a header".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        };
        let key = key.map(bearer).transpose()?;
        Ok(Self {
            egress,
            class: Class::Operator { origin },
            url: url.trim_end_matches('/').to_owned(),
            key,
            node_id: node_id.to_owned(),
            tools: Mutex::new(tools),
            every,
            refused: Mutex::default(),
        })
    }

    fn tools(&self) -> Vec<Described> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Each tool; one that is refused holds up no other.
    pub(crate) async fn register(&self) {
        let mut refused = BTreeMap::new();
        for tool in self.tools() {
            if let Err(why) = self.put(&tool).await {
                refused.insert(tool.name, why);
            }
        }
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    /// Other tools than before: those that are gone are taken back, those that are new or changed
    /// registered.
    pub(crate) async fn set(&self, tools: Vec<Described>) {
        let old = {
            let mut kept = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *kept, tools.clone())
        };
        for gone in old.iter().filter(|old| tools.iter().all(|new| new.name != old.name)) {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).remove(&gone.name);
            self.take_back(gone).await;
        }
        for tool in tools.iter().filter(|tool| !old.contains(tool)) {
            let put = self.put(tool).await;
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            match put {
                Ok(()) => drop(refused.remove(&tool.name)),
                Err(why) => drop(refused.insert(tool.name.clone(), why)),
            }
        }
    }

    async fn put(&self, tool: &Described) -> Result<(), String> {
        let body = json!({
            "name": tool.name,
            "node_id": self.node_of(tool),
            "input_spec": tool.input_spec,
            "metadata": tool.metadata,
            "description": tool.description,
        });
        let refused = match self.ask(Method::POST, "/tools", Some(&body)).await {
            Ok((200 | 201, _)) => {
                tracing::info!(tool = tool.name, "tool registered");
                return Ok(());
            }
            Ok((status, said)) => format!("{status}: {said}"),
            Err(error) => error,
        };
        tracing::warn!(tool = tool.name, why = refused, "tool not registered");
        Err(refused)
    }

    pub(crate) fn refused(&self) -> Vec<(String, String)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().map(|(tool, why)| (tool.clone(), why.clone())).collect()
    }

    /// Signs of life until `stop`; what the registry does not have is registered again.
    pub(crate) async fn beat(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.every) => {}
            }
            let forgotten = matches!(
                self.tell("serving").await,
                Ok((404, said)) if said.contains("Node not found")
            );
            if forgotten || !self.refused().is_empty() {
                self.register().await;
            }
        }
    }

    /// Tells that it ends, and takes its tools back.
    pub(crate) async fn leave(&self) {
        drop(self.tell("draining").await);
        for tool in self.tools() {
            self.take_back(&tool).await;
        }
    }

    async fn take_back(&self, tool: &Described) {
        let path = format!("/tools/{}/{}", self.node_of(tool), tool.name);
        if let Err(error) = self.ask(Method::DELETE, &path, None).await {
            tracing::warn!(tool = tool.name, error, "tool not unregistered");
        }
    }

    fn node_of<'a>(&'a self, tool: &'a Described) -> &'a str {
        tool.node_id().unwrap_or(&self.node_id)
    }

    async fn tell(&self, state: &str) -> Result<(u16, String), String> {
        let path = format!("/v1/nodes/{}/heartbeat", self.node_id);
        self.ask(Method::POST, &path, Some(&json!({ "state": state }))).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, String), String> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request.body(body).map_err(|error| error.to_string())?;
        let limits = HttpLimits { connect: TIMEOUT, headers: TIMEOUT, ..HttpLimits::default() };
        let told = async {
            let response = self.egress.send(&self.class, request, limits).await?;
            let status = response.status().as_u16();
            let body = response.into_body().bytes().await?;
            Ok((status, String::from_utf8_lossy(&body).into_owned()))
        };
        let told: Result<_, egress::EgressError> =
            tokio::time::timeout(TIMEOUT, told).await.map_err(|_| "no answer in 5 s".to_owned())?;
        told.map_err(|error| error.to_string())
    }
}
