//! A disk in memory that does what a real one may do at the worst moment: lose any part of what was
//! not synced, in any order, sector by sector; fail a sync and forget what it was to keep; be full.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::fixture::Random;
use crate::disk::{BootId, DirLock, Disk, DiskFile, OpenMode};

const SECTOR: usize = 512;

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process dies; what the system took stays.
    Kill,
    /// The power goes; any part of what was not synced is lost.
    Power,
}

#[derive(Debug, Clone)]
pub(crate) struct SimDisk(Arc<Mutex<World>>);

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that one test throws")]
pub(crate) struct World {
    random: Random,
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<BTreeMap<String, usize>>,
    /// Handles of earlier lives are dead.
    life: u64,
    locked: bool,
    /// Changes with each loss of power.
    pub(crate) boot: Option<BootId>,
    /// Changes until the machine stops; none: it does not.
    pub(crate) fuse: Option<u64>,
    /// Of a hundred syncs, so many fail.
    pub(crate) failing_syncs: u64,
    /// Whether the next sync fails, and no other.
    pub(crate) fail_syncs_once: bool,
    /// Whether a sync is the end of the thread that asks for it.
    pub(crate) deadly_syncs: bool,
    /// Whether every sync waits.
    hang: Arc<(Mutex<bool>, Condvar)>,
    /// Whether syncs do nothing and report success.
    pub(crate) lying_syncs: bool,
    /// Error of every write and every new file.
    pub(crate) failing_writes: Option<io::ErrorKind>,
    /// Error of every read.
    pub(crate) failing_reads: Option<io::ErrorKind>,
    /// Bytes in all; none: without end.
    pub(crate) capacity: Option<u64>,
    pub(crate) can_reserve: bool,
    pub(crate) synced: u64,
    /// Bytes that were read of each file.
    read: BTreeMap<usize, u64>,
}

#[derive(Debug, Default, Clone)]
struct File {
    /// State that the operating system shows.
    now: Vec<u8>,
    /// State on the disk.
    disk: Vec<u8>,
    /// States of the file after each unsynced change, with the sectors that it touched.
    changes: Vec<(Vec<u8>, std::ops::Range<usize>)>,
    reserved_to: u64,
}

#[derive(Debug)]
struct Handle {
    disk: SimDisk,
    file: usize,
    life: u64,
}

#[derive(Debug)]
struct Lock(SimDisk, u64);

impl Drop for Lock {
    fn drop(&mut self) {
        let mut world = self.0.world();
        if world.life == self.1 {
            world.locked = false;
        }
    }
}

fn off() -> io::Error {
    io::Error::other("the machine is off")
}

impl SimDisk {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(World {
            random: Random::new(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            life: 0,
            locked: false,
            boot: Some([1; 16]),
            fuse: None,
            failing_syncs: 0,
            fail_syncs_once: false,
            deadly_syncs: false,
            hang: Arc::default(),
            lying_syncs: false,
            failing_writes: None,
            failing_reads: None,
            capacity: None,
            can_reserve: true,
            synced: 0,
            read: BTreeMap::new(),
        })))
    }

    /// A disk that holds `files`, all synced.
    pub(crate) fn holding(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let disk = Self::new(0);
        let mut world = disk.world();
        for (name, bytes) in files {
            let file = world.files.len();
            world.files.push(File { now: bytes.clone(), disk: bytes.clone(), ..File::default() });
            world.names.insert(name.clone(), file);
        }
        world.durable_names = world.names.clone();
        drop(world);
        disk
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Keeps every sync waiting, or lets them go on.
    pub(crate) fn hang(&self, hangs: bool) {
        let hang = Arc::clone(&self.world().hang);
        *hang.0.lock().unwrap() = hangs;
        hang.1.notify_all();
    }

    /// Returns the state that the operating system shows.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let world = self.world();
        let file = |at: &usize| world.files[*at].now.clone();
        world.names.iter().map(|(name, at)| (name.clone(), file(at))).collect()
    }

    /// Bytes that were read of the files that are there and whose names end so.
    pub(crate) fn bytes_read(&self, ending: &str) -> u64 {
        let world = self.world();
        let names = world.names.iter().filter(|(name, _)| name.ends_with(ending));
        names.filter_map(|(_, at)| world.read.get(at)).sum()
    }

    /// Replaces the bytes of a file, as somebody else does.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) {
        let mut world = self.world();
        let file = world.names[name];
        world.files[file].now = bytes.to_vec();
        world.files[file].disk = bytes.to_vec();
    }

    /// Ends this life; the next one finds what is left.
    pub(crate) fn crash(&self, how: Crash) {
        let mut guard = self.world();
        let world = &mut *guard;
        world.life += 1;
        (world.locked, world.fuse) = (false, None);
        if how == Crash::Kill {
            return;
        }
        world.boot = Some(world.random.next().to_le_bytes().repeat(2).try_into().unwrap());
        let names = world.random.index(world.name_changes.len() + 1);
        world.names = match names.checked_sub(1) {
            None => world.durable_names.clone(),
            Some(last) => world.name_changes[last].clone(),
        };
        world.name_changes.clear();
        world.durable_names = world.names.clone();
        let luck = world.random.below(101);
        for file in &mut world.files {
            file.now = file.left(luck, &mut world.random);
            file.disk = file.now.clone();
            file.changes.clear();
        }
    }
}

