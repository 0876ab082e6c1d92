//! How many programs each root key may have stored, and how many bytes of them: counted here alone, so that
//! programs that are stored at the same moment do not go past a bound together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tool::outcome::Failure;
use tool::{CallId, Caller, Code};

use crate::head::Head;
use crate::keep::Row;
use crate::program::State;

/// What one root key may have stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Programs that have not ended, and as many that have.
    pub(crate) programs: usize,
    /// Bytes of all of them.
    pub(crate) bytes: usize,
}

impl Default for Bounds {
    /// 64 and 64 MiB.
    fn default() -> Self {
        Self { programs: 64, bytes: 64 << 20 }
    }
}

/// Stored programs by root key.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    bounds: Bounds,
    roots: HashMap<Arc<str>, BTreeMap<CallId, Stored>>,
}

#[derive(Debug)]
struct Stored {
    row: Row,
    bytes: usize,
    rank: Rank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// It runs, or goes on by itself.
    Going,
    /// It waits for its caller.
    Paused,
    Ended,
}

impl Rank {
    fn of(state: State) -> Self {
        match state {
            State::Paused => Self::Paused,
            state if state.has_ended() => Self::Ended,
            _ => Self::Going,
        }
    }
}

impl Quota {
    #[cfg(test)]
    fn new(bounds: Bounds) -> Self {
        Self { bounds, roots: HashMap::new() }
    }

    /// So many programs of one root key may have not ended from here on, and as many that have ended are kept.
    pub(crate) fn bound(&mut self, programs: usize) {
        self.bounds.programs = programs;
    }

    /// It is stored, whatever the bounds say.
    pub(crate) fn set(&mut self, head: &Head) {
        let stored = Stored { row: head.row(), bytes: head.bytes, rank: Rank::of(head.state) };
        self.roots.entry(root(&head.caller)).or_default().insert(head.id, stored);
    }

    /// It is not stored any more.
    pub(crate) fn remove(&mut self, caller: &Caller, id: CallId) {
        let root = root(caller);
        if let Some(all) = self.roots.get_mut(&root) {
            all.remove(&id);
            if all.is_empty() {
                self.roots.remove(&root);
            }
        }
    }

    /// Takes a program that is to be stored. Those that have to make room for it are given back and not counted
    /// any more: ended ones are to be forgotten, paused ones to be ended, the oldest first.
    ///
    /// # Errors
    /// [`Code::RateLimited`] where those that go on by themselves take all the room. One that has ended is
    /// always taken.
    pub(crate) fn admit(&mut self, head: &Head) -> Result<Vec<Row>, Failure> {
        let (root, bounds) = (root(&head.caller), self.bounds);
        let before = self.roots.get_mut(&root).and_then(|all| all.remove(&head.id));
        let grows = before.as_ref().is_none_or(|before| head.bytes > before.bytes);
        self.set(head);
        if !grows && !head.state.has_ended() {
            return Ok(Vec::new());
        }
        let Some(all) = self.roots.get_mut(&root) else { return Ok(Vec::new()) };
        let (rows, full) = evicted(all, Some(head.id), bounds);
        let full = full.filter(|_| !head.state.has_ended());
        let Some(full) = full else {
            return Ok(rows.into_iter().filter_map(|id| Some(all.remove(&id)?.row)).collect());
        };
        // As it was.
        match before {
            Some(before) => drop(all.insert(head.id, before)),
            None => self.remove(&head.caller, head.id),
        }
        Err(full)
    }

    /// Those that root keys have beyond the bounds, as [`Quota::admit`] gives them back.
    pub(crate) fn beyond(&mut self) -> Vec<Row> {
        let bounds = self.bounds;
        let out = |all: &mut BTreeMap<CallId, Stored>| {
            let ids = evicted(all, None, bounds).0;
            ids.into_iter().filter_map(|id| Some(all.remove(&id)?.row)).collect::<Vec<_>>()
        };
        self.roots.values_mut().flat_map(out).collect()
    }
}

/// Those that make room, the oldest first, `own` never among them; and why there is none, where that is not
/// enough.
fn evicted(
    all: &BTreeMap<CallId, Stored>,
    own: Option<CallId>,
    bounds: Bounds,
) -> (Vec<CallId>, Option<Failure>) {
    let oldest =
        |rank: Rank| all.iter().filter(move |(id, it)| it.rank == rank && Some(**id) != own);
    let (mut ended, mut paused) = (oldest(Rank::Ended), oldest(Rank::Paused));
    let mut finished = all.values().filter(|it| it.rank == Rank::Ended).count();
    let mut unfinished = all.len() - finished;
    let mut bytes: usize = all.values().map(|it| it.bytes).sum();
    let mut out = Vec::new();
    loop {
        let next = if unfinished > bounds.programs {
            paused.next()
        } else if finished > bounds.programs {
            ended.next()
        } else if bytes > bounds.bytes {
            ended.next().or_else(|| paused.next())
        } else {
            return (out, None);
        };
        let Some((id, stored)) = next else {
            return (out, Some(full((unfinished, bytes), bounds)));
        };
        match stored.rank {
            Rank::Ended => finished -= 1,
            Rank::Paused | Rank::Going => unfinished -= 1,
        }
        bytes -= stored.bytes;
        out.push(*id);
    }
}

fn full((unfinished, bytes): (usize, usize), bounds: Bounds) -> Failure {
    let told = if unfinished > bounds.programs {
        format!("{} programs of this key have not ended, which is its limit", bounds.programs)
    } else {
        let (has, may) = (bytes >> 20, bounds.bytes >> 20);
        format!("the programs of this key would take {has} MiB, and {may} MiB can be stored")
    };
    Failure::new(Code::RateLimited, format!("{told}; have their calls decided, or cancel some"))
}

/// The word that a root key's programs are counted under.
fn root(caller: &Caller) -> Arc<str> {
    format!("{}/{}", caller.org.as_str(), caller.root_key()).into()
}

#[cfg(test)]
mod tests;
