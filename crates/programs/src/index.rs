//! What is known of programs without the store: which wait, which run here, and who watches them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::{CallId, Caller};

use crate::keep::{Kept, Row};
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

/// One that runs here.
#[derive(Debug)]
struct Runs {
    /// Which time it is that it runs.
    time: u64,
    row: Row,
    token: CancellationToken,
    /// As it began.
    begun: Arc<Told>,
}

#[derive(Debug)]
pub(crate) struct Index {
    /// By held call.
    held: HashMap<CallId, Row>,
    /// Those that stopped in the middle, when their process ended.
    stopped: BTreeSet<Row>,
    running: HashMap<CallId, Runs>,
    times: u64,
    watched: HashMap<CallId, watch::Sender<Option<Arc<Told>>>>,
    /// The last few that ended and have no row.
    lately: VecDeque<Kept>,
    most: usize,
}

impl Index {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            held: HashMap::new(),
            stopped: BTreeSet::new(),
            running: HashMap::new(),
            times: 0,
            watched: HashMap::new(),
            lately: VecDeque::new(),
            most,
        }
    }

    /// Whether one more may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() + self.stopped.len() < WAITING
    }

    /// It waits from here on, or can go on.
    pub(crate) fn stands(&mut self, kept: &Kept) {
        let row = kept.row();
        if kept.program.state == State::Running {
            self.stopped.insert(row);
            return;
        }
        for call in kept.program.waits_for() {
            self.held.insert(call, row.clone());
        }
    }

    /// The program that waits for this call.
    pub(crate) fn waits_for(&self, call: CallId) -> Option<Row> {
        self.held.get(&call).cloned()
    }

    /// All that wait, or can go on.
    pub(crate) fn standing(&self) -> BTreeSet<Row> {
        self.held.values().chain(&self.stopped).cloned().collect()
    }

    /// It runs here from now on; nothing where it does already.
    pub(crate) fn claims(&mut self, program: &Program) -> Option<(u64, CancellationToken)> {
        let row = Row::of(&program.caller, program.id);
        if self.running.contains_key(&row.id) {
            return None;
        }
        let token = CancellationToken::new();
        // Whatever it waited for: it runs now.
        let begun = Arc::new(Told { rests: false, ..Told::of(program) });
        self.times += 1;
        self.running.insert(row.id, Runs { time: self.times, row, token: token.clone(), begun });
        Some((self.times, token))
    }

    /// It does not run here any more: this time of it is over.
    pub(crate) fn leaves(&mut self, id: CallId, time: u64) {
        if self.running.get(&id).is_some_and(|it| it.time == time) {
            self.running.remove(&id);
        }
    }

    /// What gives this caller's program up that runs here.
    pub(crate) fn token(&self, whose: &Caller, id: CallId) -> Option<CancellationToken> {
        self.own(whose, id).map(|it| it.token.clone())
    }

    /// This caller's program that runs here, as it began.
    pub(crate) fn begun(&self, whose: &Caller, id: CallId) -> Option<Arc<Told>> {
        self.own(whose, id).map(|it| Arc::clone(&it.begun))
    }

    fn own(&self, whose: &Caller, id: CallId) -> Option<&Runs> {
        self.running.get(&id).filter(|it| it.row == Row::of(whose, id))
    }

    /// All of this caller that run here, as they began.
    pub(crate) fn running(&self, whose: &Caller) -> Vec<(CallId, Arc<Told>)> {
        let own = self.running.iter().filter(|(id, it)| it.row == Row::of(whose, **id));
        own.map(|(id, it)| (*id, Arc::clone(&it.begun))).collect()
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
            if self.lately.len() == self.most {
                self.lately.pop_front();
            }
            return self.lately.push_back(kept.clone());
        }
        for call in waited {
            self.held.remove(call);
        }
        self.stopped.remove(&kept.row());
        if !kept.program.has_ended() {
            self.stands(kept);
        }
    }

    pub(crate) fn ended_lately(&self, id: CallId) -> Option<Kept> {
        self.lately.iter().rev().find(|kept| kept.program.id == id).cloned()
    }

    pub(crate) fn lately(&self) -> impl Iterator<Item = &Kept> {
        self.lately.iter()
    }
}
