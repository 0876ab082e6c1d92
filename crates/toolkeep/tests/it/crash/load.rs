//! Callers that call until their server is gone, and remember what it acknowledged.

use egress::EgressError;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::client::Client;
use crate::support::random::Random;

/// Callers at once.
const CALLERS: u64 = 6;

/// One call to make: with effects, synced before it runs, or one that reads and is only written.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) tool: &'static str,
    pub(crate) args: Value,
}

impl Work {
    /// The kinds in turn, with arguments of some lengths.
    pub(crate) fn nth(n: u64) -> Self {
        let text = "x".repeat(usize::try_from(n % 7 * 40).unwrap());
        let (tool, args) = match n % 3 {
            0 => ("echo", json!({ "message": text })),
            _ => ("save", json!({ "text": text })),
        };
        Self { tool, args }
    }

    pub(crate) fn has_effects(&self) -> bool {
        self.tool == "save"
    }
}

/// A call that was acknowledged: its whole answer came, with status 200.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    pub(crate) id: String,
    pub(crate) work: Work,
    /// Bytes of the answer.
    pub(crate) bytes: usize,
}

/// Makes one call; an error where no whole answer came.
pub(crate) async fn one(agent: &Client, work: Work) -> Result<Ack, EgressError> {
    let reply = agent.try_call(work.tool, &work.args).await?;
    assert_eq!(reply.status, 200, "a call failed, and nothing was wrong: {:?}", reply.body);
    let bytes = reply.body["result"].to_string().len();
    Ok(Ack { id: reply.call_id().to_owned(), work, bytes })
}

/// Callers at work.
pub(crate) struct Load(JoinSet<Vec<Ack>>);

impl Load {
    pub(crate) fn on(agent: &Client, random: &mut Random) -> Self {
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            callers.spawn(call_on(agent.clone(), random.next() % 1_000));
        }
        Self(callers)
    }

    /// What was acknowledged, once no server answers any more.
    pub(crate) async fn acknowledged(mut self) -> Vec<Ack> {
        let mut all = Vec::new();
        while let Some(acks) = self.0.join_next().await {
            all.extend(acks.unwrap());
        }
        all
    }
}

async fn call_on(agent: Client, from: u64) -> Vec<Ack> {
    let mut acks = Vec::new();
    for n in from.. {
        match one(&agent, Work::nth(n)).await {
            Ok(ack) => acks.push(ack),
            Err(_) => break,
        }
    }
    acks
}
