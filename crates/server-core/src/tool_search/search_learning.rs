//! Learning per organisation: tools that were called after a query rank higher for its words.
//!
//! A search remembers the hashes of its query's stems and the tools that it found, in memory. When the
//! same caller calls one of these tools and the call succeeds, the tool gets evidence for these stems.
//! Evidence is kept in the store and in memory, each organisation's apart. Words are never kept.

mod evidence_rows;
mod identity_hashes;
mod org_evidence;
mod recent_searches;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use gateway::CallObserver;
use identity::Principal;
use option_types::ListingOptions;
use search::{CallerMark, LearnedTerms, LearnedTool, ToolEvidence, query_stems};
use tokio::sync::Notify;
use tool::{Clock, Secret, Store, ToolKey, Version};

use identity_hashes::{IdentityHasher, OrgTag};
use org_evidence::OrgEvidence;
use recent_searches::{FoundByQuery, RecentSearches};

/// Maximum number of calls that wait to be learned; further ones teach nothing.
const MAX_LESSONS: usize = 1_024;
/// Maximum number of organisations with evidence in memory.
const MAX_ORGS: usize = 64;
/// Interval at which the rows that other servers wrote are read.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Milliseconds of a day.
const DAY_MILLIS: u64 = 86_400_000;

/// A successful call of a tool that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lesson {
    org: OrgTag,
    tool: ToolKey,
    stems: Vec<u64>,
    caller: CallerMark,
}

/// Learns from searches and calls, for the organisations that want it.
#[derive(Debug)]
pub struct SearchLearning {
    options: ListingOptions,
    hasher: IdentityHasher,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    recent: Mutex<RecentSearches>,
    lessons: Mutex<VecDeque<Lesson>>,
    lesson_added: Notify,
    evidence: RwLock<HashMap<OrgTag, OrgEvidence>>,
    /// Version of the store up to which the rows of other servers are read.
    read_version: Mutex<Version>,
    /// The day of the last removal of old evidence.
    purged_day: Mutex<Option<u32>>,
}

impl SearchLearning {
    /// Creates the learning of the organisations that the options name, without evidence:
    /// [`load_stored`](Self::load_stored) reads it. Hashes are keyed with the installation's secret.
    pub fn new(
        options: &ListingOptions,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        secret: &Secret,
    ) -> Self {
        Self {
            options: options.clone(),
            hasher: IdentityHasher::new(secret),
            store,
            clock,
            recent: Mutex::default(),
            lessons: Mutex::default(),
            lesson_added: Notify::new(),
            evidence: RwLock::default(),
            read_version: Mutex::default(),
            purged_day: Mutex::default(),
        }
    }

    /// Returns whether any organisation learns.
    pub fn is_enabled(&self) -> bool {
        !self.options.learning_orgs.is_empty()
    }

    /// Returns the hash of a caller's organisation, if it learns. Callers without a credential teach nothing and
    /// are ranked by the words alone.
    fn learning_org(&self, principal: &Principal) -> Option<OrgTag> {
        let org = principal.org().as_str();
        (self.options.learns_in(org) && !principal.is_anonymous()).then(|| self.hasher.org_tag(org))
    }

    /// Returns the day, counted from 1970.
    fn today(&self) -> u32 {
        u32::try_from(self.clock.wall_now().0 / DAY_MILLIS).unwrap_or(u32::MAX)
    }

