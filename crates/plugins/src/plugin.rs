//! One plugin: looks at its folder, takes what changed and is sound, and offers it as a source.

mod follow;
mod shown;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::plugin::PREFIX;
use tool::{Digest, NameError, Problem, SourceName};

use crate::Grant;
use crate::attached::Given;
use crate::folder::{Content, ContentError, MANIFEST, Print};
use crate::manifest::Manifest;
use crate::settings::{self, Settings};
use crate::version::{Maker, Version};
use follow::{Again, kept, loses};

/// Between two looks at a folder.
const LOOK: Duration = Duration::from_millis(300);
/// Between two readings that must be the same before a change is taken.
const STILL: Duration = Duration::from_millis(80);
/// Readings until one is taken that does not hold still.
const READINGS: usize = 10;

/// What a plugin is known by, and who may speak for a name.
pub(crate) trait Names: Send + Sync + std::fmt::Debug {
    /// Whether the plugin of this folder may have the name; else which folder has it.
    fn claim(&self, name: &str, folder: &Path) -> Result<(), PathBuf>;
    /// What the operator gives it.
    fn grant(&self, name: &str) -> Grant;
}

/// A plugin's folder as a source.
#[derive(Debug)]
pub struct PluginSource {
    name: SourceName,
    folder: PathBuf,
    maker: Arc<Maker>,
    names: Arc<dyn Names>,
    /// What is said of it elsewhere, where it has no manifest.
    given: Mutex<Option<Arc<Given>>>,
    state: Mutex<State>,
    /// Counts the states; 0 before the first.
    revision: watch::Sender<u64>,
    asked: watch::Sender<u64>,
    done: watch::Sender<u64>,
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    version: Option<Version>,
    /// What of the last change was not taken, and why.
    refused: Vec<Problem>,
    /// What was looked at last, and came to nothing new.
    seen: Seen,
    print: Print,
    /// When it is tried again, where nothing started.
    again: Again,
}

/// What a version is made of, and a reason to make another where it differs.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    content: Option<Digest>,
    settings: Option<Vec<u8>>,
    grant: Grant,
}

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    Same,
    Taken,
    Refused,
}

impl PluginSource {
    /// The plugin in `folder`, whose last part names the source.
    ///
    /// # Errors
    /// Where that is no name of a source.
    pub(crate) fn new(
        folder: &Path,
        maker: Arc<Maker>,
        names: Arc<dyn Names>,
    ) -> Result<Self, NameError> {
        let part = folder.file_name().unwrap_or_default().to_string_lossy();
        SourceName::new(&part)?;
        let name = SourceName::new(format!("{PREFIX}{part}"))?;
        Ok(Self::made(name, folder, (maker, names)))
    }

    fn made(name: SourceName, folder: &Path, (maker, names): (Arc<Maker>, Arc<dyn Names>)) -> Self {
        let channel = || watch::channel(0).0;
        Self {
            name,
            folder: folder.to_owned(),
            closed: maker.end.child_token(),
            maker,
            names,
            given: Mutex::default(),
            state: Mutex::default(),
            revision: channel(),
            asked: channel(),
            done: channel(),
        }
    }

    /// Code of the source `name`, of which is said elsewhere what there is.
    pub(crate) fn attached(
        name: SourceName,
        folder: &Path,
        with: (Arc<Maker>, Arc<dyn Names>),
    ) -> Self {
        Self::made(name, folder, with)
    }

    /// Takes what is said of it; whether that is the first word.
    pub(crate) fn give(&self, given: Arc<Given>) -> bool {
        let mut place = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        place.replace(given).is_none()
    }

    /// Why the last change was not taken.
    pub(crate) fn refused(&self) -> Vec<Problem> {
        self.lock().refused.clone()
    }

