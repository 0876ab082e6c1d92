//! Held calls through the doors: REST, both eras of MCP, spec 0's routes and the providers' formats.

mod formats;
mod mcp;
mod rest;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gateway::Patience;
use identity::KeyId;
use serde_json::{Value, json};
use testkit::executor::Scripted;
use tool::{Outcome, Safety, Step};

use crate::support::{Client, Server, Setup, tools};

/// A server that holds calls of `rm`, and counts what ran.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) ran: Arc<Scripted>,
    executed: Arc<Mutex<Vec<String>>>,
    pub(crate) agent: Client,
    pub(crate) owner: Client,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Patience::default(), Duration::from_millis(300)).await
    }

    async fn with(patience: Patience, wait: Duration) -> Self {
        let executed = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&executed);
        let ran = Arc::new(Scripted::new(move |args| {
            all.lock().unwrap().push(args.as_str().to_owned());
            Ok(Step::Done(Outcome::value(args)))
        }));
        let rm = tools::with("rm", |tool| tool.traits.safety = Safety::Dangerous);
        let m2 = tools::with("m2.rm", |tool| tool.traits.safety = Safety::Dangerous);
        let offers = vec![
            tools::offer(m2, Arc::clone(&ran) as _),
            tools::offer(rm, Arc::clone(&ran) as _),
            tools::offer(tools::tool("ls"), testkit::executor::echo()),
        ];
        let notices = server_core::Notices { page: None, poll: wait, open: wait };
        let patience = Some(patience);
        let server = Server::with(Setup { offers, patience, notices, ..Setup::default() }).await;
        let agent = server.client(|key| key.id = KeyId::new(AGENT).unwrap()).await;
        let owner = server.owner().await;
        Self { server, ran, executed, agent, owner }
    }

    /// The arguments of all that ran.
    pub(crate) fn executed(&self) -> Vec<String> {
        self.executed.lock().unwrap().clone()
    }

    /// A call through REST that is held; its id.
    pub(crate) async fn held(&self, args: Value) -> String {
        let reply = self.agent.call("rm", args).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        reply.json()["call_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn decide(&self, id: &str, how: &str, body: Value) -> Value {
        self.owner.post(&format!("/v1/approvals/{id}/{how}"), &body).await.good()
    }

    /// The one call that waits, once there is one.
    pub(crate) async fn waiting(&self) -> String {
        for _ in 0..600 {
            let list = self.owner.get("/v1/approvals").await.good();
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
fn confirming() -> Patience {
    Patience { client_confirm: HashSet::from([AGENT.to_owned()]), ..Patience::default() }
}

fn text(value: &Value) -> String {
    value["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn nothing() -> Value {
    json!({})
}
