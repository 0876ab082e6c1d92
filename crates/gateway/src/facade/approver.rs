//! Spec 1's approval callback: a function of the embedding program is asked about each held call.
//!
//! It decides through the same door as everybody else: as a principal with the right `approve`, once, on
//! record, bound to the arguments that it was shown. It can give no more than that principal can.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use identity::Principal;
use tool::outcome::{Answer, Failure};
use tool::{Boxed, CallId, Interface, Json};

use crate::{Gateway, LONGEST, Shown};

/// What the function says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs as it was asked.
    Approved,
    /// It does not run; with a reason, where there is one.
    Denied(Option<String>),
    /// It runs with these arguments, a JSON object, once they fit the tool's schema.
    Modified(Bytes),
}

/// Is asked about a call that is held: tool, arguments, why. Takes as long as it likes; the call waits no
/// longer than its approval does.
pub trait Ask: Send + Sync + 'static {
    /// Decides.
    fn ask<'a>(&'a self, held: &'a Shown) -> Boxed<'a, Verdict>;
}

/// A plain function decides at once.
impl<F: Fn(&Shown) -> Verdict + Send + Sync + 'static> Ask for F {
    fn ask<'a>(&'a self, held: &'a Shown) -> Boxed<'a, Verdict> {
        let verdict = self(held);
        Box::pin(std::future::ready(verdict))
    }
}

/// A function, and as whom it decides.
#[derive(Clone)]
pub struct Approver {
    who: Principal,
    ask: Arc<dyn Ask>,
}

impl fmt::Debug for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approver").field("who", &self.who).finish_non_exhaustive()
    }
}

/// How a held call ended.
pub(super) struct Decided {
    pub(super) answer: Answer,
    /// Whether the function agreed to it.
    pub(super) approved: bool,
}

impl Approver {
    pub(super) fn new(who: Principal, ask: impl Ask) -> Self {
        Self { who, ask: Arc::new(ask) }
    }

    /// Asks, decides, and waits for what comes of it. Whoever else decides first counts.
    pub(super) async fn decide(
        &self,
        gateway: &Arc<Gateway>,
        caller: &Principal,
        held: Answer,
    ) -> Decided {
        let call = held.call;
        let settled = gateway.settled(caller, call, LONGEST);
        tokio::select! {
            told = self.told(gateway, call) => match told {
                Ok(approved) => {
                    let answer = gateway.settled(caller, call, LONGEST).await;
                    Decided { answer: answered(&held, answer), approved }
                }
                Err(failure) => Decided { answer: answered(&held, Err(failure)), approved: false },
            },
            answer = settled => Decided { answer: answered(&held, answer), approved: false },
        }
    }

    async fn told(&self, gateway: &Arc<Gateway>, call: CallId) -> Result<bool, Failure> {
        let held = gateway.approval(&self.who, call).await?;
        let by = (&self.who, Interface::Callback);
        let shown = match self.ask.ask(&held).await {
            Verdict::Approved => held,
            Verdict::Denied(reason) => {
                gateway.deny(by, call, reason.as_deref()).await?;
                return Ok(false);
            }
            Verdict::Modified(args) => {
                let args = Json::check(args.to_vec(), tool::Limits::DOCUMENT).map_err(|error| {
                    let told = format!("the changed arguments: {error}");
                    Failure::new(tool::Code::InvalidArguments, told)
                });
                let edited = match args {
                    Ok(args) => gateway.edit(by, call, args).await,
                    Err(failure) => Err(failure),
                };
                match edited {
                    Ok(edited) => edited,
                    Err(failure) => {
                        // Nobody comes back to it here: it is not left to wait.
                        gateway.deny(by, call, Some(&failure.message)).await.ok();
                        return Err(failure);
                    }
                }
            }
        };
        gateway.approve(by, call, Some(shown.arguments_sha256)).await?;
        Ok(true)
    }
}

fn answered(held: &Answer, answer: Result<Answer, Failure>) -> Answer {
    answer.unwrap_or_else(|failure| Answer { result: Err(failure), ..held.clone() })
}
