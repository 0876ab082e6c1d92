//! A registry with a folder of plugins, and callers of their tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use egress::{EgressClient, EgressOptions, TrustStore};
use plugins::{AccessGrant, PluginRegistry, PluginRuntimeConfig};
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tool::executor::CancelSignal;
use tool::plugin_admin::PluginStatus;
use tool::{
    BoxFuture, CallArguments, CallContext, CallId, CatalogItem, Clock, ExecuteError,
    ExecutionState, IntentReceipt, MonotonicTime, Offer, Org, Outcome, OutcomeBody, RecordedCall,
    Source as _, SourceListing, ToolCall, ToolKey, WallTime,
};

/// The longest that anything here may take.
pub(crate) const SOON: Duration = Duration::from_mins(1);

#[derive(Debug)]
struct Ticking(Instant);
impl Clock for Ticking {
    fn wall_now(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        WallTime(u64::try_from(since.as_millis()).unwrap())
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.0.elapsed())
    }
}

/// Fires after a while.
struct After(Duration);
impl CancelSignal for After {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(self.0))
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}

pub(crate) struct Stage {
    pub(crate) home: tempfile::TempDir,
    pub(crate) registry: Arc<PluginRegistry>,
    _watching: AbortOnDropHandle<()>,
}

fn launcher() -> ProcessLauncher {
    ProcessLauncher::new(
        PathBuf::from(env!("CARGO_BIN_EXE_plugins-launch")),
        vec!["__launch".into()],
    )
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(BTreeMap::new()).await
    }

    pub(crate) async fn with(grants: BTreeMap<String, AccessGrant>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let roots = TrustStore {
            uses_system_roots: false,
            falls_back_to_bundled: false,
            extra_roots: Vec::new(),
        };
        let egress =
            EgressClient::new(EgressOptions { trust_store: roots, ..EgressOptions::default() })
                .unwrap();
        let means = PluginRuntimeConfig {
            launcher: launcher(),
            min_sandbox_tier: SandboxLevel::Full,
            egress: Some(egress),
            clock: Arc::new(Ticking(Instant::now())),
            copies_dir: home.path().join("copies"),
            settings_dir: home.path().join("tool_settings"),
            python_path: None,
            startup_timeout: Duration::from_secs(10),
        };
        let registry = PluginRegistry::open(means).await.unwrap();
        registry.configure(vec![home.path().join("plugins")], grants);
        let watched = Arc::clone(&registry);
        let watching = tokio::spawn(async move { watched.watch_folders().await });
        Self { home, registry, _watching: AbortOnDropHandle::new(watching) }
    }

    pub(crate) fn folder(&self, plugin: &str) -> PathBuf {
        self.home.path().join("plugins").join(plugin)
    }

    /// A plugin of one Python file; each tool is a function of its name, with these parameters.
    pub(crate) fn python(&self, plugin: &str, code: &str, tools: &[(&str, Value)]) {
        self.manifest(plugin, &manifest(plugin, tools));
        self.write(plugin, "tools.py", code);
    }

    pub(crate) fn manifest(&self, plugin: &str, manifest: &Value) {
        self.write(plugin, "manifest.json", &manifest.to_string());
    }

    pub(crate) fn write(&self, plugin: &str, file: &str, text: &str) {
        let path = self.folder(plugin).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) async fn listing(&self, plugin: &str) -> SourceListing {
        let name = format!("plugin.{plugin}");
        let sources = self.registry.sources();
        let source = sources.iter().find(|source| source.name().as_str() == name);
        source.unwrap_or_else(|| panic!("no {name}")).list_offers().await.unwrap()
    }

    pub(crate) async fn offer(&self, plugin: &str, tool: &str) -> Offer {
        let listing = self.listing(plugin).await;
        let name = format!("{plugin}.{tool}");
        let fits = |offer: &Offer| matches!(&offer.item, CatalogItem::Tool(it) if it.name.as_str() == name);
        let found = listing.offers.into_iter().find(fits);
        found.unwrap_or_else(|| panic!("no {name}: {:?}", listing.problems))
    }

    pub(crate) fn standing(&self, plugin: &str) -> PluginStatus {
        let all = self.registry.statuses();
        all.into_iter().find(|it| it.name == plugin).unwrap_or_else(|| panic!("no {plugin}"))
    }

    /// Looks at all folders now.
    pub(crate) async fn reload(&self) -> (Vec<String>, Vec<String>) {
        let (done, _) = self.registry.reload_plugins(None).await.unwrap();
        (done.reloaded, done.failed)
    }

    pub(crate) async fn call(
        &self,
        plugin: &str,
        tool: &str,
        args: Value,
    ) -> Result<Value, String> {
        called(&self.offer(plugin, tool).await, args).await
    }
}

pub(crate) fn manifest(plugin: &str, tools: &[(&str, Value)]) -> Value {
    let tool = |(name, parameters): &(&str, Value)| {
        json!({"name": name, "description": "d", "module": "tools", "function": name,
            "parameters": parameters})
    };
    let tools: Vec<_> = tools.iter().map(tool).collect();
    json!({"schema_version": "1.0", "name": plugin, "version": "1.0.0", "description": "d", "tools": tools})
}

/// What a tool answers, or why it fails.
pub(crate) async fn called(offer: &Offer, args: Value) -> Result<Value, String> {
    match tried(offer, args, SOON).await {
        Ok(outcome) => value(&outcome),
        Err(error) => Err(format!("{}: {}", error.code, error.message)),
    }
}

/// The answer, of an MCP server its structured content; or the text of the failure.
pub(crate) fn value(outcome: &Outcome) -> Result<Value, String> {
    let answer = match &outcome.body {
        OutcomeBody::Value(json) => json.to_value(),
        OutcomeBody::Mcp(json) if outcome.is_error => json.to_value()["content"][0]["text"].clone(),
        OutcomeBody::Mcp(json) => json.to_value()["structuredContent"].clone(),
    };
    if outcome.is_error { Err(answer.as_str().unwrap().to_owned()) } else { Ok(answer) }
}

/// A call that is given up after a while.
pub(crate) async fn tried(
    offer: &Offer,
    args: Value,
    limit: Duration,
) -> Result<Outcome, ExecuteError> {
    let CatalogItem::Tool(tool) = &offer.item else { panic!() };
    let id = CallId(uuid::Uuid::now_v7());
    let key = ToolKey {
        org: Org::default(),
        source: tool::SourceName::new("plugin.p").unwrap(),
        name: tool.name.clone(),
    };
    let call = ToolCall {
        id,
        parent_id: None,
        resumption: None,
        unsolicited_input: None,
        tool_key: key,
        tool: Arc::clone(tool),
        arguments: CallArguments::parse(args.to_string()).unwrap(),
    };
    let caller = testkit::context::test_caller();
    let cancel = After(limit);
    let ctx = CallContext { cancel: &cancel, ..testkit::context::quiet_context(&caller) };
    let ticket = IntentReceipt::with_abandon_hook(id, drop);
    let step =
        offer.executor.execute(RecordedCall::from_receipt(&call, &ticket).unwrap(), &ctx).await?;
    let ExecutionState::Completed(outcome) = step else { panic!("it waits") };
    Ok(outcome)
}

/// Processes whose command line or working folder names this stage, the supervisors left out.
pub(crate) fn processes(home: &Path) -> usize {
    let home = home.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let of = |entry: &std::fs::DirEntry| {
        let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        cwd.to_string_lossy().starts_with(&home)
    };
    all.filter(of).count()
}
