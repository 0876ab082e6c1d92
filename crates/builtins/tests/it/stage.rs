//! Test setup of all tools, with a working folder and an isolated network.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use builtins::{BuiltinSource, FileRoots, RuffLinter, SandboxProvider, ToolDependencies};
use egress::{Dialer, DnsResolver, EgressClient, EgressOptions};
use rooted_fs::rooted_dir::{AccessMode, RootedDir};
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;
use serde_json::Value;
use tokio::net::TcpStream;
use tool::executor::{
    CancelSignal, ClientCapabilities, CredentialProvider, ProgressSink, UpstreamCredential,
};
use tool::{
    BoxFuture, CallArguments, CallContext, CallId, Caller, CatalogItem, Clock, ExecutionState,
    IntentReceipt, MonotonicTime, Offer, Org, OutcomeBody, PermissionLevel, RecordedCall,
    Source as _, SourceName, ToolCall, ToolKey, WallTime,
};

#[derive(Debug)]
struct Still;
impl Clock for Still {
    fn wall_now(&self) -> WallTime {
        WallTime(1_782_945_015_250)
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(Duration::ZERO)
    }
}

struct Nobody;
impl CancelSignal for Nobody {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}
impl ProgressSink for Nobody {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl CredentialProvider for Nobody {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        _: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        Box::pin(std::future::ready(UpstreamCredential::NotNeeded))
    }
}

/// Dialer that counts attempts and connects nothing.
#[derive(Debug, Default)]
pub(crate) struct Dialled(AtomicUsize);
impl Dialled {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
impl Dialer for Dialled {
    fn dial_address(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())))
    }
}

/// Resolver that maps every name to an internal address.
#[derive(Debug)]
struct Inside;
impl DnsResolver for Inside {
    fn resolve_host<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec!["10.0.0.1".parse().unwrap()])))
    }
}

pub(crate) struct Stage {
    pub(crate) home: tempfile::TempDir,
    pub(crate) dialled: Arc<Dialled>,
    offers: Vec<Offer>,
}

impl Stage {
    /// Creates a setup whose working folder is `a/b/c/work` of the home.
    pub(crate) async fn new() -> Self {
        Self::with(None, None).await
    }

    /// Adds the sandboxed tools if there is a launcher, and ruff if there is a folder.
    pub(crate) async fn with(launcher: Option<ProcessLauncher>, folder: Option<PathBuf>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("a/b/c/work");
        std::fs::create_dir_all(&work).unwrap();
        let root = RootedDir::open_root(&work, AccessMode::ReadWrite).unwrap();
        let dialled = Arc::new(Dialled::default());
        let (dialer, resolver) = (Arc::clone(&dialled), Arc::new(Inside));
        let settings = EgressOptions { dialer, resolver, ..EgressOptions::default() };
        let place = work.canonicalize().unwrap();
        let sandboxes = launcher
            .map(|it| Arc::new(SandboxProvider::new(it, Some(place), SandboxLevel::NoNamespaces)));
        let ruff = sandboxes.as_ref().map(|sandboxes| RuffLinter::in_folders(sandboxes, folder));
        let means = ToolDependencies {
            ruff,
            sandboxes,
            file_roots: Some(Arc::new(FileRoots::new(vec![(work, root)]))),
            egress: Some(EgressClient::new(settings).unwrap()),
            ..ToolDependencies::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(Still);
        let offers = BuiltinSource::new(&clock, &means).list_offers().await.unwrap().offers;
        Self { home, dialled, offers }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.home.path().join("a/b/c/work")
    }

    /// Calls a tool; returns its answer or the reason of its failure.
    pub(crate) async fn call(&self, name: &str, args: &Value) -> Result<Value, Value> {
        self.call_raw(name, args.to_string()).await
    }

    /// Calls a tool with arguments that may be invalid JSON.
    pub(crate) async fn call_raw(
        &self,
        name: &str,
        args: impl Into<bytes::Bytes>,
    ) -> Result<Value, Value> {
        let named = |offer: &&Offer| matches!(&offer.item, CatalogItem::Tool(it) if it.name.as_str() == name);
        let offer = self.offers.iter().find(named).unwrap_or_else(|| panic!("no {name}"));
        let CatalogItem::Tool(tool) = &offer.item else { panic!() };
        let key = ToolKey {
            org: Org::default(),
            source: SourceName::new("builtin").unwrap(),
            name: tool.name.clone(),
        };
        let args = CallArguments::parse(args).map_err(|error| error.to_string())?;
        let id = CallId(uuid::Uuid::nil());
        let tool = Arc::clone(tool);
        let call = ToolCall {
            id,
            parent_id: None,
            resumption: None,
            unsolicited_input: None,
            tool_key: key,
            tool,
            arguments: args,
        };
        let caller = Caller {
            org: Org::default(),
            subject: "someone".into(),
            key_id: "k".into(),
            level: PermissionLevel::User,
            is_agent: true,
            actors: Vec::new(),
            root_key_id: None,
        };
        let ctx = CallContext {
            caller: &caller,
            deadline: MonotonicTime(Duration::MAX),
            cancel: &Nobody,
            progress: &Nobody,
            client_capabilities: &ClientCapabilities::default(),
            meta: None,
            client_requests: None,
            task_handle: None,
            credentials: &Nobody,
            principal: None,
            sandbox_usage: None,
            answering_node: None,
        };
        let ticket = IntentReceipt::with_abandon_hook(id, drop);
        let step =
            offer.executor.execute(RecordedCall::from_receipt(&call, &ticket).unwrap(), &ctx).await;
        let step = match step {
            Ok(step) => step,
            // Errors before the call runs, such as a missing folder.
            Err(error) => return Err(Value::from(error.message)),
        };
        let ExecutionState::Completed(outcome) = step else { panic!("it waits") };
        let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
        if outcome.is_error { Err(json.to_value()) } else { Ok(json.to_value()) }
    }
}
