//! Executor port for tools that act on behalf of their caller.
//!
//! Sources receive facts about a caller, but nothing that grants rights. Crates above the gateway
//! whose tools call it implement [`PrincipalExecutor`] instead of [`Executor`]. Source crates do
//! not depend on this crate, so they cannot implement it.

use std::fmt;
use std::sync::Arc;

use identity::Principal;
use tool::executor::PrincipalToken;
use tool::{
    BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, RecordedCall,
};

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
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>>;

    /// As [`Executor::only_makes_nested_calls`].
    fn only_calls(&self) -> bool {
        false
    }
}

/// Principal and gateway of a running call.
#[derive(Debug, Clone, Copy)]
pub struct OnBehalf<'a> {
    /// The principal of the call, restricted as its request states.
    pub principal: &'a Principal,
    /// The gateway that runs the call.
    pub gateway: &'a Arc<Gateway>,
}

/// Adapter from [`PrincipalExecutor`] to [`Executor`], as the catalog holds it. Wrappers such as
/// retries need not know it.
#[derive(Debug)]
pub struct PrincipalPort<E>(pub E);

impl<E: PrincipalExecutor> Executor for PrincipalPort<E> {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        match ctx.principal.and_then(PrincipalToken::downcast::<CallPrincipal>) {
            Some(caller) => self.0.execute(caller.on_behalf(), call, ctx),
            None => Box::pin(std::future::ready(Err(ExecuteError::not_sent(
                ErrorCode::Internal,
                "the call has no caller",
            )))),
        }
    }

    fn only_makes_nested_calls(&self) -> bool {
        self.0.only_calls()
    }
}

/// Principal and gateway of a call, sealed into its context. The type is private, so that no other
/// crate can read it.
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
