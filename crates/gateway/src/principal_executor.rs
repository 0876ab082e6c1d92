//! The port of executors that act on behalf of their caller.
//!
//! Sources get the facts of a caller and nothing they could decide with. What stands above the gateway and
//! is called by way of it implements [`PrincipalExecutor`] instead of [`Executor`]. Crates of sources do not
//! depend on this one, so none of theirs can.

use std::fmt;
use std::sync::Arc;

use identity::Principal;
use tool::executor::PrincipalToken;
use tool::{Boxed, Code, Context, ExecuteError, Executor, Granted, Step};

use crate::Gateway;

/// Runs one call with the rights of its caller. Only [`PrincipalPort`] calls it, with the call's own principal.
pub trait PrincipalExecutor: Send + Sync + fmt::Debug {
    /// As [`Executor::execute`], on behalf of `caller`.
    ///
    /// # Errors
    /// As [`Executor::execute`].
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>>;

    /// As [`Executor::only_calls`].
    fn only_calls(&self) -> bool {
        false
    }
}

/// Whose call runs, and where.
#[derive(Debug, Clone, Copy)]
pub struct OnBehalf<'a> {
    /// The principal of the call, narrowed as its request asked for.
    pub principal: &'a Principal,
    /// The gateway that runs the call.
    pub gateway: &'a Arc<Gateway>,
}

/// A [`PrincipalExecutor`] as a catalog holds it. Layers around it, such as a retry, need not know of it.
#[derive(Debug)]
pub struct PrincipalPort<E>(pub E);

impl<E: PrincipalExecutor> Executor for PrincipalPort<E> {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        match ctx.principal.and_then(PrincipalToken::downcast::<CallPrincipal>) {
            Some(caller) => self.0.execute(caller.on_behalf(), call, ctx),
            None => Box::pin(std::future::ready(Err(ExecuteError::before(
                Code::Internal,
                "the call has no caller",
            )))),
        }
    }

    fn only_calls(&self) -> bool {
        self.0.only_calls()
    }
}

/// What the pipeline seals into a call's context. The type is private: nobody else can open it.
pub(crate) struct CallPrincipal {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) principal: Principal,
}

impl CallPrincipal {
    fn on_behalf(&self) -> OnBehalf<'_> {
        OnBehalf { principal: &self.principal, gateway: &self.gateway }
    }
}

#[cfg(test)]
mod tests;
