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
use tool::artifact::{ArtifactChunk, ArtifactError, ArtifactStore, ByteRange, StoredArtifact};
use tool::clock::duration_millis;
use tool::{BoxFuture, Caller, Clock, MonotonicTime, WallTime};

/// Limits of the artifact store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Maximum total size in bytes. Default 256 MiB.
    pub max_bytes: u64,
    /// Maximum number of artifacts. Default 10,000.
    pub max_count: usize,
    /// Maximum size per root key in bytes, above which its own oldest are evicted. Default 64 MiB.
    pub max_bytes_per_key: u64,
    /// Maximum number of artifacts per root key. Default 2,500.
    pub max_count_per_key: usize,
    /// Lifetime of an artifact. Default one hour.
    pub ttl: Duration,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            max_count: 10_000,
            max_bytes_per_key: 64 << 20,
            max_count_per_key: 2_500,
            ttl: Duration::from_hours(1),
        }
    }
}

/// Stores artifacts in one directory.
#[derive(Debug, Clone)]
pub struct FileArtifactStore {
    dir: PathBuf,
    limits: ArtifactLimits,
    clock: Arc<dyn Clock>,
    index: Arc<Mutex<ArtifactIndex>>,
}

#[derive(Debug, Default)]
struct ArtifactIndex {
    by_id: HashMap<String, ArtifactEntry>,
    /// Ids in order of age, oldest first.
    order: VecDeque<String>,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct ArtifactEntry {
    org: String,
    subject: String,
    /// Id of the key that made the call.
    key_id: String,
    /// Root key that it counts for.
    root_key: String,
    bytes: u64,
    stored_at: MonotonicTime,
}

impl FileArtifactStore {
    /// Opens the store in `dir`, which is created if missing; files of an earlier process are
    /// removed.
    ///
    /// # Errors
    /// If it cannot be created or emptied.
    pub fn open_directory(
        dir: &Path,
        limits: ArtifactLimits,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if is_artifact_id(&path.file_name().unwrap_or_default().to_string_lossy()) {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { dir: dir.to_owned(), limits, clock, index: Arc::default() })
    }

    fn lock_index(&self) -> MutexGuard<'_, ArtifactIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts expired artifacts, and the oldest until there is space; their files are removed too.
    fn evict_expired_and_oldest(&self, index: &mut ArtifactIndex, wanted: u64) {
        let now = self.clock.monotonic_now();
        while let Some(id) = index.order.front() {
            let over = index
                .by_id
                .get(id)
                .is_none_or(|it| now.saturating_duration_since(it.stored_at) >= self.limits.ttl);
            let full = index.bytes + wanted > self.limits.max_bytes
                || (wanted > 0 && index.by_id.len() >= self.limits.max_count);
            if !over && !full {
                return;
            }
            let Some(id) = index.order.pop_front() else { return };
            self.remove_entry(index, &id);
        }
    }

    /// Evicts the oldest artifacts of this root key until an artifact of this size fits its limits.
    fn evict_oldest_of_key(&self, index: &mut ArtifactIndex, root: &str, wanted: u64) {
        let own = |entry: &&ArtifactEntry| entry.root_key == root;
        let mut bytes: u64 = index.by_id.values().filter(own).map(|entry| entry.bytes).sum();
        let mut count = index.by_id.values().filter(own).count();
        while bytes + wanted > self.limits.max_bytes_per_key
            || count >= self.limits.max_count_per_key
        {
            let oldest =
                index.order.iter().position(|id| index.by_id.get(id).is_some_and(|it| own(&it)));
            let Some(id) = oldest.and_then(|place| index.order.remove(place)) else { return };
            bytes -= self.remove_entry(index, &id);
            count -= 1;
        }
    }

    /// Removes an entry with its file; returns its size.
    fn remove_entry(&self, index: &mut ArtifactIndex, id: &str) -> u64 {
        let bytes = index.by_id.remove(id).map_or(0, |entry| entry.bytes);
        index.bytes -= bytes;
        if let Err(error) = fs::remove_file(self.dir.join(id)) {
            tracing::warn!(%error, "cannot remove an expired artifact");
        }
        bytes
    }

