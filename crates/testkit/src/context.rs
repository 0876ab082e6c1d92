//! Call contexts for running an executor without the pipeline.

use tool::executor::{
    CancelSignal, ClientCapabilities, CredentialProvider, ProgressSink, UpstreamCredential,
};
use tool::{BoxFuture, CallContext, Caller, MonotonicTime, Org, PermissionLevel, SourceName};

/// A context without cancellation, progress or credentials.
#[derive(Debug)]
pub struct NoopContext;

impl CancelSignal for NoopContext {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}
impl ProgressSink for NoopContext {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl CredentialProvider for NoopContext {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        _: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        Box::pin(async { UpstreamCredential::NotNeeded })
    }
}

/// A user of the default organization.
pub fn test_caller() -> Caller {
    Caller {
        org: Org::default(),
        subject: "ann".to_owned(),
        key_id: "k1".to_owned(),
        level: PermissionLevel::User,
        is_agent: false,
        actors: Vec::new(),
        root_key_id: None,
    }
}

/// The capabilities of a client without any.
static NO_CAPABILITIES: ClientCapabilities = ClientCapabilities {
    supports_elicitation: false,
    supports_sampling: false,
    supports_roots: false,
    supports_tasks: false,
    is_single_source: false,
    raw: None,
};

/// Creates a context for `caller` without any services.
pub fn quiet_context(caller: &Caller) -> CallContext<'_> {
    CallContext {
        caller,
        deadline: MonotonicTime(std::time::Duration::from_hours(1)),
        cancel: &NoopContext,
        progress: &NoopContext,
        client_capabilities: &NO_CAPABILITIES,
        meta: None,
        client_requests: None,
        task_handle: None,
        credentials: &NoopContext,
        principal: None,
        sandbox_usage: None,
        answering_node: None,
    }
}
