//! A caller at the REST door.

use std::time::Duration;

use bytes::Bytes;
use egress::{Class, Egress, EgressError, EgressSettings, HttpLimits, Origin, Roots};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Value, json};

use super::server::SOON;

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Reply {
    /// The error's code, or nothing where it is none.
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
    egress: Egress,
    class: Class,
    url: String,
    bearer: Option<String>,
}

impl Client {
    /// Without a key.
    pub(crate) fn open(url: &str) -> Self {
        // Nothing is read of the machine: all is plain and on loopback.
        let roots = Roots { native: false, bundled: false, extra: Vec::new() };
        let settings = EgressSettings { roots, ..EgressSettings::default() };
        let egress = Egress::new(settings).unwrap();
        let class = Class::Operator { origin: Origin::parse(url).unwrap() };
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
        let limits =
            HttpLimits { connect: SOON, headers: SOON, idle: SOON, ..HttpLimits::default() };
        let request = request.body(Bytes::from(body)).unwrap();
        let response = self.egress.send(&self.class, request, limits).await?;
        let status = response.status().as_u16();
        let body = response.into_body().bytes().await?;
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
        let limits =
            HttpLimits { connect: SOON, headers: SOON, idle: SOON, ..HttpLimits::default() };
        let response = self.egress.send(&self.class, request, limits).await.unwrap();
        let body = response.into_body().bytes().await.unwrap();
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

    /// What is on record of a call.
    pub(crate) async fn record(&self, call: &str) -> Reply {
        self.get(&format!("/v1/calls/{call}")).await
    }

    /// One source, as it stands.
    pub(crate) async fn source(&self, name: &str) -> Option<Value> {
        let reply = self.get("/v1/sources").await;
        let sources = reply.body["sources"].as_array().cloned().unwrap_or_default();
        sources.into_iter().find(|source| source["name"] == name)
    }

    /// Waits until a source is as `fits` wants it.
    pub(crate) async fn source_that(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        for _ in 0..SOON.as_millis() / 20 {
            last = self.source(name).await;
            match &last {
                Some(source) if fits(source) => return source.clone(),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        panic!("the source `{name}` stays {last:?}");
    }
}
