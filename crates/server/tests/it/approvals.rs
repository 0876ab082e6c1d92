//! Tests of calls that wait for approval: REST, both eras of MCP, the module API and the providers'
//! formats.

mod formats;
mod mcp;
mod rest;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gateway::ApprovalSettings;
use identity::KeyId;
use serde_json::{Value, json};
use testkit::executor::MockExecutor;
use tool::{ExecutionState, Outcome, SafetyLevel};

use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// A server that holds calls of `rm`, and counts what ran.
pub(crate) struct ApprovalServer {
    pub(crate) server: FixtureServer,
    pub(crate) ran: Arc<MockExecutor>,
    executed: Arc<Mutex<Vec<String>>>,
    pub(crate) agent: Client,
    pub(crate) owner: Client,
}

impl ApprovalServer {
    pub(crate) async fn new() -> Self {
        Self::with_settings(ApprovalSettings::default(), Duration::from_millis(300)).await
    }

    async fn with_settings(patience: ApprovalSettings, wait: Duration) -> Self {
        Self::with_setup(patience, wait, ServerSetup::default()).await
    }

    /// A server of this setup, with the tools and the settings of this fixture.
    pub(crate) async fn with_setup(
        patience: ApprovalSettings,
        wait: Duration,
        setup: ServerSetup,
    ) -> Self {
        let executed = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&executed);
        let ran = Arc::new(MockExecutor::new(move |args| {
            all.lock().unwrap().push(args.as_str().to_owned());
            Ok(ExecutionState::Completed(Outcome::from_value(args)))
        }));
        let rm = tools::tool_with("rm", |tool| tool.traits.safety = SafetyLevel::Dangerous);
        let m2 = tools::tool_with("m2.rm", |tool| tool.traits.safety = SafetyLevel::Dangerous);
        let offers = vec![
            tools::tool_offer(m2, Arc::clone(&ran) as _),
            tools::tool_offer(rm, Arc::clone(&ran) as _),
            tools::tool_offer(tools::test_tool("ls"), testkit::executor::echo_executor()),
        ];
        let notices = server_core::PendingCallOptions {
            approval_page: None,
            poll_timeout: wait,
            response_timeout: wait,
        };
        let patience = Some(patience);
        let server = FixtureServer::with_setup(ServerSetup {
            offers,
            approval_settings: patience,
            pending_call_options: notices,
            ..setup
        })
        .await;
        let agent = server.client_with(|key| key.id = KeyId::new(AGENT).unwrap()).await;
        let owner = server.owner_client().await;
        Self { server, ran, executed, agent, owner }
    }

    /// The arguments of all that ran.
    pub(crate) fn executed(&self) -> Vec<String> {
        self.executed.lock().unwrap().clone()
    }

    /// A call through REST that is held; its id.
    pub(crate) async fn pending_call(&self, args: Value) -> String {
        let reply = self.agent.call_tool("rm", args).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        reply.json()["call_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn decide(&self, id: &str, how: &str, body: Value) -> Value {
        self.owner.post(&format!("/v1/approvals/{id}/{how}"), &body).await.expect_ok()
    }

    /// The one call that waits, once there is one.
    pub(crate) async fn wait_for_pending(&self) -> String {
        for _ in 0..600 {
            let list = self.owner.get("/v1/approvals").await.expect_ok();
            if let Some(id) = list["approvals"][0]["id"].as_str() {
                return id.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nothing waits");
    }
}

/// The id of the agent's key.
const AGENT: &str = "heldagent";

/// Patience with the agent, whose client may approve.
fn confirming_settings() -> ApprovalSettings {
    ApprovalSettings {
        client_confirming_keys: HashSet::from([AGENT.to_owned()]),
        ..ApprovalSettings::default()
    }
}

fn text(value: &Value) -> String {
    value["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn empty_object() -> Value {
    json!({})
}
