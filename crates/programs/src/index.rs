//! What is known of programs without the store: which wait, which run here or are looked at, and who
//! watches them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::{CallId, Caller};

use crate::keep::{Kept, Row};
use crate::lately::Lately;
use crate::program::{Program, State};
use crate::shown;

/// Programs that wait at once.
const WAITING: usize = 10_000;

/// A program as those see it who watch.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) ended: bool,
    /// Nothing comes of it by itself: it has ended, or waits for its caller.
    pub(crate) rests: bool,
    pub(crate) value: Value,
}

impl Told {
    pub(crate) fn of(program: &Program) -> Self {
        let ended = program.has_ended();
        let rests = ended || program.state == State::Paused;
        Self { ended, rests, value: shown::shown(program) }
    }
}

/// What is done with a program here. Only one that runs shows as such.
#[derive(Debug)]
enum Does {
    /// Somebody looks whether it can go on. It stands as it is kept, and who has more to say takes over.
    Looks,
    /// It is being ended. It stands as it is kept until then.
    Ends,
    /// It runs; as it began.
    Runs(Arc<Told>),
}

#[derive(Debug)]
struct Claimed {
    /// Which claim of all.
    time: u64,
    does: Does,
    own: CancellationToken,
    over: CancellationToken,
}

/// A program is one's own until it is left, or taken over.
#[derive(Debug)]
pub(crate) struct Claim {
    row: Row,
    time: u64,
    own: CancellationToken,
}

impl Claim {
    /// Fires when what runs is given up.
    pub(crate) fn own(&self) -> CancellationToken {
        self.own.clone()
    }
}

/// A program runs already, or is being ended.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Whether it runs.
    pub(crate) runs: bool,
    /// Gives it up.
    pub(crate) own: CancellationToken,
    /// Fires when it is left.
    pub(crate) over: CancellationToken,
}

impl Claimed {
    fn begun(&self) -> Option<&Arc<Told>> {
        match &self.does {
            Does::Runs(begun) => Some(begun),
            Does::Looks | Does::Ends => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    /// By held call.
    held: HashMap<CallId, Row>,
    /// Those that stopped in the middle, when their process ended.
    stopped: BTreeSet<Row>,
    claimed: HashMap<Row, Claimed>,
    times: u64,
    watched: HashMap<CallId, watch::Sender<Option<Arc<Told>>>>,
    /// The last few that ended and have no row.
    lately: Lately,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            held: HashMap::new(),
            stopped: BTreeSet::new(),
            claimed: HashMap::new(),
            times: 0,
            watched: HashMap::new(),
            lately: Lately::default(),
        }
    }

