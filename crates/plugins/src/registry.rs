//! Which plugins there are: the folders in the operator's folders, as they come and go.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox::{Tier, standing};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::plugin::{PluginFault, PluginState, Reloaded};
use tool::{Json, Source as _, SourceName};

use crate::Grant;
use crate::folder::{Copies, MANIFEST};
use crate::grant::Means;
use crate::plugin::{Looked, Names, PluginSource};
use crate::settings::{self, Unchanged};
use crate::version::Maker;

/// The folder of settings, beside others of the server's own (spec 3).
pub const SETTINGS: &str = "tool_settings";
/// Most plugins.
const MOST: usize = 200;
/// Between two looks for new folders and gone ones.
const LOOK: Duration = Duration::from_millis(500);
/// Looks in a row in which a folder is not there before it counts as gone: editors put files aside.
const GONE: u8 = 2;

/// All plugins.
#[derive(Debug)]
pub struct Registry {
    maker: Arc<Maker>,
    held: Arc<Held>,
    news: watch::Sender<u64>,
}

/// What plugins ask about.
#[derive(Debug, Default)]
struct Held {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    folders: Vec<PathBuf>,
    grants: BTreeMap<String, Grant>,
    plugins: BTreeMap<PathBuf, Plugin>,
    /// Which folder has a name.
    names: BTreeMap<String, PathBuf>,
}

#[derive(Debug)]
struct Plugin {
    source: Arc<PluginSource>,
    away: u8,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names for Held {
    fn claim(&self, name: &str, folder: &Path) -> Result<(), PathBuf> {
        let mut state = self.lock();
        if let Some(first) = state.names.get(name).filter(|first| *first != folder) {
            return Err(first.clone());
        }
        state.names.retain(|_, of| of != folder);
        state.names.insert(name.to_owned(), folder.to_owned());
        Ok(())
    }

    fn grant(&self, name: &str) -> Grant {
        self.lock().grants.get(name).cloned().unwrap_or_default()
    }
}

impl Registry {
    /// With no plugins yet. Tries what cage this machine has. Must be called where the tasks of plugins
    /// are to run.
    ///
    /// # Errors
    /// Where the folder for copies cannot be made.
    pub async fn open(means: Means) -> io::Result<Arc<Self>> {
        let maker = Arc::new(maker(means).await?);
        Ok(Arc::new(Self { maker, held: Arc::default(), news: watch::channel(0).0 }))
    }

    /// Takes the operator's folders, in their order, and what plugins are given.
    pub fn configure(&self, folders: Vec<PathBuf>, grants: BTreeMap<String, Grant>) {
        let mut state = self.held.lock();
        (state.folders, state.grants) = (folders, grants);
    }

    /// What plugins ask about.
    pub(crate) fn names(&self) -> Arc<dyn Names> {
        Arc::clone(&self.held) as Arc<dyn Names>
    }

    /// What makes versions.
    pub(crate) fn maker(&self) -> Arc<Maker> {
        Arc::clone(&self.maker)
    }

    /// Looks at code that no folder of plugins has.
    pub(crate) fn follow_beside(&self, source: &Arc<PluginSource>) {
        drop(self.maker.tasks.spawn_on(Arc::clone(source).watch(), &self.maker.runtime));
    }

    /// Looks for new folders and gone ones, for ever.
    pub async fn watch(&self) {
        loop {
            self.scan().await;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.maker.end.cancelled() => return std::future::pending().await,
            }
        }
    }

    /// Looks once; answers the sources that came and the names of those that went.
    pub async fn scan(&self) {
        let folders = self.held.lock().folders.clone();
        let found = tokio::task::spawn_blocking(move || found(&folders)).await.unwrap_or_default();
        let (came, gone) = self.follow(&found);
        let news = !came.is_empty() || !gone.is_empty();
        for source in came {
            drop(self.maker.tasks.spawn_on(source.watch(), &self.maker.runtime));
        }
        if !gone.is_empty() {
            self.retry_refused();
        }
        for source in gone {
            tracing::info!(folder = %source.folder().display(), "a plugin is gone");
            source.end();
        }
        if news {
            self.news.send_modify(|number| *number += 1);
        }
    }

    /// A name may be free now: whoever was refused tries again.
    fn retry_refused(&self) {
        for source in self.sources().into_iter().filter(|source| !source.refused().is_empty()) {
            let retry = async move {
                source.forget_content();
                let _looked = source.ask().await;
            };
            drop(self.maker.tasks.spawn_on(retry, &self.maker.runtime));
        }
    }

    fn follow(&self, found: &[PathBuf]) -> (Vec<Arc<PluginSource>>, Vec<Arc<PluginSource>>) {
        let mut state = self.held.lock();
        let (mut came, mut gone) = (Vec::new(), Vec::new());
        state.plugins.retain(|folder, plugin| {
            plugin.away = if found.contains(folder) { 0 } else { plugin.away + 1 };
            if plugin.away >= GONE {
                gone.push(Arc::clone(&plugin.source));
            }
            plugin.away < GONE
        });
        for source in &gone {
            state.names.retain(|_, of| of != source.folder());
        }
        for folder in found.iter().take(MOST) {
            if state.plugins.contains_key(folder) {
                continue;
            }
            let names = Arc::clone(&self.held) as Arc<dyn Names>;
            match PluginSource::new(folder, Arc::clone(&self.maker), names) {
                Ok(source) => {
                    let source = Arc::new(source);
                    came.push(Arc::clone(&source));
                    state.plugins.insert(folder.clone(), Plugin { source, away: 0 });
                }
                Err(error) => {
                    tracing::debug!(folder = %folder.display(), %error, "no name for a plugin");
                }
            }
        }
        (came, gone)
    }

