//! The artifact store in a directory: results that are too large to return inline, for their caller
//! only and for a limited time.
//!
//! Ownership is known in memory only, and the directory is emptied at start: nothing outlives the
//! process. Bounded in bytes, count and age.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use bytes::Bytes;
use tool::artefact::{ArtefactError, Artefacts, Kept, Part};
use tool::{Boxed, Caller, Clock, Mono, Wall};

/// Limits of the artifact store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtefactBounds {
    /// Maximum total size in bytes. Default 256 MiB.
    pub bytes: u64,
    /// Maximum number of artifacts. Default 10,000.
    pub count: usize,
    /// Maximum size per root key in bytes, above which its own oldest are evicted. Default 64 MiB.
    pub bytes_of_key: u64,
    /// Maximum number of artifacts per root key. Default 2,500.
    pub count_of_key: usize,
    /// Lifetime of an artifact. Default one hour.
    pub life: Duration,
}

impl Default for ArtefactBounds {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            count: 10_000,
            bytes_of_key: 64 << 20,
            count_of_key: 2_500,
            life: Duration::from_hours(1),
        }
    }
}

/// Stores artifacts in one directory.
#[derive(Debug, Clone)]
pub struct FileArtefacts {
    dir: PathBuf,
    bounds: ArtefactBounds,
    clock: Arc<dyn Clock>,
    kept: Arc<Mutex<Index>>,
}

#[derive(Debug, Default)]
struct Index {
    by_id: HashMap<String, Entry>,
    /// Ids in order of age, oldest first.
    order: VecDeque<String>,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    org: String,
    subject: String,
    /// Id of the key that made the call.
    key: String,
    /// Root key that it counts for.
    root: String,
    bytes: u64,
    since: Mono,
}

