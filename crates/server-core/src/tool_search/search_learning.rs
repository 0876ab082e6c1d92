//! Learning per organisation: tools that were called after a query rank higher for its words.
//!
//! A search remembers the hashes of its query's stems and the tools that its reply contained, in memory. When
//! the same caller calls one of these tools and the call succeeds, the tool gets evidence for these stems.
//! Evidence is kept in the store and in memory, each organisation's apart. Words are never kept.

mod call_feedback;
mod evidence_rows;
mod identity_hashes;
mod org_evidence;
mod recent_searches;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use gateway::CallObserver;
use identity::Principal;
use option_types::ListingOptions;
use search::{LearnedTerms, LearnedTool, MAX_QUERY_STEMS, MAX_STEM_TOOLS, query_stems};
use tokio::sync::Notify;
use tool::{Clock, Secret, Store, ToolKey, Version};

use call_feedback::CallFeedback;
use identity_hashes::{IdentityHasher, OrgTag};
use org_evidence::OrgEvidence;
use recent_searches::{QueryResults, RecentSearches};

/// Interval at which the rows that other servers wrote are read.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Milliseconds of a day.
const DAY_MILLIS: u64 = 86_400_000;

/// The evidence of organisations in memory.
type EvidenceByOrg = HashMap<OrgTag, OrgEvidence>;

/// Learns from searches and calls, for the organisations that want it.
#[derive(Debug)]
pub struct SearchLearning {
    options: ListingOptions,
    hasher: IdentityHasher,
    /// Hashes of the organisations that the options name.
    learning_tags: HashSet<OrgTag>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    recent: Mutex<RecentSearches>,
    feedback: Mutex<VecDeque<CallFeedback>>,
    feedback_added: Notify,
    evidence: RwLock<EvidenceByOrg>,
    /// Version of the store up to which the rows of other servers are read.
    read_version: Mutex<Version>,
    /// The day of the last removal of old evidence.
    purged_day: Mutex<Option<u32>>,
}

impl SearchLearning {
    /// Prefix of its rows in the store: `search-learning/ORGANISATION/TOOL`, both as hashes.
    pub const STORE_PREFIX: &str = "search-learning/";

    /// Creates the learning of the organisations that the options name, without evidence:
    /// [`load_stored`](Self::load_stored) reads it. Hashes are keyed with the installation's secret.
    pub fn new(
        options: &ListingOptions,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        secret: &Secret,
    ) -> Self {
        let hasher = IdentityHasher::new(secret);
        let learning_tags = options.learning_orgs.iter().map(|it| hasher.org_tag(it)).collect();
        Self {
            options: options.clone(),
            hasher,
            learning_tags,
            store,
            clock,
            recent: Mutex::default(),
            feedback: Mutex::default(),
            feedback_added: Notify::new(),
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

    /// Returns whether the organisation of a row learns.
    fn is_learning_tag(&self, org: OrgTag) -> bool {
        self.options.learns_everywhere() || self.learning_tags.contains(&org)
    }

    /// Returns the day, counted from 1970.
    fn today(&self) -> u32 {
        u32::try_from(self.clock.wall_now().0 / DAY_MILLIS).unwrap_or(u32::MAX)
    }

    fn lock_recent(&self) -> MutexGuard<'_, RecentSearches> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_evidence(&self) -> RwLockReadGuard<'_, EvidenceByOrg> {
        self.evidence.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_evidence(&self) -> RwLockWriteGuard<'_, EvidenceByOrg> {
        self.evidence.write().unwrap_or_else(PoisonError::into_inner)
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
            let learned = stems.iter().take(MAX_QUERY_STEMS);
            learned.map(|stem| self.hasher.stem_hash(name, stem)).collect()
        };
        let stems = queries.iter().map(hash).collect();
        Some(LearningSearch { learning: self, principal, org, stems })
    }

    /// Writes what was learned and reads what other servers write; never returns.
    /// [`load_stored`](Self::load_stored) comes first.
    pub async fn run(&self) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut was_failing = false;
        loop {
            tokio::select! {
                () = self.feedback_added.notified() => {}
                _ = ticks.tick() => {}
            }
            let written = self.flush_feedback().await;
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
}

impl CallObserver for SearchLearning {
    fn notify_success(&self, principal: &Principal, tool: &ToolKey) {
        self.queue_feedback(principal, tool);
    }
}

/// A search of a caller whose organisation learns.
#[derive(Debug)]
pub(super) struct LearningSearch<'a> {
    learning: &'a SearchLearning,
    principal: &'a Principal,
    org: OrgTag,
    /// Hashes of the first stems of each query.
    stems: Vec<Vec<u64>>,
}

impl LearningSearch<'_> {
    /// Returns whether the organisation has evidence.
    pub(super) fn has_evidence(&self) -> bool {
        self.learning.read_evidence().contains_key(&self.org)
    }

    /// Returns the learned tools among those of the caller's view, for each query; empty if there is no
    /// evidence. `position_of` finds tools of the view alone, so that no other takes a place.
    pub(super) fn learned_terms(
        &self,
        position_of: impl Fn(&ToolKey) -> Option<usize>,
    ) -> Vec<LearnedTerms> {
        let today = self.learning.today();
        let all = self.learning.read_evidence();
        let Some(evidence) = all.get(&self.org) else { return Vec::new() };
        let of_stem = |stem: &u64| {
            let learned = evidence.tools_of(*stem, today).filter_map(|(tool, strength)| {
                Some(LearnedTool { position: position_of(tool)?, strength })
            });
            learned.take(MAX_STEM_TOOLS).collect::<Vec<_>>()
        };
        self.stems.iter().map(|stems| stems.iter().map(of_stem).collect()).collect()
    }

    /// Remembers which query found which tools of the reply, for the calls that follow.
    pub(super) fn remember<'t>(self, shown: impl Iterator<Item = (&'t ToolKey, usize)>) {
        let Self { learning, principal, stems, .. } = self;
        let mut by_query: Vec<QueryResults> = stems.into_iter().map(QueryResults::new).collect();
        for (tool, query) in shown {
            if let Some(of_query) = by_query.get_mut(query) {
                of_query.add_tool(tool);
            }
        }
        let caller = learning.hasher.caller_hash(principal);
        let now = learning.clock.monotonic_now();
        learning.lock_recent().add_search(caller, by_query, now);
    }
}