    /// Changes when plugins come or go.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The plugins as sources.
    pub fn sources(&self) -> Vec<Arc<PluginSource>> {
        self.held.lock().plugins.values().map(|plugin| Arc::clone(&plugin.source)).collect()
    }

    /// How all of them stand.
    pub fn standing(&self) -> Vec<PluginState> {
        self.sources().iter().map(|source| source.standing()).collect()
    }

    fn named(&self, name: &str) -> Result<Arc<PluginSource>, PluginFault> {
        let all = self.sources();
        let found = all.into_iter().find(|source| source.standing().name == name);
        found.ok_or_else(|| PluginFault::Missing(name.to_owned()))
    }

    /// Names of those whose folder or settings are others than what was taken.
    pub async fn changes(&self) -> Vec<String> {
        let sources = self.sources();
        let differ = move || {
            let differ = sources.iter().filter(|source| source.differs());
            differ.map(|source| source.standing().name).collect()
        };
        tokio::task::spawn_blocking(differ).await.unwrap_or_default()
    }

    /// Has all look at once, or one; answers what came of it, and the sources to list anew.
    ///
    /// # Errors
    /// [`PluginFault::Missing`].
    pub async fn reload(
        &self,
        only: Option<&str>,
    ) -> Result<(Reloaded, Vec<SourceName>), PluginFault> {
        let before: Vec<_> = self.standing().into_iter().map(|state| state.name).collect();
        if only.is_none() {
            for _ in 0..GONE {
                self.scan().await;
            }
        }
        let sources = match only {
            Some(name) => vec![self.named(name)?],
            None => self.sources(),
        };
        let mut reloaded = Reloaded::default();
        let mut names = Vec::new();
        for source in &sources {
            let looked = source.ask().await;
            let name = source.standing().name;
            let new = !before.contains(&name);
            match looked {
                Looked::Refused => reloaded.failed.push(name),
                Looked::Taken => reloaded.reloaded.push(name),
                // It was refused before, and stands as it did.
                Looked::Same if !source.refused().is_empty() => reloaded.failed.push(name),
                Looked::Same if new => reloaded.reloaded.push(name),
                Looked::Same => {}
            }
            names.push(source.name().clone());
        }
        if only.is_none() {
            let now: Vec<_> = self.standing().into_iter().map(|state| state.name).collect();
            reloaded.reloaded.extend(before.into_iter().filter(|name| !now.contains(name)));
        }
        Ok((reloaded, names))
    }

    /// The settings of one, as they count.
    ///
    /// # Errors
    /// [`PluginFault::Missing`].
    pub fn settings(&self, name: &str) -> Result<Json, PluginFault> {
        self.named(name)?.settings().ok_or_else(|| PluginFault::Missing(name.to_owned()))
    }

    /// Writes changes of the settings of one, and takes them.
    ///
    /// # Errors
    /// [`PluginFault`].
    pub async fn set_settings(&self, name: &str, changes: &Json) -> Result<Json, PluginFault> {
        let source = self.named(name)?;
        let missing = || PluginFault::Missing(name.to_owned());
        let (name, schema) = source.schema().ok_or_else(missing)?;
        let (folder, changes) = (self.maker.means.settings.clone(), changes.value());
        let write = move || settings::change(&folder, &name, &schema, &changes);
        let written = tokio::task::spawn_blocking(write).await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(Unchanged::Unfit(why))) => return Err(PluginFault::Unfit(why)),
            Ok(Err(Unchanged::Unwritten(why))) => return Err(PluginFault::Unavailable(why)),
            Err(_) => return Err(PluginFault::Unavailable("it was given up".to_owned())),
        }
        let _looked = source.ask().await;
        source.settings().ok_or_else(missing)
    }

    /// Ends all processes; resolves when they are gone.
    pub async fn close(&self) {
        self.maker.end.cancel();
        for source in self.sources() {
            source.end();
        }
        self.maker.tasks.close();
        self.maker.tasks.wait().await;
    }
}

/// What makes versions. Tries what cage this machine has.
pub(crate) async fn maker(means: Means) -> io::Result<Maker> {
    let at = means.copies.clone();
    let tier = tier(&means).await;
    // There the superuser's processes become another user, who may not look into its folders.
    let passed = tier == Ok(Tier::Fenced) && rustix::process::geteuid().is_root();
    let open = move || if passed { Copies::passed(&at) } else { Copies::open(&at) };
    let copies = tokio::task::spawn_blocking(open).await;
    let copies = copies.map_err(|_| io::Error::other("it was given up"))??;
    Ok(Maker {
        means,
        copies,
        tier,
        runtime: tokio::runtime::Handle::current(),
        tasks: TaskTracker::new(),
        end: CancellationToken::new(),
    })
}

/// Folders with a manifest, immediately in the given ones, in their order. Blocks.
pub(crate) fn found(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let entries = entries.filter_map(Result::ok).take(10 * MOST);
        let mut here: Vec<_> = entries.map(|entry| entry.path()).collect();
        here.sort();
        let hidden = |path: &PathBuf| {
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with('.'))
        };
        here.retain(|path| !hidden(path) && path.join(MANIFEST).is_file());
        all.extend(here);
    }
    all
}

/// What cage there is, and is enough.
async fn tier(means: &Means) -> Result<Tier, String> {
    let standing = standing(&means.launcher).await;
    match standing.tier() {
        Some(tier) if tier >= means.floor => Ok(tier),
        Some(_) => Err(standing.lacks(Tier::Whole).unwrap_or_default()),
        None => {
            let why = standing.lacks(Tier::Fenced).or_else(|| standing.lacks(Tier::Whole));
            Err(why.unwrap_or_default())
        }
    }
}