impl FileArtefacts {
    /// Opens the store in `dir`, which is created if missing; files of an earlier process are
    /// removed.
    ///
    /// # Errors
    /// If it cannot be created or emptied.
    pub fn open(dir: &Path, bounds: ArtefactBounds, clock: Arc<dyn Clock>) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if is_id(&path.file_name().unwrap_or_default().to_string_lossy()) {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { dir: dir.to_owned(), bounds, clock, kept: Arc::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts expired artifacts, and the oldest until there is space; their files are removed too.
    fn make_room(&self, index: &mut Index, wanted: u64) {
        let now = self.clock.mono();
        while let Some(id) = index.order.front() {
            let over = index.by_id.get(id).is_none_or(|it| now.since(it.since) >= self.bounds.life);
            let full = index.bytes + wanted > self.bounds.bytes
                || (wanted > 0 && index.by_id.len() >= self.bounds.count);
            if !over && !full {
                return;
            }
            let Some(id) = index.order.pop_front() else { return };
            self.forget(index, &id);
        }
    }

    /// Evicts the oldest artifacts of this root key until an artifact of this size fits its limits.
    fn make_room_of_key(&self, index: &mut Index, root: &str, wanted: u64) {
        let own = |entry: &&Entry| entry.root == root;
        let mut bytes: u64 = index.by_id.values().filter(own).map(|entry| entry.bytes).sum();
        let mut count = index.by_id.values().filter(own).count();
        while bytes + wanted > self.bounds.bytes_of_key || count >= self.bounds.count_of_key {
            let oldest =
                index.order.iter().position(|id| index.by_id.get(id).is_some_and(|it| own(&it)));
            let Some(id) = oldest.and_then(|place| index.order.remove(place)) else { return };
            bytes -= self.forget(index, &id);
            count -= 1;
        }
    }

    /// Removes an entry with its file; returns its size.
    fn forget(&self, index: &mut Index, id: &str) -> u64 {
        let bytes = index.by_id.remove(id).map_or(0, |entry| entry.bytes);
        index.bytes -= bytes;
        if let Err(error) = fs::remove_file(self.dir.join(id)) {
            tracing::warn!(%error, "an artefact that is over cannot be removed");
        }
        bytes
    }

    fn keep_now(&self, owner: &Caller, body: &[u8]) -> Result<Kept, ArtefactError> {
        let told = |what: String| ArtefactError::Unavailable(what);
        let bytes = body.len() as u64;
        if bytes > self.bounds.bytes {
            return Err(told(format!("{bytes} bytes cannot be kept, {} can", self.bounds.bytes)));
        }
        let mut random = [0; 16];
        rand::fill(&mut random).map_err(|_| told("the system gives no random numbers".into()))?;
        let id = format!("art_{:032x}", u128::from_be_bytes(random));
        let root = format!("{}/{}", owner.org.as_str(), owner.root_key());
        let mut index = self.lock();
        self.make_room_of_key(&mut index, &root, bytes);
        self.make_room(&mut index, bytes);
        let path = self.dir.join(&id);
        let written = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(body));
        if let Err(error) = written {
            fs::remove_file(&path).ok();
            return Err(told(format!("the answer cannot be kept: {error}")));
        }
        let (org, subject, key) = (owner.org.to_string(), owner.subject.clone(), owner.key.clone());
        let entry = Entry { org, subject, key, root, bytes, since: self.clock.mono() };
        index.bytes += bytes;
        index.order.push_back(id.clone());
        index.by_id.insert(id.clone(), entry);
        let life = u64::try_from(self.bounds.life.as_millis()).unwrap_or(u64::MAX);
        let expires = Wall(self.clock.wall().0.saturating_add(life));
        Ok(Kept { id, bytes, expires })
    }

    fn read_now(
        &self,
        owner: &Caller,
        id: &str,
        (from, most): (u64, usize),
    ) -> Result<Part, ArtefactError> {
        let (file, total) = {
            let mut index = self.lock();
            self.make_room(&mut index, 0);
            // A narrower key of the same subject may not have the tool that returned this result.
            let root = format!("{}/{}", owner.org.as_str(), owner.key);
            let ours = |it: &&Entry| {
                let same = it.org == owner.org.as_str() && it.subject == owner.subject;
                same && (it.key == owner.key || it.root == root)
            };
            let entry = index.by_id.get(id).filter(ours).ok_or(ArtefactError::Missing)?;
            (File::open(self.dir.join(id)), entry.bytes)
        };
        let told = |error: io::Error| {
            ArtefactError::Unavailable(format!("the answer cannot be read: {error}"))
        };
        let left = usize::try_from(total.saturating_sub(from)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(most)];
        if bytes.is_empty() {
            return Ok(Part { bytes: Bytes::new(), total });
        }
        file.map_err(told)?.read_exact_at(&mut bytes, from).map_err(told)?;
        Ok(Part { bytes: bytes.into(), total })
    }

    /// Runs `work` on a thread that may block on the disk.
    async fn away<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ArtefactError> + Send + 'static,
    ) -> Result<T, ArtefactError> {
        let own = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&own)).await;
        done.unwrap_or_else(|_| Err(ArtefactError::Unavailable("a fault in Toolkeep".to_owned())))
    }
}