impl World {
    /// Burns the fuse. `true`: the machine stops with this change.
    fn burn(&mut self) -> io::Result<bool> {
        match &mut self.fuse {
            None => Ok(false),
            Some(0) => Err(off()),
            Some(left) => {
                *left -= 1;
                Ok(*left == 0)
            }
        }
    }

    pub(crate) fn used(&self) -> u64 {
        let file = |at: &usize| (self.files[*at].now.len() as u64).max(self.files[*at].reserved_to);
        self.names.values().map(file).sum()
    }

    fn room(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |all| all.saturating_sub(self.used()))
    }

    fn name_changed(&mut self) {
        self.name_changes.push(self.names.clone());
    }

    fn check_writes(&self) -> io::Result<()> {
        self.failing_writes.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl File {
    fn change(&mut self, new: Vec<u8>) {
        let from = self.now.len().min(new.len());
        let to = self.now.len().max(new.len());
        self.now.clone_from(&new);
        self.changes.push((new, from / SECTOR..to.div_ceil(SECTOR)));
    }

    fn replace(&mut self, at: usize, bytes: &[u8]) {
        self.now[at..at + bytes.len()].copy_from_slice(bytes);
        let sectors = at / SECTOR..(at + bytes.len()).div_ceil(SECTOR);
        assert_eq!(sectors.len(), 1, "what is replaced lies in one sector");
        self.changes.push((self.now.clone(), sectors));
    }

    /// State after a power failure: every sector, and the length, have any state since the last
    /// sync.
    fn left(&self, luck: u64, random: &mut Random) -> Vec<u8> {
        let mut pick = |changes: &[usize]| -> Option<usize> {
            if !changes.is_empty() && random.percent(luck) {
                // The newest state is the likeliest.
                return Some(*changes.last().unwrap());
            }
            random.index(changes.len() + 1).checked_sub(1).map(|at| changes[at])
        };
        let all = (0..self.changes.len()).collect::<Vec<_>>();
        let state = |change: Option<usize>| change.map_or(&self.disk, |at| &self.changes[at].0);
        let mut left = vec![0; state(pick(&all)).len()];
        for (sector, bytes) in left.chunks_mut(SECTOR).enumerate() {
            let touched = all.iter().copied().filter(|at| self.changes[*at].1.contains(&sector));
            let from = state(pick(&touched.collect::<Vec<_>>()));
            let from = from.get(sector * SECTOR..).unwrap_or_default();
            let many = from.len().min(bytes.len());
            bytes[..many].copy_from_slice(&from[..many]);
        }
        left
    }

    fn sync(&mut self) {
        self.disk.resize(self.now.len(), 0);
        for (_, sectors) in std::mem::take(&mut self.changes) {
            let from = (sectors.start * SECTOR).min(self.now.len());
            let to = (sectors.end * SECTOR).min(self.now.len());
            self.disk[from..to].copy_from_slice(&self.now[from..to]);
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

impl Disk for SimDisk {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        self.world().burn()?;
        Ok(())
    }

    fn list_names(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(self.world().names.keys().cloned().collect())
    }

    fn open_file(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        let there = world.names.get(&name(path)).copied();
        let file = match (there, how) {
            (Some(file), OpenMode::Read | OpenMode::Append | OpenMode::Update) => file,
            (None, OpenMode::Read | OpenMode::Append | OpenMode::Update) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            (_, OpenMode::Truncate) => {
                world.burn()?;
                world.check_writes()?;
                let new = there.unwrap_or(world.files.len());
                if there.is_none() {
                    world.files.push(File::default());
                    world.names.insert(name(path), new);
                    world.name_changed();
                }
                world.files[new].reserved_to = 0;
                world.files[new].change(Vec::new());
                new
            }
        };
        Ok(Arc::new(Handle { disk: self.clone(), file, life: world.life }))
    }

    fn rename_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.burn()?;
        let file = world.names.remove(&name(from)).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(name(to), file);
        world.name_changed();
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.burn()?;
        world.names.remove(&name(path)).ok_or(io::ErrorKind::NotFound)?;
        world.name_changed();
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut world = self.world();
        if world.burn()? {
            return Err(off());
        }
        world.durable_names = world.names.clone();
        world.name_changes.clear();
        Ok(())
    }

    fn lock_file(&self, _: &Path) -> io::Result<DirLock> {
        let mut world = self.world();
        if std::mem::replace(&mut world.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock(self.clone(), world.life)))
    }

    fn boot_id(&self) -> Option<BootId> {
        self.world().boot
    }
}

impl Handle {
    fn world(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.disk.world();
        if world.life == self.life { Ok(world) } else { Err(off()) }
    }
}

impl DiskFile for Handle {
    fn append_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.world()?;
        let last = world.burn()?;
        world.check_writes()?;
        let file = &world.files[self.file];
        let reserve = file.reserved_to.saturating_sub(file.now.len() as u64);
        let room = usize::try_from(world.room().saturating_add(reserve)).unwrap_or(usize::MAX);
        let mut many = bytes.len().min(room);
        if last {
            many = world.random.index(many + 1);
        }
        if many == 0 {
            return Err(if last { off() } else { io::ErrorKind::StorageFull.into() });
        }
        let file = &mut world.files[self.file];
        let new = [&file.now, &bytes[..many]].concat();
        file.change(new);
        if last { Err(off()) } else { Ok(many) }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world()?;
        let last = world.burn()?;
        world.check_writes()?;
        if !last || world.random.percent(50) {
            world.files[self.file].replace(usize::try_from(offset).unwrap(), bytes);
        }
        if last { Err(off()) } else { Ok(()) }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut world = self.world()?;
        if let Some(kind) = world.failing_reads {
            return Err(kind.into());
        }
        let file = &world.files[self.file].now;
        let from = file.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let many = from.len().min(into.len());
        into[..many].copy_from_slice(&from[..many]);
        *world.read.entry(self.file).or_default() += many as u64;
        Ok(many)
    }

    fn file_size(&self) -> io::Result<u64> {
        Ok(self.world()?.files[self.file].now.len() as u64)
    }

    fn truncate_to(&self, size: u64) -> io::Result<()> {
        let mut world = self.world()?;
        world.burn()?;
        let file = &mut world.files[self.file];
        file.reserved_to = 0;
        let mut new = file.now.clone();
        new.resize(usize::try_from(size).unwrap(), 0);
        file.change(new);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let (hang, deadly) = {
            let world = self.world()?;
            (Arc::clone(&world.hang), world.deadly_syncs)
        };
        assert!(!deadly, "a fault for a test");
        drop(hang.1.wait_while(hang.0.lock().unwrap(), |hangs| *hangs).unwrap());
        let mut world = self.world()?;
        if world.burn()? {
            return Err(off());
        }
        world.synced += 1;
        let percent = world.failing_syncs;
        let once = std::mem::take(&mut world.fail_syncs_once);
        if once || world.random.percent(percent) {
            // As Linux does it: the pages count as clean, though the disk does not have them.
            world.files[self.file].changes.clear();
            return Err(io::Error::other("Input/output error"));
        }
        if !world.lying_syncs {
            world.files[self.file].sync();
        }
        Ok(())
    }

    fn allocate_range(&self, _: u64, to: u64) -> io::Result<bool> {
        let mut world = self.world()?;
        if !world.can_reserve {
            return Ok(false);
        }
        let file = &world.files[self.file];
        let has = file.reserved_to.max(file.now.len() as u64);
        if to.saturating_sub(has) > world.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.files[self.file].reserved_to = has.max(to);
        Ok(true)
    }
}
