//! A disk in memory that does what a real one may do at the worst moment: lose any part of what was
//! not synced, in any order, sector by sector; fail a sync and forget what it was to keep; be full.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::fixture::Random;
use crate::disk::{Disk, DiskFile, Held, Open, Shared};

const SECTOR: usize = 512;

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process dies; what the system took stays.
    Kill,
    /// The power goes; any part of what was not synced is lost.
    Power,
}

#[derive(Debug, Clone)]
pub(super) struct SimDisk(Arc<Mutex<World>>);

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that one test throws")]
pub(super) struct World {
    random: Random,
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<BTreeMap<String, usize>>,
    /// Handles of earlier lives are dead.
    life: u64,
    locked: bool,
    /// Changes until the machine stops; none: it does not.
    pub(super) fuse: Option<u64>,
    /// Of a hundred syncs, so many fail.
    pub(super) failing_syncs: u64,
    /// Whether the next sync fails, and no other.
    pub(super) fail_syncs_once: bool,
    /// Whether a sync is the end of the thread that asks for it.
    pub(super) deadly_syncs: bool,
    /// Whether every sync waits.
    hang: Arc<(Mutex<bool>, Condvar)>,
    /// Whether syncs do nothing and say they did.
    pub(super) lying_syncs: bool,
    /// What every write and every new file fails with.
    pub(super) failing_writes: Option<io::ErrorKind>,
    /// Bytes in all; none: without end.
    pub(super) capacity: Option<u64>,
    pub(super) can_reserve: bool,
    pub(super) synced: u64,
}

#[derive(Debug, Default, Clone)]
struct File {
    /// What the system shows.
    now: Vec<u8>,
    /// What the disk has.
    disk: Vec<u8>,
    /// What the file was after each change that is not synced, with the sectors each one touched.
    changes: Vec<(Vec<u8>, std::ops::Range<usize>)>,
    reserved_to: u64,
    /// What was put into it as memory, in order; what `now` has and `disk` has not.
    puts: Vec<(usize, Vec<u8>)>,
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
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(World {
            random: Random::new(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            life: 0,
            locked: false,
            fuse: None,
            failing_syncs: 0,
            fail_syncs_once: false,
            deadly_syncs: false,
            hang: Arc::default(),
            lying_syncs: false,
            failing_writes: None,
            capacity: None,
            can_reserve: true,
            synced: 0,
        })))
    }

    /// A disk that holds `files`, all synced.
    pub(super) fn holding(files: &BTreeMap<String, Vec<u8>>) -> Self {
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

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(super) fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Keeps every sync waiting, or lets them go on.
    pub(super) fn hang(&self, hangs: bool) {
        let hang = Arc::clone(&self.world().hang);
        *hang.0.lock().unwrap() = hangs;
        hang.1.notify_all();
    }

    /// What the system shows.
    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let world = self.world();
        let file = |at: &usize| world.files[*at].now.clone();
        world.names.iter().map(|(name, at)| (name.clone(), file(at))).collect()
    }

    /// Ends this life; the next one finds what is left.
    pub(super) fn crash(&self, how: Crash) {
        let mut guard = self.world();
        let world = &mut *guard;
        world.life += 1;
        (world.locked, world.fuse) = (false, None);
        if how == Crash::Kill {
            return;
        }
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
            file.puts.clear();
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

    pub(super) fn used(&self) -> u64 {
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

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.now[at..at + bytes.len()].copy_from_slice(bytes);
        self.puts.push((at, bytes.to_vec()));
    }

    /// What a loss of power leaves of memory: of every sector any state it had.
    fn left_of_memory(&self, left: &mut [u8], luck: u64, random: &mut Random) {
        for (sector, bytes) in left.chunks_mut(SECTOR).enumerate() {
            let (from, to) = (sector * SECTOR, sector * SECTOR + bytes.len());
            let mine = self.puts.iter().filter(|(at, put)| *at < to && from < at + put.len());
            let mine = mine.collect::<Vec<_>>();
            let many = if mine.is_empty() || random.percent(luck) {
                mine.len()
            } else {
                random.index(mine.len() + 1)
            };
            for (at, put) in &mine[..many] {
                for (place, byte) in
                    (*at..).zip(put).filter(|(place, _)| (from..to).contains(place))
                {
                    bytes[place - from] = *byte;
                }
            }
        }
    }

    /// What a loss of power leaves: of every sector and of the length, any state since the sync.
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
        self.left_of_memory(&mut left, luck, random);
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
    fn make_dir(&self, _: &Path) -> io::Result<()> {
        self.world().burn()?;
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(self.world().names.keys().cloned().collect())
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        let there = world.names.get(&name(path)).copied();
        let file = match (there, how) {
            (Some(file), Open::Read | Open::Append) => file,
            (None, Open::Read | Open::Append) => return Err(io::ErrorKind::NotFound.into()),
            (_, Open::New) => {
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

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.burn()?;
        let file = world.names.remove(&name(from)).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(name(to), file);
        world.name_changed();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
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

    fn share(&self, path: &Path, bytes: usize) -> io::Result<Option<Box<dyn Shared>>> {
        let mut world = self.world();
        world.burn()?;
        world.check_writes()?;
        if world.names.contains_key(&name(path)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !world.can_reserve {
            return Ok(None);
        }
        if bytes as u64 > world.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        drop(world);
        self.open(path, Open::New)?;
        let mut world = self.world();
        let file = world.names[&name(path)];
        // Its room is there for good, as after a sync.
        world.files[file].now.resize(bytes, 0);
        world.files[file].disk.resize(bytes, 0);
        world.files[file].changes.clear();
        Ok(Some(Box::new(Handle { disk: self.clone(), file, life: world.life })))
    }

    fn lock(&self, _: &Path) -> io::Result<Held> {
        let mut world = self.world();
        if std::mem::replace(&mut world.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock(self.clone(), world.life)))
    }
}

impl Handle {
    fn world(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.disk.world();
        if world.life == self.life { Ok(world) } else { Err(off()) }
    }
}

impl Shared for Handle {
    fn put(&self, at: usize, bytes: &[u8]) -> bool {
        let Ok(mut world) = self.world() else { return false };
        let Ok(last) = world.burn() else { return false };
        if at + bytes.len() > world.files[self.file].now.len() {
            return false;
        }
        let many = if last { world.random.index(bytes.len() + 1) } else { bytes.len() };
        world.files[self.file].put(at, &bytes[..many]);
        // Where the process died meanwhile, nobody is told that it was put.
        !last
    }
}

impl DiskFile for Handle {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
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

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let world = self.world()?;
        let file = &world.files[self.file].now;
        let from = file.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let many = from.len().min(into.len());
        into[..many].copy_from_slice(&from[..many]);
        Ok(many)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.world()?.files[self.file].now.len() as u64)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let mut world = self.world()?;
        world.burn()?;
        let file = &mut world.files[self.file];
        file.reserved_to = 0;
        let mut new = file.now.clone();
        new.resize(usize::try_from(size).unwrap(), 0);
        file.change(new);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
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

    fn reserve(&self, _: u64, to: u64) -> io::Result<bool> {
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