fn is_id(name: &str) -> bool {
    name.strip_prefix("art_").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl Artefacts for FileArtefacts {
    fn keep<'a>(
        &'a self,
        owner: &'a Caller,
        body: Bytes,
    ) -> Boxed<'a, Result<Kept, ArtefactError>> {
        let owner = owner.clone();
        Box::pin(self.away(move |own| own.keep_now(&owner, &body)))
    }

    fn read<'a>(
        &'a self,
        owner: &'a Caller,
        id: &'a str,
        range: (u64, usize),
    ) -> Boxed<'a, Result<Part, ArtefactError>> {
        let (owner, id) = (owner.clone(), id.to_owned());
        Box::pin(self.away(move |own| own.read_now(&owner, &id, range)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use testkit::clock::FakeClock;
    use tool::Caller;
    use tool::artefact::{ArtefactError, Artefacts as _};

    use super::{ArtefactBounds, FileArtefacts};

    fn caller(subject: &str) -> Caller {
        Caller { subject: subject.to_owned(), ..testkit::context::caller() }
    }

    fn bounds(bytes: u64) -> ArtefactBounds {
        ArtefactBounds { bytes, bytes_of_key: bytes, ..ArtefactBounds::default() }
    }

    #[tokio::test]
    async fn an_artefact_is_its_callers_alone() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FakeClock::default());
        let kept = FileArtefacts::open(dir.path(), bounds(1_000), clock.clone()).unwrap();
        let one = kept.keep(&caller("ann"), b"0123456789".as_slice().into()).await.unwrap();
        let part = kept.read(&caller("ann"), &one.id, (3, 4)).await.unwrap();
        assert_eq!((part.bytes.as_ref(), part.total), (b"3456".as_slice(), 10));
        assert!(kept.read(&caller("ann"), &one.id, (10, 4)).await.unwrap().bytes.is_empty());
        assert!(kept.read(&caller("ann"), &one.id, (u64::MAX, 4)).await.unwrap().bytes.is_empty());
        for (who, id) in [("bob", one.id.as_str()), ("ann", "art_00"), ("ann", "../store.db")] {
            assert_eq!(kept.read(&caller(who), id, (0, 1)).await, Err(ArtefactError::Missing));
        }
        clock.advance(Duration::from_hours(1));
        assert_eq!(kept.read(&caller("ann"), &one.id, (0, 1)).await, Err(ArtefactError::Missing));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// A key that was delegated from a wider one read what that one's tools had answered.
    #[tokio::test]
    async fn a_narrower_key_of_its_subject_reads_none_of_a_wider_ones() {
        let dir = tempfile::tempdir().unwrap();
        let kept =
            FileArtefacts::open(dir.path(), bounds(1_000), Arc::<FakeClock>::default()).unwrap();
        let key = |key: &str, root: Option<&str>| Caller {
            key: key.to_owned(),
            root: root.map(str::to_owned),
            ..caller("ann")
        };
        let (wide, narrow, other) = (key("a", None), key("b", Some("a")), key("c", None));
        let keep = async |who: &Caller| kept.keep(who, vec![7; 4].into()).await.unwrap().id;
        let read = async |who: &Caller, id: &str| kept.read(who, id, (0, 4)).await;
        let (wides, narrows) = (keep(&wide).await, keep(&narrow).await);
        for who in [&narrow, &other] {
            assert_eq!(read(who, &wides).await, Err(ArtefactError::Missing));
        }
        assert_eq!(read(&other, &narrows).await, Err(ArtefactError::Missing));
        // The controls: each reads its own, and the first key those of the keys delegated from it.
        for (who, id) in [(&wide, &wides), (&narrow, &narrows), (&wide, &narrows)] {
            assert_eq!(read(who, id).await.unwrap().total, 4);
        }
    }

    #[tokio::test]
    async fn the_oldest_make_room_and_a_start_begins_empty() {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<FakeClock> = Arc::default();
        let kept = FileArtefacts::open(dir.path(), bounds(100), clock.clone()).unwrap();
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(kept.keep(&caller("ann"), vec![7; 40].into()).await.unwrap().id);
        }
        let there = async |id: &String| kept.read(&caller("ann"), id, (0, 1)).await.is_ok();
        assert!(!there(&ids[2]).await && there(&ids[3]).await && there(&ids[4]).await);
        let error = kept.keep(&caller("ann"), vec![7; 101].into()).await.unwrap_err();
        assert!(matches!(error, ArtefactError::Unavailable(_)));
        std::fs::write(dir.path().join("other"), "not ours").unwrap();
        drop(FileArtefacts::open(dir.path(), bounds(100), clock).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    /// A key, and one that was delegated from it for another subject, count together.
    #[tokio::test]
    async fn one_key_makes_room_among_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let bounds = ArtefactBounds { bytes_of_key: 80, ..bounds(200) };
        let kept = FileArtefacts::open(dir.path(), bounds, Arc::<FakeClock>::default()).unwrap();
        let key = |subject: &str, key: &str, root: Option<&str>| Caller {
            key: key.to_owned(),
            root: root.map(str::to_owned),
            ..caller(subject)
        };
        let keep = async |who: &Caller| kept.keep(who, vec![7; 40].into()).await.unwrap().id;
        let there = async |who: &Caller, id: &str| kept.read(who, id, (0, 1)).await.is_ok();
        let (ann, bob) = (key("ann", "a", None), key("bob", "b", None));
        let delegated = key("eve", "c", Some("a"));
        let theirs = keep(&bob).await;
        let first = keep(&ann).await;
        let mut last = String::new();
        for _ in 0..6 {
            last = keep(&delegated).await;
        }
        assert!(!there(&ann, &first).await && there(&delegated, &last).await);
        // The control: what is another's stays.
        assert!(there(&bob, &theirs).await);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