    /// Whether one more may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() + self.stopped.len() < WAITING
    }

    /// It waits from here on, or can go on.
    pub(crate) fn stands(&mut self, row: Row, state: State, waits_for: &[CallId]) {
        if state == State::Running {
            self.stopped.insert(row);
            return;
        }
        for call in waits_for {
            self.held.insert(*call, row.clone());
        }
    }

    /// It does not stand any more, and waited for these calls.
    pub(crate) fn leaves_off(&mut self, row: &Row, waited: &[CallId]) {
        for call in waited {
            self.held.remove(call);
        }
        self.stopped.remove(row);
    }

    /// The program that waits for this call.
    pub(crate) fn waits_for(&self, call: CallId) -> Option<Row> {
        self.held.get(&call).cloned()
    }

    /// All that wait, or can go on.
    pub(crate) fn standing(&self) -> BTreeSet<Row> {
        self.held.values().chain(&self.stopped).cloned().collect()
    }

    /// Somebody looks whether it can go on. Who was `asked` takes over from one that looks unasked; nothing
    /// where it is another's otherwise.
    pub(crate) fn looks(&mut self, row: &Row, asked: bool) -> Option<Claim> {
        match self.claimed.get(row).map(|it| &it.does) {
            None => {}
            Some(Does::Looks) if asked => {}
            Some(_) => return None,
        }
        Some(self.claims(row, Does::Looks))
    }

    /// It is ended from here on; takes over from one that looks.
    pub(crate) fn ends(&mut self, row: &Row) -> Result<Claim, Taken> {
        match self.claimed.get(row) {
            None | Some(Claimed { does: Does::Looks, .. }) => Ok(self.claims(row, Does::Ends)),
            Some(Claimed { does, own, over, .. }) => {
                let (own, over) = (own.clone(), over.clone());
                Err(Taken { runs: matches!(does, Does::Runs(_)), own, over })
            }
        }
    }

    fn claims(&mut self, row: &Row, does: Does) -> Claim {
        self.times += 1;
        let (time, own) = (self.times, CancellationToken::new());
        let claimed = Claimed { time, does, own: own.clone(), over: CancellationToken::new() };
        self.claimed.insert(row.clone(), claimed);
        Claim { row: row.clone(), time, own }
    }

    /// It runs from here on, as it is here; whether it may: another may have taken over.
    pub(crate) fn runs(&mut self, claim: &Claim, program: &Program) -> bool {
        self.turns(claim, || Does::Runs(Arc::new(Told::of(program))))
    }

    /// Nobody takes over from here on; whether nobody has.
    pub(crate) fn stays(&mut self, claim: &Claim) -> bool {
        self.turns(claim, || Does::Ends)
    }

    fn turns(&mut self, claim: &Claim, does: impl FnOnce() -> Does) -> bool {
        let claimed = self.claimed.get_mut(&claim.row).filter(|it| it.time == claim.time);
        claimed.map(|it| it.does = does()).is_some()
    }

    /// It is nobody's any more, unless another has taken over.
    pub(crate) fn leaves(&mut self, claim: &Claim) {
        let own = self.claimed.get(&claim.row).is_some_and(|it| it.time == claim.time);
        if own && let Some(left) = self.claimed.remove(&claim.row) {
            left.over.cancel();
        }
    }

    /// A program that runs here, as it began.
    pub(crate) fn begun(&self, row: &Row) -> Option<Arc<Told>> {
        self.claimed.get(row)?.begun().cloned()
    }

    /// All of this caller that run here, as they began.
    pub(crate) fn running(&self, whose: &Caller) -> Vec<(CallId, Arc<Told>)> {
        let own = self.claimed.iter().filter(|(row, _)| **row == Row::of(whose, row.id));
        own.filter_map(|(row, it)| Some((row.id, Arc::clone(it.begun()?)))).collect()
    }

    /// Hears of each change from here on.
    pub(crate) fn watch(&mut self, id: CallId) -> watch::Receiver<Option<Arc<Told>>> {
        self.watched.entry(id).or_insert_with(|| watch::Sender::new(None)).subscribe()
    }

    /// Nobody may be left who watches it.
    pub(crate) fn unwatch(&mut self, id: CallId) {
        if self.watched.get(&id).is_some_and(|it| it.receiver_count() == 0) {
            self.watched.remove(&id);
        }
    }

    /// Tells those who watch; nothing is made where nobody does.
    pub(crate) fn tells(&mut self, program: &Program) {
        self.unwatch(program.id);
        if let Some(watched) = self.watched.get(&program.id) {
            watched.send_replace(Some(Arc::new(Told::of(program))));
        }
        if program.has_ended() {
            self.watched.remove(&program.id);
        }
    }

    /// It has come as far as it comes now: to its end, or to a wait. These calls it waited for before.
    pub(crate) fn came(&mut self, kept: &Kept, waited: &[CallId]) {
        self.tells(&kept.program);
        if !kept.is_kept() {
            return self.lately.push(kept);
        }
        self.leaves_off(&kept.row(), waited);
        if !kept.program.has_ended() {
            self.stands(kept.row(), kept.program.state, &kept.program.waits_for());
        }
    }

    pub(crate) fn ended_lately(&self, id: CallId) -> Option<Kept> {
        self.lately.find(id).cloned()
    }

    pub(crate) fn lately(&self) -> impl Iterator<Item = &Kept> {
        self.lately.all()
    }
}
