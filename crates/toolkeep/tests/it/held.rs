//! Calls that are held, with the program as it ships: at the command line, over a webhook, and killed
//! at any point. By clients that others wrote: see `clients::held`.

mod cost;
mod crash;
mod expire;
mod terminal;
mod webhook;

use serde_json::{Value, json};

use crate::support::client::{Client, Reply};
use crate::support::home::Home;
use crate::support_real::good;
use crate::support_real::module::{Module, manifest};

/// A service that remembers what it was sent, and a home with a dangerous tool that asks it.
pub(crate) struct Bench {
    service: Module,
    pub(crate) home: Home,
}

impl Bench {
    /// `more` is written below the sources of the configuration.
    pub(crate) fn new(more: &str) -> Self {
        let service = Module::start(manifest("m", &[]));
        let config = "version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\n";
        let home = Home::new(&format!("{config}{more}"));
        let url = service.url();
        home.write(
            "tools.yaml",
            &format!(
                "version: 2\ntools:\n  - name: wipe\n    description: Wipes a cache.\n    safety: dangerous\n    \
                 parameters: {{ type: object, properties: {{ n: {{ type: integer }} }}, additionalProperties: false }}\n    \
                 implementation: {{ type: http, method: POST, url: '{url}/execute' }}\n"
            ),
        );
        Self { service, home }
    }

    /// How often it ran with this argument.
    pub(crate) fn ran(&self, n: u64) -> usize {
        self.service.received().iter().filter(|body| body["n"] == n).count()
    }
}

async fn held(agent: &Client, n: u64) -> String {
    let reply = agent.call("wipe", &json!({ "n": n })).await;
    assert_eq!(reply.status, 202, "{:?}", reply.body);
    reply.call_id().to_owned()
}

pub(crate) async fn decide(owner: &Client, id: &str, how: &str, body: &Value) -> Value {
    good(owner.post(&format!("/v1/approvals/{id}/{how}"), body).await)
}

async fn resume(agent: &Client, id: &str) -> Reply {
    agent.post(&format!("/v1/calls/{id}/resume?wait=30s"), &json!({})).await
}

/// The one call that waits, once there is one.
pub(crate) async fn waiting(owner: &Client) -> String {
    for _ in 0..3_000 {
        let list = good(owner.get("/v1/approvals").await);
        if let Some(id) = list["approvals"][0]["id"].as_str() {
            return id.to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("nothing waits");
}
