//! A client of the REST interface with the agent's and the owner's key.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use crate::timed_request::open_connection;

/// A client of one server with the agent's and the owner's key.
pub(crate) struct TwoKeyClient {
    address: SocketAddr,
    agent: String,
    owner: String,
}

impl TwoKeyClient {
    pub(crate) fn with_keys(address: SocketAddr, folder: &Path) -> Result<Self, String> {
        let key = |name: &str| {
            let text = fs::read_to_string(folder.join("data").join(name));
            text.map(|text| text.trim().to_owned()).map_err(|e| format!("{name}: {e}"))
        };
        Ok(Self { address, agent: key("agent.key")?, owner: key("owner.key")? })
    }

    async fn send_request(
        &self,
        key: &str,
        request: (Method, &str),
        body: Bytes,
    ) -> Result<Bytes, String> {
        let (method, path) = request;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, format!("Bearer {key}"))
            .body(Full::new(body))
            .map_err(|e| e.to_string())?;
        let lost = |e: hyper::Error| format!("{path}: {e}");
        let answer =
            open_connection(self.address).await?.send_request(request).await.map_err(lost)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(lost)?.to_bytes();
        if head.status.is_success() {
            return Ok(body);
        }
        let start = String::from_utf8_lossy(body.get(..body.len().min(500)).unwrap_or_default());
        Err(format!("{path}: {}: {start}", head.status))
    }

    async fn post_json(&self, key: &str, path: &str, body: Bytes) -> Result<Value, String> {
        let answer = self.send_request(key, (Method::POST, path), body).await?;
        serde_json::from_slice(&answer).map_err(|e| format!("{path}: {e}"))
    }

    /// Returns the number of tools that the agent may call.
    pub(crate) async fn count_tools(&self) -> Result<usize, String> {
        let list = self
            .send_request(&self.agent, (Method::GET, "/v1/tools?limit=1000"), Bytes::new())
            .await?;
        let list: Value = serde_json::from_slice(&list).map_err(|e| e.to_string())?;
        Ok(list.get("tools").and_then(Value::as_array).map_or(0, Vec::len))
    }

    /// Returns whether the agent's list contains a tool.
    pub(crate) async fn has_tool(&self, tool: &str) -> Result<bool, String> {
        let list = self
            .send_request(&self.agent, (Method::GET, "/v1/tools?limit=1000"), Bytes::new())
            .await?;
        let list: Value = serde_json::from_slice(&list).map_err(|e| e.to_string())?;
        let tools = list.get("tools").and_then(Value::as_array).into_iter().flatten();
        Ok(tools.into_iter().any(|it| it.get("name").and_then(Value::as_str) == Some(tool)))
    }

    pub(crate) async fn call_tool(&self, body: Bytes) -> Result<Value, String> {
        self.post_json(&self.agent, "/v1/calls", body).await
    }

    pub(crate) async fn approve_call(&self, id: &str) -> Result<(), String> {
        let path = format!("/v1/approvals/{id}/approve");
        self.post_json(&self.owner, &path, Bytes::from_static(b"{}")).await.map(drop)
    }

    pub(crate) async fn resume_call(&self, id: &str) -> Result<Value, String> {
        self.post_json(&self.agent, &format!("/v1/calls/{id}/resume?wait=30s"), Bytes::new()).await
    }

    /// Returns the result of an answer, fetching the artifact if the result was too large.
    pub(crate) async fn result_bytes(&self, answer: &Value) -> Result<Vec<u8>, String> {
        let result = answer.get("result").ok_or("an answer without a result")?;
        match result.pointer("/artefact/id").and_then(Value::as_str) {
            Some(id) => {
                let path = format!("/v1/artefacts/{id}");
                let whole =
                    self.send_request(&self.agent, (Method::GET, &path), Bytes::new()).await?;
                Ok(whole.to_vec())
            }
            None => Ok(result.to_string().into_bytes()),
        }
    }
}
