//! Tests of calls that wait for approval: on the command line, over a webhook and across kills.
//! Third-party clients have their own tests.

mod approval_commands;
mod approval_crash;
mod approval_expiry;
mod approval_webhook;
mod pending_cost;

use serde_json::{Value, json};

use crate::real_support::expect_ok;
use crate::real_support::recording_module::{Module, manifest};
use crate::support::installation::Installation;
use crate::support::rest_client::{Client, Reply};

/// A service that remembers what it was sent, and a home with a dangerous tool that asks it.
pub(crate) struct ApprovalHome {
    service: Module,
    pub(crate) home: Installation,
}

impl ApprovalHome {
    /// `more` is written below the sources of the configuration.
    pub(crate) fn new(more: &str) -> Self {
        let service = Module::start(manifest("m", &[]));
        let config = "version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\n";
        let home = Installation::new(&format!("{config}{more}"));
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
    pub(crate) fn run_count(&self, n: u64) -> usize {
        self.service.received().iter().filter(|body| body["n"] == n).count()
    }
}

async fn pending_call(agent: &Client, n: u64) -> String {
    let reply = agent.call("wipe", &json!({ "n": n })).await;
    assert_eq!(reply.status, 202, "{:?}", reply.body);
    reply.call_id().to_owned()
}

pub(crate) async fn decide(owner: &Client, id: &str, how: &str, body: &Value) -> Value {
    expect_ok(owner.post(&format!("/v1/approvals/{id}/{how}"), body).await)
}

async fn resume(agent: &Client, id: &str) -> Reply {
    agent.post(&format!("/v1/calls/{id}/resume?wait=30s"), &json!({})).await
}

/// The one call that waits, once there is one.
pub(crate) async fn wait_for_pending(owner: &Client) -> String {
    for _ in 0..3_000 {
        let list = expect_ok(owner.get("/v1/approvals").await);
        if let Some(id) = list["approvals"][0]["id"].as_str() {
            return id.to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("nothing waits");
}
