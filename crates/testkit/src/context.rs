//! Call contexts for running an executor without the pipeline.

use tool::executor::{Cancel, ClientCan, Credential, Credentials, Progress};
use tool::{Boxed, Caller, Context, Level, Mono, Org, SourceName};

/// A context without cancellation, progress or credentials.
#[derive(Debug)]
pub struct Quiet;

impl Cancel for Quiet {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}
impl Progress for Quiet {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl Credentials for Quiet {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(async { Credential::None })
    }
}

/// A user of the default organization.
pub fn caller() -> Caller {
    Caller {
        org: Org::default(),
        subject: "ann".to_owned(),
        key: "k1".to_owned(),
        level: Level::User,
        agent: false,
        actors: Vec::new(),
        root: None,
    }
}

/// The capabilities of a client without any.
static NOTHING: ClientCan = ClientCan {
    elicit: false,
    sample: false,
    roots: false,
    tasks: false,
    alone: false,
    declared: None,
};

/// Creates a context for `caller` without any services.
pub fn context(caller: &Caller) -> Context<'_> {
    Context {
        caller,
        deadline: Mono(std::time::Duration::from_hours(1)),
        cancel: &Quiet,
        progress: &Quiet,
        client: &NOTHING,
        meta: None,
        ask: None,
        task: None,
        credentials: &Quiet,
        principal: None,
        caged: None,
        node: None,
    }
}
