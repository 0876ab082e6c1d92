//! Client of the tool registry: registers tools, sends heartbeats, unregisters on shutdown.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressClient, EgressOptions, Origin, RequestLimits, UrlTrust};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tool::Secret;

use crate::ToolDefinition;

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct RegistryClient {
    egress: EgressClient,
    class: UrlTrust,
    url: String,
    key: Option<HeaderValue>,
    node_id: String,
    tools: Mutex<Vec<ToolDefinition>>,
    heartbeat_interval: Duration,
    rejected: Mutex<BTreeMap<String, String>>,
}

impl std::fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("node_id", &self.node_id).finish_non_exhaustive()
    }
}

/// A tool that the registry rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedTool {
    /// Name of the tool.
    pub name: String,
    /// Reason, as a message for people.
    pub reason: String,
}

/// Response of a registry, with any status.
struct RegistryResponse {
    status: u16,
    text: String,
}

impl RegistryClient {
    pub(crate) fn new(
        (url, origin): (&str, Origin),
        key: Option<Secret>,
        node_id: &str,
        tools: Vec<ToolDefinition>,
        interval: Duration,
    ) -> Result<Self, String> {
        let egress =
            EgressClient::new(EgressOptions::default()).map_err(|error| error.to_string())?;
        let bearer = |key: Secret| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| "the key is not a valid header value".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        };
        let key = key.map(bearer).transpose()?;
        Ok(Self {
            egress,
            class: UrlTrust::Configured { origin },
            url: url.trim_end_matches('/').to_owned(),
            key,
            node_id: node_id.to_owned(),
            tools: Mutex::new(tools),
            heartbeat_interval: interval,
            rejected: Mutex::default(),
        })
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Registers each tool; a rejected tool does not stop the others.
    pub(crate) async fn register(&self) {
        let mut refused = BTreeMap::new();
        for tool in self.tools() {
            if let Err(why) = self.register_tool(&tool).await {
                refused.insert(tool.name, why);
            }
        }
        *self.rejected.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    /// Replaces the tools: unregisters removed ones, and registers new and changed ones.
    pub(crate) async fn replace_tools(&self, tools: Vec<ToolDefinition>) {
        let old = {
            let mut kept = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *kept, tools.clone())
        };
        for gone in old.iter().filter(|old| tools.iter().all(|new| new.name != old.name)) {
            self.rejected.lock().unwrap_or_else(PoisonError::into_inner).remove(&gone.name);
            self.unregister_tool(gone).await;
        }
        for tool in tools.iter().filter(|tool| !old.contains(tool)) {
            let put = self.register_tool(tool).await;
            let mut refused = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
            match put {
                Ok(()) => drop(refused.remove(&tool.name)),
                Err(why) => drop(refused.insert(tool.name.clone(), why)),
            }
        }
    }

    async fn register_tool(&self, tool: &ToolDefinition) -> Result<(), String> {
        let body = json!({
            "name": tool.name,
            "node_id": self.node_id_of(tool),
            "input_spec": tool.input_spec,
            "metadata": tool.metadata,
            "description": tool.description,
        });
        let refused = match self.send_request(Method::POST, "/tools", Some(&body)).await {
            Ok(RegistryResponse { status: 200 | 201, .. }) => {
                tracing::info!(tool = tool.name, "tool registered");
                return Ok(());
            }
            Ok(RegistryResponse { status, text }) => format!("{status}: {text}"),
            Err(error) => error,
        };
        tracing::warn!(tool = tool.name, why = refused, "tool not registered");
        Err(refused)
    }

    pub(crate) fn rejected_tools(&self) -> Vec<RejectedTool> {
        let rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        let tools = rejected.iter();
        tools
            .map(|(name, reason)| RejectedTool { name: name.clone(), reason: reason.clone() })
            .collect()
    }

    /// Sends heartbeats until `stop`. Registers again what the registry has lost.
    pub(crate) async fn run_heartbeat(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.heartbeat_interval) => {}
            }
            let forgotten = matches!(
                self.send_state("serving").await,
                Ok(RegistryResponse { status: 404, text }) if text.contains("Node not found")
            );
            if forgotten || !self.rejected_tools().is_empty() {
                self.register().await;
            }
        }
    }

    /// Reports that the node is draining, and unregisters its tools.
    pub(crate) async fn unregister_all(&self) {
        drop(self.send_state("draining").await);
        for tool in self.tools() {
            self.unregister_tool(&tool).await;
        }
    }

    async fn unregister_tool(&self, tool: &ToolDefinition) {
        let path = format!("/tools/{}/{}", self.node_id_of(tool), tool.name);
        if let Err(error) = self.send_request(Method::DELETE, &path, None).await {
            tracing::warn!(tool = tool.name, error, "tool not unregistered");
        }
    }

    fn node_id_of<'a>(&'a self, tool: &'a ToolDefinition) -> &'a str {
        tool.node_id().unwrap_or(&self.node_id)
    }

    async fn send_state(&self, state: &str) -> Result<RegistryResponse, String> {
        let path = format!("/v1/nodes/{}/heartbeat", self.node_id);
        self.send_request(Method::POST, &path, Some(&json!({ "state": state }))).await
    }

    async fn send_request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<RegistryResponse, String> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request.body(body).map_err(|error| error.to_string())?;
        let limits = RequestLimits {
            connect_timeout: REQUEST_TIMEOUT,
            header_timeout: REQUEST_TIMEOUT,
            ..RequestLimits::default()
        };
        let told = async {
            let response = self.egress.send_request(&self.class, request, limits).await?;
            let status = response.status().as_u16();
            let body = response.into_body().collect_bytes().await?;
            let text = String::from_utf8_lossy(&body).into_owned();
            Ok(RegistryResponse { status, text })
        };
        let told: Result<_, egress::EgressError> = tokio::time::timeout(REQUEST_TIMEOUT, told)
            .await
            .map_err(|_| "no response within 5 s".to_owned())?;
        told.map_err(|error| error.to_string())
    }
}