    /// All of the folder. Blocks.
    fn whole(&self) -> Result<Content, ContentError> {
        let mut content = Content::read(&self.folder)?;
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(given) = given {
            given.lay(&mut content);
        }
        Ok(content)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for ever, and at once where it is asked to.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut asked = self.asked.subscribe();
        loop {
            let number = *asked.borrow_and_update();
            let look = self.look(number > 0 && *self.done.borrow() < number);
            tokio::select! {
                _looked = look => {}
                () = self.closed.cancelled() => return,
            }
            self.done.send_replace(number.max(1));
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = asked.changed() => {}
                (session, now) = self.heard() => self.relist(&session, now).await,
                () = self.closed.cancelled() => return,
            }
        }
    }

    /// Has it look now; resolves when that is done.
    pub(crate) async fn ask(&self) -> Looked {
        let before = (*self.revision.borrow(), self.lock().refused.clone());
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked = (*asked).max(*self.done.borrow()) + 1;
            number = *asked;
        });
        let mut done = self.done.subscribe();
        tokio::select! {
            _ = done.wait_for(|done| *done >= number) => {}
            () = self.closed.cancelled() => {}
        }
        let after = (*self.revision.borrow(), self.lock().refused.clone());
        if !after.1.is_empty() && before != after {
            Looked::Refused
        } else if before.0 == after.0 {
            Looked::Same
        } else {
            Looked::Taken
        }
    }

    /// Has the next look take the content even where it is the same: what was refused may be taken now.
    pub(crate) fn forget_content(&self) {
        self.lock().seen = Seen::default();
    }

    /// Whether the folder or the settings are others than what was looked at last. Blocks.
    pub(crate) fn differs(&self) -> bool {
        let seen = self.lock().seen.clone();
        let content = self.whole().ok().map(|content| content.digest);
        content != seen.content || self.written() != seen.settings
    }

    fn written(&self) -> Option<Vec<u8>> {
        let name = self.lock().version.as_ref().map(|version| version.manifest.name.clone())?;
        settings::written(&self.maker.means.settings, &name)
    }

    /// Looks once: at names and times, and where these say so at the content.
    async fn look(self: &Arc<Self>, whole: bool) -> Looked {
        let here = Arc::clone(self);
        let worth = tokio::task::spawn_blocking(move || here.worth(whole)).await;
        if !worth.unwrap_or(false) {
            return Looked::Same;
        }
        let Some(content) = self.still().await else { return Looked::Same };
        self.take(content).await
    }

    /// Whether the folder may have changed. Blocks.
    fn worth(&self, whole: bool) -> bool {
        let now = self.maker.means.clock.wall();
        let print = Print::of(&self.folder, now).unwrap_or_default();
        let settings = self.written();
        let name = self.lock().version.as_ref().map(|version| version.manifest.name.clone());
        let grant = name.map(|name| self.names.grant(&name));
        let mut state = self.lock();
        if state.again.due(self.maker.means.clock.mono()) {
            state.seen = Seen::default();
        }
        let first = state.seen == Seen::default();
        let other =
            settings != state.seen.settings || grant.is_some_and(|grant| grant != state.seen.grant);
        let worth = whole || first || other || print.fresh || print != state.print;
        state.print = print;
        worth
    }

    /// The content, once it is the same twice.
    async fn still(self: &Arc<Self>) -> Option<Result<Content, String>> {
        let mut last = self.read().await?;
        for _ in 0..READINGS {
            if last.as_ref().is_ok_and(|content| self.is_seen(content)) {
                return Some(last);
            }
            tokio::time::sleep(STILL).await;
            let next = self.read().await?;
            let same = match (&last, &next) {
                (Ok(last), Ok(next)) => last.digest == next.digest,
                (Err(last), Err(next)) => last == next,
                _ => false,
            };
            last = next;
            if same {
                break;
            }
        }
        Some(last)
    }

    fn is_seen(&self, content: &Content) -> bool {
        self.lock().seen.content == Some(content.digest)
    }

    async fn read(self: &Arc<Self>) -> Option<Result<Content, String>> {
        let here = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || here.whole()).await;
        Some(read.ok()?.map_err(|error| error.to_string()))
    }

    /// Makes a version of it, and has it take the place of the one there is, where it may.
    async fn take(&self, content: Result<Content, String>) -> Looked {
        let place = self.folder.join(MANIFEST).display().to_string();
        let content = match content {
            Ok(content) => content,
            Err(why) => return self.refuse(None, Problem::new(place, why)),
        };
        let digest = content.digest;
        let manifest = match Manifest::of_content(&content, &place) {
            Ok(manifest) => manifest,
            Err(problem) => return self.refuse(Some(digest), problem),
        };
        if let Err(first) = self.names.claim(&manifest.name, &self.folder) {
            let told = format!(
                "the plugin `{}` is there already, in `{}`",
                manifest.name,
                first.display()
            );
            return self.refuse(
                Some(digest),
                Problem::new(place, told).fix("rename one; the first stays"),
            );
        }
        let (folder, name) = (self.maker.means.settings.clone(), manifest.name.clone());
        let read = tokio::task::spawn_blocking(move || Settings::read(&folder, &name)).await;
        let settings = read.unwrap_or_default();
        let grant = self.names.grant(&manifest.name);
        let seen =
            Seen { content: Some(digest), settings: settings.text.clone(), grant: grant.clone() };
        if let Some(looked) = self.known(&seen) {
            return looked;
        }
        let version = self.maker.make(&content, &place, (manifest, settings), &grant).await;
        self.settle(version, seen)
    }

    /// What needs no new version: what was looked at last, or what runs.
    fn known(&self, seen: &Seen) -> Option<Looked> {
        let mut state = self.lock();
        if state.seen == *seen {
            return Some(Looked::Same);
        }
        let runs = state.version.as_ref().is_some_and(|it| {
            Some(it.digest) == seen.content
                && it.settings.text == seen.settings
                && it.grant == seen.grant
        });
        if runs {
            state.seen = seen.clone();
            state.refused = Vec::new();
            drop(state);
            self.tell();
        }
        runs.then_some(Looked::Taken)
    }

    fn settle(&self, version: Version, seen: Seen) -> Looked {
        let now = self.maker.means.clock.mono();
        let mut state = self.lock();
        state.seen = seen;
        state.again.note(version.unstarted, now);
        let worse =
            state.version.as_ref().is_some_and(|last| !last.broken || loses(last, &version));
        if version.broken && worse {
            state.refused = kept(&version.problems, state.version.as_ref());
            drop(state);
            self.tell();
            return Looked::Refused;
        }
        tracing::info!(
            plugin = version.manifest.name, content = %version.digest, tools = version.offers.len(),
            "a plugin has a new version"
        );
        let old = state.version.replace(version);
        state.refused = Vec::new();
        drop(state);
        // Its process ends when the last call of it does; not under the lock.
        drop(old);
        self.tell();
        Looked::Taken
    }

    fn refuse(&self, digest: Option<Digest>, problem: Problem) -> Looked {
        let mut state = self.lock();
        let refused = kept(&[problem], state.version.as_ref());
        let news = refused != state.refused || digest != state.seen.content;
        state.seen.content = digest;
        state.refused = refused;
        drop(state);
        if news {
            self.tell();
            Looked::Refused
        } else {
            Looked::Same
        }
    }

    fn tell(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Ends it: nothing is looked at any more, and its process goes with its last call.
    pub(crate) fn end(&self) {
        self.closed.cancel();
        let old = self.lock().version.take();
        drop(old);
    }
}