    fn write_file(&self, owner: &Caller, body: &[u8]) -> Result<StoredArtifact, ArtifactError> {
        let told = |what: String| ArtifactError::Unavailable(what);
        let bytes = body.len() as u64;
        if bytes > self.limits.max_bytes {
            return Err(told(format!(
                "{bytes} bytes are too many; the maximum is {}",
                self.limits.max_bytes
            )));
        }
        let mut random = [0; 16];
        rand::fill(&mut random)
            .map_err(|_| told("the system provides no random numbers".into()))?;
        let id = format!("art_{:032x}", u128::from_be_bytes(random));
        let root = format!("{}/{}", owner.org.as_str(), owner.limit_key_id());
        let mut index = self.lock_index();
        self.evict_oldest_of_key(&mut index, &root, bytes);
        self.evict_expired_and_oldest(&mut index, bytes);
        let path = self.dir.join(&id);
        let written = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(body));
        if let Err(error) = written {
            fs::remove_file(&path).ok();
            return Err(told(format!("cannot store the result: {error}")));
        }
        let (org, subject, key) =
            (owner.org.to_string(), owner.subject.clone(), owner.key_id.clone());
        let entry = ArtifactEntry {
            org,
            subject,
            key_id: key,
            root_key: root,
            bytes,
            stored_at: self.clock.monotonic_now(),
        };
        index.bytes += bytes;
        index.order.push_back(id.clone());
        index.by_id.insert(id.clone(), entry);
        let life = duration_millis(self.limits.ttl);
        let expires = WallTime(self.clock.wall_now().0.saturating_add(life));
        Ok(StoredArtifact { id, size_bytes: bytes, expires_at: expires })
    }

    fn read_range(
        &self,
        owner: &Caller,
        id: &str,
        range: ByteRange,
    ) -> Result<ArtifactChunk, ArtifactError> {
        let (file, total) = {
            let mut index = self.lock_index();
            self.evict_expired_and_oldest(&mut index, 0);
            // A narrower key of the same subject may not have the tool that returned this result.
            let root = format!("{}/{}", owner.org.as_str(), owner.key_id);
            let ours = |it: &&ArtifactEntry| {
                let same = it.org == owner.org.as_str() && it.subject == owner.subject;
                same && (it.key_id == owner.key_id || it.root_key == root)
            };
            let entry = index.by_id.get(id).filter(ours).ok_or(ArtifactError::NotFound)?;
            (File::open(self.dir.join(id)), entry.bytes)
        };
        let told = |error: io::Error| {
            ArtifactError::Unavailable(format!("cannot read the result: {error}"))
        };
        let left = usize::try_from(total.saturating_sub(range.offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(range.max_bytes)];
        if bytes.is_empty() {
            return Ok(ArtifactChunk { bytes: Bytes::new(), total_bytes: total });
        }
        file.map_err(told)?.read_exact_at(&mut bytes, range.offset).map_err(told)?;
        Ok(ArtifactChunk { bytes: bytes.into(), total_bytes: total })
    }

    /// Runs `work` on a thread that may block on the disk.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ArtifactError> + Send + 'static,
    ) -> Result<T, ArtifactError> {
        let own = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&own)).await;
        done.unwrap_or_else(|_| {
            Err(ArtifactError::Unavailable(
                "an internal error of \
            Toolkeep"
                    .to_owned(),
            ))
        })
    }
}

