//! A client of the REST interface.

use std::time::Duration;

use bytes::Bytes;
use egress::{
    EgressClient, EgressError, EgressOptions, Origin, RequestLimits, TrustStore, UrlTrust,
};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Value, json};

use super::server_process::READY_LIMIT;

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Reply {
    /// The error code; empty if it is no error.
    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    /// The call's id, of an answer or of an error.
    pub(crate) fn call_id(&self) -> &str {
        let id = self.body.get("call_id").or_else(|| self.body["error"].get("call_id"));
        id.and_then(Value::as_str).unwrap_or_default()
    }
}

/// A caller. Clones share connections.
#[derive(Clone)]
pub(crate) struct Client {
    egress: EgressClient,
    class: UrlTrust,
    url: String,
    bearer: Option<String>,
}

impl Client {
    /// Without a key.
    pub(crate) fn for_url(url: &str) -> Self {
        // Nothing is read of the machine: all is plain and on loopback.
        let roots = TrustStore {
            uses_system_roots: false,
            falls_back_to_bundled: false,
            extra_roots: Vec::new(),
        };
        let settings = EgressOptions { trust_store: roots, ..EgressOptions::default() };
        let egress = EgressClient::new(settings).unwrap();
        let class = UrlTrust::Configured { origin: Origin::parse(url).unwrap() };
        Self { egress, class, url: url.to_owned(), bearer: None }
    }

    pub(crate) fn with_key(self, key: &str) -> Self {
        Self { bearer: Some(format!("Bearer {key}")), ..self }
    }

    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Reply, EgressError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        request = request.header(CONTENT_TYPE, "application/json");
        let limits = RequestLimits {
            connect_timeout: READY_LIMIT,
            header_timeout: READY_LIMIT,
            body_idle_timeout: READY_LIMIT,
            ..RequestLimits::default()
        };
        let request = request.body(Bytes::from(body)).unwrap();
        let response = self.egress.send_request(&self.class, request, limits).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        Ok(Reply { status, body: serde_json::from_slice(&body).unwrap_or_else(|_| text()) })
    }

    pub(crate) async fn try_get(&self, path: &str) -> Result<Reply, EgressError> {
        self.try_send(Method::GET, path, String::new()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.try_get(path).await.unwrap()
    }

    /// The data of all events of a stream, once it has ended.
    pub(crate) async fn events(&self, path: &str) -> Vec<Value> {
        let mut request = Request::builder().method(Method::GET).uri(format!("{}{path}", self.url));
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        let request = request.header(ACCEPT, "text/event-stream").body(Bytes::new()).unwrap();
        let limits = RequestLimits {
            connect_timeout: READY_LIMIT,
            header_timeout: READY_LIMIT,
            body_idle_timeout: READY_LIMIT,
            ..RequestLimits::default()
        };
        let response = self.egress.send_request(&self.class, request, limits).await.unwrap();
        let body = response.into_body().collect_bytes().await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.try_send(Method::POST, path, body.to_string()).await.unwrap()
    }

    /// Calls a tool; an error where no whole answer came.
    pub(crate) async fn try_call(&self, tool: &str, args: &Value) -> Result<Reply, EgressError> {
        let body = json!({ "tool": tool, "arguments": args });
        self.try_send(Method::POST, "/v1/calls", body.to_string()).await
    }

    pub(crate) async fn call(&self, tool: &str, args: &Value) -> Reply {
        self.try_call(tool, args).await.unwrap()
    }

    /// Returns the records of a call.
    pub(crate) async fn fetch_record(&self, call: &str) -> Reply {
        self.get(&format!("/v1/calls/{call}")).await
    }

    /// Returns the current state of a source.
    pub(crate) async fn find_source(&self, name: &str) -> Option<Value> {
        let reply = self.get("/v1/sources").await;
        let sources = reply.body["sources"].as_array().cloned().unwrap_or_default();
        sources.into_iter().find(|source| source["name"] == name)
    }

    /// Waits until `fits` accepts the state of a source.
    pub(crate) async fn wait_for_source(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        for _ in 0..READY_LIMIT.as_millis() / 20 {
            last = self.find_source(name).await;
            match &last {
                Some(source) if fits(source) => return source.clone(),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        panic!("the source `{name}` stays {last:?}");
    }
}
