//! Load generator that remembers what the server acknowledged until it is killed.

use egress::EgressError;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::rest_client::Client;
use crate::support::seeded_random::Random;

/// Callers at once.
const CALLERS: u64 = 6;

/// One call to make: with effects, synced before it runs, or one that reads and is only written.
#[derive(Debug, Clone)]
pub(crate) struct CallWork {
    pub(crate) tool: &'static str,
    pub(crate) args: Value,
}

impl CallWork {
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
pub(crate) struct Acknowledgement {
    pub(crate) id: String,
    pub(crate) work: CallWork,
    /// Bytes of the answer.
    pub(crate) bytes: usize,
}

/// Makes one call; an error where no whole answer came.
pub(crate) async fn make_call(
    agent: &Client,
    work: CallWork,
) -> Result<Acknowledgement, EgressError> {
    let reply = agent.try_call(work.tool, &work.args).await?;
    assert_eq!(reply.status, 200, "a call failed, and nothing was wrong: {:?}", reply.body);
    let bytes = reply.body["result"].to_string().len();
    Ok(Acknowledgement { id: reply.call_id().to_owned(), work, bytes })
}

/// Callers at work.
pub(crate) struct Load(JoinSet<Vec<Acknowledgement>>);

impl Load {
    pub(crate) fn on(agent: &Client, random: &mut Random) -> Self {
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            callers.spawn(call_on(agent.clone(), random.next() % 1_000));
        }
        Self(callers)
    }

    /// Returns the acknowledged calls after the server has stopped.
    pub(crate) async fn acknowledged(mut self) -> Vec<Acknowledgement> {
        let mut all = Vec::new();
        while let Some(acks) = self.0.join_next().await {
            all.extend(acks.unwrap());
        }
        all
    }
}

async fn call_on(agent: Client, from: u64) -> Vec<Acknowledgement> {
    let mut acks = Vec::new();
    for n in from.. {
        match make_call(&agent, CallWork::nth(n)).await {
            Ok(ack) => acks.push(ack),
            Err(_) => break,
        }
    }
    acks
}
