//! Approval callback of the safety-level library: a function of the embedding program decides about
//! each pending call.
//!
//! It decides as a principal with the right `approve`, once, on record, and bound to the arguments
//! that it was shown. It can approve no more than that principal.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use identity::Principal;
use tool::outcome::{Answer, Failure};
use tool::{Boxed, CallId, Interface, Json};

use crate::{Gateway, LONGEST, Shown};

/// Verdict of the callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs as requested.
    Approved,
    /// The call does not run; with a reason, if there is one.
    Denied(Option<String>),
    /// The call runs with these arguments, a JSON object, if they match the tool's schema.
    Modified(Bytes),
}

/// Decides about a pending call from its tool, arguments and reason. It may take any time; the
/// pending approval still expires.
pub trait Ask: Send + Sync + 'static {
    /// Returns the verdict on a call.
    fn ask<'a>(&'a self, held: &'a Shown) -> Boxed<'a, Verdict>;
}

/// A plain function decides immediately.
impl<F: Fn(&Shown) -> Verdict + Send + Sync + 'static> Ask for F {
    fn ask<'a>(&'a self, held: &'a Shown) -> Boxed<'a, Verdict> {
        let verdict = self(held);
        Box::pin(std::future::ready(verdict))
    }
}

/// A callback and the principal as which it decides.
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

/// Result of a pending call.
pub(super) struct Decided {
    pub(super) answer: Answer,
    /// True if the callback approved it.
    pub(super) approved: bool,
}

impl Approver {
    pub(super) fn new(who: Principal, ask: impl Ask) -> Self {
        Self { who, ask: Arc::new(ask) }
    }

    /// Asks the callback, applies its verdict and waits for the result. An earlier decision by
    /// anybody else takes precedence.
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
                        // Nobody will decide later, so the call does not stay pending.
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