    fn lock_recent(&self) -> MutexGuard<'_, RecentSearches> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_lessons(&self) -> MutexGuard<'_, VecDeque<Lesson>> {
        self.lessons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares a search of a caller; `None` if its organisation does not learn.
    pub(super) fn begin_search<'a>(
        &'a self,
        principal: &'a Principal,
        queries: &[String],
    ) -> Option<LearningSearch<'a>> {
        let org = self.learning_org(principal)?;
        let name = principal.org().as_str();
        let hash = |query: &String| {
            let stems = query_stems(query);
            stems.iter().map(|stem| self.hasher.stem_hash(name, stem)).collect()
        };
        let stems = queries.iter().map(hash).collect();
        Some(LearningSearch { learning: self, principal, org, stems })
    }

    /// Queues what a successful call teaches.
    fn queue_lesson(&self, principal: &Principal, tool: &ToolKey) {
        let Some(org) = self.learning_org(principal) else { return };
        let caller = self.hasher.caller_hash(principal);
        let now = self.clock.monotonic_now();
        let stems = self.lock_recent().take_stems(caller, tool, now);
        if stems.is_empty() {
            return;
        }
        let caller = self.hasher.caller_mark(principal);
        let lesson = Lesson { org, tool: tool.clone(), stems, caller };
        let mut lessons = self.lock_lessons();
        if lessons.len() < MAX_LESSONS {
            lessons.push_back(lesson);
            self.lesson_added.notify_one();
        }
    }

    /// Keeps what was learned, and follows what other servers keep, forever. [`load_stored`](Self::load_stored)
    /// comes first.
    pub async fn run(&self) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut was_failing = false;
        loop {
            tokio::select! {
                () = self.lesson_added.notified() => {}
                _ = ticks.tick() => {}
            }
            let written = self.write_lessons().await;
            let read = self.follow_store().await;
            if let Err(error) = written.and(read) {
                if !was_failing {
                    tracing::warn!(%error, "cannot keep what tool search learned");
                }
                was_failing = true;
                tokio::time::sleep(POLL_INTERVAL).await;
            } else {
                was_failing = false;
            }
        }
    }

    /// Puts the evidence of a tool into memory; empty evidence removes it.
    fn apply_evidence(&self, org: OrgTag, tool: &ToolKey, evidence: ToolEvidence) {
        let mut all = self.evidence.write().unwrap_or_else(PoisonError::into_inner);
        let of_org = all.entry(org).or_default();
        of_org.set_tool(tool, evidence);
        if of_org.is_empty() {
            all.remove(&org);
        }
    }
}

impl CallObserver for SearchLearning {
    fn notify_success(&self, principal: &Principal, tool: &ToolKey) {
        self.queue_lesson(principal, tool);
    }
}

/// A search of a caller whose organisation learns.
#[derive(Debug)]
pub(super) struct LearningSearch<'a> {
    learning: &'a SearchLearning,
    principal: &'a Principal,
    org: OrgTag,
    /// Hashes of the stems of each query.
    stems: Vec<Vec<u64>>,
}

impl LearningSearch<'_> {
    /// Returns the learned tools among those of the caller's view, for each query; empty if there is no
    /// evidence. `position_of` finds tools of the view alone.
    pub(super) fn learned_terms(
        &self,
        position_of: impl Fn(&ToolKey) -> Option<usize>,
    ) -> Vec<LearnedTerms> {
        let today = self.learning.today();
        let all = self.learning.evidence.read().unwrap_or_else(PoisonError::into_inner);
        let Some(evidence) = all.get(&self.org) else { return Vec::new() };
        let of_stem = |stem: &u64| {
            let found = evidence.tools_of(*stem, today);
            let learned = found.filter_map(|(tool, strength)| {
                Some(LearnedTool { position: position_of(tool)?, strength })
            });
            learned.collect::<Vec<_>>()
        };
        self.stems.iter().map(|stems| stems.iter().map(of_stem).collect()).collect()
    }

    /// Remembers which query found which tools, for the calls that follow.
    pub(super) fn remember<'t>(self, found: impl Iterator<Item = (&'t ToolKey, usize)>) {
        let Self { learning, principal, stems, .. } = self;
        let mut by_query: Vec<FoundByQuery> = stems.into_iter().map(FoundByQuery::new).collect();
        for (tool, query) in found {
            if let Some(of_query) = by_query.get_mut(query) {
                of_query.add_tool(tool);
            }
        }
        let caller = learning.hasher.caller_hash(principal);
        let now = learning.clock.monotonic_now();
        learning.lock_recent().add_search(caller, by_query, now);
    }
}
