//! Folders of plugins as sources: added and taken away as the folders come and go.

mod code;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use egress::Egress;
use gateway::{OnBehalf, PrincipalExecutor, PrincipalPort};
use intake::{Intake, Sourced};
use plugins::{
    Means, PluginSource, PluginTools, Registry, SETTINGS, listed_plugins, reloaded_plugins,
};
use sandbox::process::Launcher;
use tool::plugin::{PluginFault, PluginState, Plugins, Reloaded};
use tool::{Boxed, Clock, Context, ExecuteError, Granted, Json, Source, SourceName, Step, Trust};

use cli_core::failure::Failure;
use code::FileCode;
use config::Config;

/// How long the process of a plugin may take to be ready.
const READY: Duration = Duration::from_secs(10);
/// Where versions are copied to, in the data directory.
const COPIES: &str = "plugins";

/// `list_plugins` and `reload_plugins`: the plugins, as the caller of a call may see and change them.
#[derive(Debug)]
enum PluginCall {
    List(Arc<Plugged>),
    Reload(Arc<Plugged>),
}

impl PluginCall {
    async fn run(&self, caller: OnBehalf<'_>, call: Granted<'_>) -> Result<Step, ExecuteError> {
        let OnBehalf { principal, gateway } = caller;
        let outcome = match self {
            Self::List(plugins) => {
                listed_plugins(call.call(), gateway.visible_plugins(principal, &**plugins))
            }
            Self::Reload(plugins) => {
                let done = gateway.reload_plugins(principal, &**plugins, None).await;
                let done = done.map_err(|it| ExecuteError::before(it.code, it.message))?;
                reloaded_plugins(&done)
            }
        };
        Ok(Step::Done(outcome))
    }
}

impl PrincipalExecutor for PluginCall {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        call: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(caller, call))
    }
}

/// The plugins of this server.
#[derive(Debug)]
pub(crate) struct Plugged {
    registry: Arc<Registry>,
    trust: Mutex<Trust>,
    /// Those that are sources now.
    known: Mutex<BTreeSet<SourceName>>,
    /// What lists them. Weak: it holds their sources.
    intake: Weak<Intake>,
}

impl Plugged {
    /// Looks for no plugin yet.
    pub(crate) async fn open(
        config: &Config,
        data: &Path,
        launcher: Launcher,
        egress: &Egress,
        clock: &Arc<dyn Clock>,
        intake: &Arc<Intake>,
    ) -> Result<Arc<Self>, Failure> {
        let settings = config.plugins.settings.clone();
        let means = Means {
            launcher,
            floor: config.server.cage,
            // Connections of nobody else's.
            egress: Some(egress.apart()),
            clock: Arc::clone(clock),
            copies: data.join(COPIES),
            settings: settings.unwrap_or_else(|| data.join(SETTINGS)),
            python: config.plugins.python.clone(),
            ready: READY,
        };
        let registry = Registry::open(means).await.map_err(super::fault("the plugins"))?;
        let plugged = Self {
            registry,
            trust: Mutex::new(config.plugins.trust),
            known: Mutex::default(),
            intake: Arc::downgrade(intake),
        };
        plugged.take(config);
        plugged.registry.scan().await;
        Ok(Arc::new(plugged))
    }

    /// What runs the code of the tool file of the source `name`.
    pub(crate) fn beside(&self, name: &SourceName, path: &Path) -> Arc<FileCode> {
        Arc::new(FileCode::new(&self.registry, name, path))
    }

    /// Takes a new configuration.
    pub(crate) fn take(&self, config: &Config) {
        let plugins = &config.plugins;
        self.registry.configure(plugins.folders.clone(), plugins.grants.clone());
        *self.trust.lock().unwrap_or_else(PoisonError::into_inner) = plugins.trust;
    }

    /// A source for each plugin, and one for the tools that tell of them where there are any folders.
    pub(crate) fn sourced(self: &Arc<Self>, config: &Config) -> Vec<Sourced> {
        let tools = (!config.plugins.folders.is_empty()).then(|| {
            let list = PrincipalPort(PluginCall::List(Arc::clone(self)));
            let reload = PrincipalPort(PluginCall::Reload(Arc::clone(self)));
            Sourced {
                source: Arc::new(PluginTools::new(Arc::new(list), Arc::new(reload))),
                kind: "plugins",
                trust: Trust::Full,
                durability: None,
                poll: None,
                fingerprint: 0,
            }
        });
        tools.into_iter().chain(self.each()).collect()
    }

    fn each(&self) -> Vec<Sourced> {
        let trust = *self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = self.registry.sources();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = sources.iter().map(|source| source.name().clone()).collect();
        let sourced = |source: Arc<PluginSource>| Sourced {
            // Another object, as of a folder that was gone for a while, is another source.
            fingerprint: (Arc::as_ptr(&source) as usize as u64) ^ trust as u64,
            source: source as Arc<dyn Source>,
            kind: "plugin",
            trust,
            durability: None,
            poll: None,
        };
        sources.into_iter().map(sourced).collect()
    }

    /// Has the catalog follow: new ones added, gone ones taken away.
    fn follow_now(&self) {
        let Some(intake) = self.intake.upgrade() else { return };
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = self.each();
        let names: BTreeSet<_> = now.iter().map(|it| it.source.name().clone()).collect();
        for gone in before.difference(&names) {
            intake.remove(gone);
        }
        for sourced in now {
            intake.add(Some(sourced));
        }
    }

    /// Follows the folders, for ever.
    pub(crate) async fn follow(&self) {
        let news = async {
            let mut news = self.registry.news();
            loop {
                news.borrow_and_update();
                self.follow_now();
                if news.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(news, self.registry.watch());
    }

    async fn reloaded(&self, only: Option<&str>) -> Result<Reloaded, PluginFault> {
        let (done, sources) = self.registry.reload(only).await?;
        self.follow_now();
        if let Some(intake) = self.intake.upgrade() {
            for source in &sources {
                // One that went away meanwhile has nothing to list.
                let _gone = intake.refresh(Some(source)).await;
            }
        }
        Ok(done)
    }

    async fn set(&self, name: &str, changes: &Json) -> Result<Json, PluginFault> {
        let settings = self.registry.set_settings(name, changes).await?;
        self.reloaded(Some(name)).await?;
        Ok(settings)
    }

    /// Ends all processes.
    pub(crate) async fn close(&self) {
        self.registry.close().await;
    }
}

impl Plugins for Plugged {
    fn plugins(&self) -> Vec<PluginState> {
        self.registry.standing()
    }

    fn changes(&self) -> Boxed<'_, Vec<String>> {
        Box::pin(self.registry.changes())
    }

    fn reload<'a>(&'a self, only: Option<&'a str>) -> Boxed<'a, Result<Reloaded, PluginFault>> {
        Box::pin(self.reloaded(only))
    }

    fn settings(&self, name: &str) -> Result<Json, PluginFault> {
        self.registry.settings(name)
    }

    fn set_settings<'a>(
        &'a self,
        name: &'a str,
        changes: &'a Json,
    ) -> Boxed<'a, Result<Json, PluginFault>> {
        Box::pin(self.set(name, changes))
    }
}
