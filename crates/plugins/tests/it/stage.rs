//! A registry with a folder of plugins, and callers of their tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use egress::{Egress, EgressSettings, Roots};
use plugins::{Grant, Means, Registry};
use sandbox::Tier;
use sandbox::process::Launcher;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tool::executor::Cancel;
use tool::plugin::PluginState;
use tool::{
    Args, Body, Boxed, Call, CallId, Clock, Context, ExecuteError, Granted, Item, Listing, Mono,
    Offer, Org, Outcome, Source as _, Step, Ticket, ToolKey, Wall,
};

/// The longest that anything here may take.
pub(crate) const SOON: Duration = Duration::from_mins(1);

#[derive(Debug)]
struct Ticking(Instant);
impl Clock for Ticking {
    fn wall(&self) -> Wall {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Wall(u64::try_from(since.as_millis()).unwrap())
    }
    fn mono(&self) -> Mono {
        Mono(self.0.elapsed())
    }
}

/// Fires after a while.
struct After(Duration);
impl Cancel for After {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(tokio::time::sleep(self.0))
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}

pub(crate) struct Stage {
    pub(crate) home: tempfile::TempDir,
    pub(crate) registry: Arc<Registry>,
    _watching: AbortOnDropHandle<()>,
}

fn launcher() -> Launcher {
    Launcher::new(PathBuf::from(env!("CARGO_BIN_EXE_plugins-launch")), vec!["__launch".into()])
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(BTreeMap::new()).await
    }

    pub(crate) async fn with(grants: BTreeMap<String, Grant>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let roots = Roots { native: false, bundled: false, extra: Vec::new() };
        let egress = Egress::new(EgressSettings { roots, ..EgressSettings::default() }).unwrap();
        let means = Means {
            launcher: launcher(),
            floor: Tier::Whole,
            egress: Some(egress),
            clock: Arc::new(Ticking(Instant::now())),
            copies: home.path().join("copies"),
            settings: home.path().join("tool_settings"),
            python: None,
            ready: Duration::from_secs(10),
        };
        let registry = Registry::open(means).await.unwrap();
        registry.configure(vec![home.path().join("plugins")], grants);
        let watched = Arc::clone(&registry);
        let watching = tokio::spawn(async move { watched.watch().await });
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

    pub(crate) async fn listing(&self, plugin: &str) -> Listing {
        let name = format!("plugin.{plugin}");
        let sources = self.registry.sources();
        let source = sources.iter().find(|source| source.name().as_str() == name);
        source.unwrap_or_else(|| panic!("no {name}")).list().await.unwrap()
    }

    pub(crate) async fn offer(&self, plugin: &str, tool: &str) -> Offer {
        let listing = self.listing(plugin).await;
        let name = format!("{plugin}.{tool}");
        let fits =
            |offer: &Offer| matches!(&offer.item, Item::Tool(it) if it.name.as_str() == name);
        let found = listing.offers.into_iter().find(fits);
        found.unwrap_or_else(|| panic!("no {name}: {:?}", listing.problems))
    }

    pub(crate) fn standing(&self, plugin: &str) -> PluginState {
        let all = self.registry.standing();
        all.into_iter().find(|it| it.name == plugin).unwrap_or_else(|| panic!("no {plugin}"))
    }

    /// Looks at all folders now.
    pub(crate) async fn reload(&self) -> (Vec<String>, Vec<String>) {
        let (done, _) = self.registry.reload(None).await.unwrap();
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
        Body::Value(json) => json.value(),
        Body::Mcp(json) if outcome.is_error => json.value()["content"][0]["text"].clone(),
        Body::Mcp(json) => json.value()["structuredContent"].clone(),
    };
    if outcome.is_error { Err(answer.as_str().unwrap().to_owned()) } else { Ok(answer) }
}

/// A call that is given up after a while.
pub(crate) async fn tried(
    offer: &Offer,
    args: Value,
    limit: Duration,
) -> Result<Outcome, ExecuteError> {
    let Item::Tool(tool) = &offer.item else { panic!() };
    let id = CallId(uuid::Uuid::now_v7());
    let key = ToolKey {
        org: Org::default(),
        source: tool::SourceName::new("plugin.p").unwrap(),
        name: tool.name.clone(),
    };
    let call = Call {
        id,
        parent: None,
        continues: None,
        unasked: None,
        key,
        tool: Arc::clone(tool),
        args: Args::check(args.to_string()).unwrap(),
    };
    let caller = testkit::context::caller();
    let cancel = After(limit);
    let ctx = Context { cancel: &cancel, ..testkit::context::context(&caller) };
    let ticket = Ticket::issue(id, drop);
    let step = offer.executor.execute(Granted::of(&call, &ticket).unwrap(), &ctx).await?;
    let Step::Done(outcome) = step else { panic!("it waits") };
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