fn is_artifact_id(name: &str) -> bool {
    name.strip_prefix("art_").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl ArtifactStore for FileArtifactStore {
    fn store_artifact<'a>(
        &'a self,
        owner: &'a Caller,
        body: Bytes,
    ) -> BoxFuture<'a, Result<StoredArtifact, ArtifactError>> {
        let owner = owner.clone();
        Box::pin(self.run_blocking(move |own| own.write_file(&owner, &body)))
    }

    fn read_chunk<'a>(
        &'a self,
        owner: &'a Caller,
        id: &'a str,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<ArtifactChunk, ArtifactError>> {
        let (owner, id) = (owner.clone(), id.to_owned());
        Box::pin(self.run_blocking(move |own| own.read_range(&owner, &id, range)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use testkit::clock::FakeClock;
    use tool::Caller;
    use tool::artifact::{ArtifactError, ArtifactStore as _};

    use super::{ArtifactLimits, ByteRange, FileArtifactStore};

    fn caller(subject: &str) -> Caller {
        Caller { subject: subject.to_owned(), ..testkit::context::test_caller() }
    }

    fn bytes_at(offset: u64, max_bytes: usize) -> ByteRange {
        ByteRange { offset, max_bytes }
    }

    fn bounds(bytes: u64) -> ArtifactLimits {
        ArtifactLimits { max_bytes: bytes, max_bytes_per_key: bytes, ..ArtifactLimits::default() }
    }

    #[tokio::test]
    async fn an_artefact_is_its_callers_alone() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FakeClock::default());
        let kept =
            FileArtifactStore::open_directory(dir.path(), bounds(1_000), clock.clone()).unwrap();
        let one =
            kept.store_artifact(&caller("ann"), b"0123456789".as_slice().into()).await.unwrap();
        let part = kept.read_chunk(&caller("ann"), &one.id, bytes_at(3, 4)).await.unwrap();
        assert_eq!((part.bytes.as_ref(), part.total_bytes), (b"3456".as_slice(), 10));
        assert!(
            kept.read_chunk(&caller("ann"), &one.id, bytes_at(10, 4))
                .await
                .unwrap()
                .bytes
                .is_empty()
        );
        assert!(
            kept.read_chunk(&caller("ann"), &one.id, bytes_at(u64::MAX, 4))
                .await
                .unwrap()
                .bytes
                .is_empty()
        );
        for (who, id) in [("bob", one.id.as_str()), ("ann", "art_00"), ("ann", "../store.db")] {
            assert_eq!(
                kept.read_chunk(&caller(who), id, bytes_at(0, 1)).await,
                Err(ArtifactError::NotFound)
            );
        }
        clock.advance(Duration::from_hours(1));
        assert_eq!(
            kept.read_chunk(&caller("ann"), &one.id, bytes_at(0, 1)).await,
            Err(ArtifactError::NotFound)
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// A key that was delegated from a wider one read what that one's tools had answered.
    #[tokio::test]
    async fn a_narrower_key_of_its_subject_reads_none_of_a_wider_ones() {
        let dir = tempfile::tempdir().unwrap();
        let kept = FileArtifactStore::open_directory(
            dir.path(),
            bounds(1_000),
            Arc::<FakeClock>::default(),
        )
        .unwrap();
        let key = |key: &str, root: Option<&str>| Caller {
            key_id: key.to_owned(),
            root_key_id: root.map(str::to_owned),
            ..caller("ann")
        };
        let (wide, narrow, other) = (key("a", None), key("b", Some("a")), key("c", None));
        let keep =
            async |who: &Caller| kept.store_artifact(who, vec![7; 4].into()).await.unwrap().id;
        let read = async |who: &Caller, id: &str| kept.read_chunk(who, id, bytes_at(0, 4)).await;
        let (wides, narrows) = (keep(&wide).await, keep(&narrow).await);
        for who in [&narrow, &other] {
            assert_eq!(read(who, &wides).await, Err(ArtifactError::NotFound));
        }
        assert_eq!(read(&other, &narrows).await, Err(ArtifactError::NotFound));
        // The controls: each reads its own, and the first key those of the keys delegated from it.
        for (who, id) in [(&wide, &wides), (&narrow, &narrows), (&wide, &narrows)] {
            assert_eq!(read(who, id).await.unwrap().total_bytes, 4);
        }
    }

    #[tokio::test]
    async fn the_oldest_make_room_and_a_start_begins_empty() {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<FakeClock> = Arc::default();
        let kept =
            FileArtifactStore::open_directory(dir.path(), bounds(100), clock.clone()).unwrap();
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(kept.store_artifact(&caller("ann"), vec![7; 40].into()).await.unwrap().id);
        }
        let there =
            async |id: &String| kept.read_chunk(&caller("ann"), id, bytes_at(0, 1)).await.is_ok();
        assert!(!there(&ids[2]).await && there(&ids[3]).await && there(&ids[4]).await);
        let error = kept.store_artifact(&caller("ann"), vec![7; 101].into()).await.unwrap_err();
        assert!(matches!(error, ArtifactError::Unavailable(_)));
        std::fs::write(dir.path().join("other"), "not ours").unwrap();
        drop(FileArtifactStore::open_directory(dir.path(), bounds(100), clock).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    /// A key, and one that was delegated from it for another subject, count together.
    #[tokio::test]
    async fn one_key_makes_room_among_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let bounds = ArtifactLimits { max_bytes_per_key: 80, ..bounds(200) };
        let kept =
            FileArtifactStore::open_directory(dir.path(), bounds, Arc::<FakeClock>::default())
                .unwrap();
        let key = |subject: &str, key: &str, root: Option<&str>| Caller {
            key_id: key.to_owned(),
            root_key_id: root.map(str::to_owned),
            ..caller(subject)
        };
        let keep =
            async |who: &Caller| kept.store_artifact(who, vec![7; 40].into()).await.unwrap().id;
        let there =
            async |who: &Caller, id: &str| kept.read_chunk(who, id, bytes_at(0, 1)).await.is_ok();
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
