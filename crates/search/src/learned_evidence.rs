//! Evidence for a tool from calls after searches: for each stem of a query, who called it.
//!
//! Bounded in every direction, and pure: stems and callers are hashes that the caller makes, and days
//! are numbers that it counts.

use serde::{Deserialize, Serialize};

/// Maximum number of callers that count for a stem of a tool.
pub const MAX_STEM_CALLERS: usize = 8;
/// Maximum number of stems of a tool.
pub const MAX_TOOL_STEMS: usize = 32;
/// Maximum number of stems of a query that are learned, the first ones.
pub const MAX_QUERY_STEMS: usize = 32;
/// Maximum number of tools of a view that one stem raises, those with the strongest evidence.
pub const MAX_STEM_TOOLS: usize = 64;
/// Days without a call after which new evidence may displace other evidence at a bound.
pub const MIN_IDLE_DAYS: u32 = 7;
/// Maximum age of evidence in days.
pub const MAX_EVIDENCE_DAYS: u32 = 180;

/// A caller as two hashes. Who shares either of them with another is no second caller: many keys of
/// one user count once, and so do many users of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerHashes {
    /// Hash of the root key.
    pub root_key: u32,
    /// Hash of the user.
    pub subject: u32,
}

impl CallerHashes {
    fn is_same_caller(self, other: Self) -> bool {
        self.root_key == other.root_key || self.subject == other.subject
    }
}

/// Evidence for one stem of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StemEvidence {
    /// Hash of the stem.
    pub stem: u64,
    /// Day of the last call.
    pub day: u32,
    /// Distinct callers.
    pub callers: Vec<CallerHashes>,
}

impl StemEvidence {
    /// Returns the strength from 0 to 0.8, by the number of callers; 0 if it is too old.
    pub fn strength(&self, today: u32) -> f32 {
        if self.is_expired(today) {
            return 0.0;
        }
        let callers = self.callers.len().min(MAX_STEM_CALLERS);
        let callers = f32::from(u8::try_from(callers).unwrap_or_default());
        callers / (callers + 2.0)
    }

    /// Orders evidence, the weakest first, then the oldest.
    pub fn rank(&self) -> (usize, u32) {
        (self.callers.len(), self.day)
    }

    /// Returns true if evidence of a new stem may take the place of this one: it has one caller, and was without a call
    /// for [`MIN_IDLE_DAYS`].
    fn is_replaceable(&self, today: u32) -> bool {
        self.callers.len() <= 1 && today.saturating_sub(self.day) >= MIN_IDLE_DAYS
    }

    fn is_expired(&self, today: u32) -> bool {
        today.saturating_sub(self.day) > MAX_EVIDENCE_DAYS
    }

    fn add_caller(&mut self, caller: CallerHashes, today: u32) -> bool {
        let is_newer = today > self.day;
        self.day = self.day.max(today);
        let is_known = self.callers.iter().any(|it| it.is_same_caller(caller));
        let is_added = !is_known && self.callers.len() < MAX_STEM_CALLERS;
        if is_added {
            self.callers.push(caller);
        }
        is_newer || is_added
    }
}

/// Evidence for one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolEvidence(Vec<StemEvidence>);

impl ToolEvidence {
    /// Adds a call after a query with these stems. Where the tool has [`MAX_TOOL_STEMS`], a new stem replaces evidence of
    /// one caller without a call for [`MIN_IDLE_DAYS`], and is not added without such. Returns true if anything changed.
    pub fn add_call(&mut self, stems: &[u64], caller: CallerHashes, today: u32) -> bool {
        let mut is_changed = false;
        for &stem in stems.iter().take(MAX_QUERY_STEMS) {
            is_changed |= match self.0.iter_mut().find(|it| it.stem == stem) {
                Some(known) => known.add_caller(caller, today),
                None => self.add_stem(StemEvidence { stem, day: today, callers: vec![caller] }),
            };
        }
        is_changed
    }

    fn add_stem(&mut self, new: StemEvidence) -> bool {
        if self.0.len() < MAX_TOOL_STEMS {
            self.0.push(new);
            return true;
        }
        let today = new.day;
        let replaceable = self.0.iter_mut().filter(|it| it.is_replaceable(today));
        let Some(oldest) = replaceable.min_by_key(|it| (it.day, it.stem)) else { return false };
        *oldest = new;
        true
    }

    /// Removes what is too old, and applies the bounds. Returns true if any stem was removed.
    pub fn remove_expired(&mut self, today: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|it| !it.is_expired(today));
        self.apply_bounds();
        self.0.len() != before
    }

    /// Applies the bounds to the evidence of a stored row. The weakest stems leave first, then the oldest.
    pub fn apply_bounds(&mut self) {
        self.0.retain(|it| !it.callers.is_empty());
        self.0.iter_mut().for_each(|it| it.callers.truncate(MAX_STEM_CALLERS));
        while self.0.len() > MAX_TOOL_STEMS {
            let weakest = self.0.iter().enumerate().min_by_key(|(_, it)| (it.rank(), it.stem));
            let Some((at, _)) = weakest else { return };
            self.0.remove(at);
        }
    }

    /// Returns the evidence by stem.
    pub fn stems(&self) -> &[StemEvidence] {
        &self.0
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Orders tools, the one with the weakest evidence first, then the oldest.
    pub fn rank(&self) -> (usize, u32) {
        let strongest = self.0.iter().map(|it| it.callers.len()).max();
        let newest = self.0.iter().map(|it| it.day).max();
        (strongest.unwrap_or_default(), newest.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CallerHashes, MAX_QUERY_STEMS, MAX_STEM_CALLERS, MAX_TOOL_STEMS, StemEvidence, ToolEvidence,
    };

    fn caller(number: u32) -> CallerHashes {
        CallerHashes { root_key: number, subject: number }
    }

    fn strength(evidence: &ToolEvidence, stem: u64, today: u32) -> f32 {
        let found = evidence.stems().iter().find(|it| it.stem == stem);
        found.map_or(0.0, |it| it.strength(today))
    }

    #[test]
    fn a_caller_counts_once_by_key_and_by_user() {
        let mut evidence = ToolEvidence::default();
        for _ in 0..100 {
            evidence.add_call(&[7], caller(1), 10);
        }
        let same_user = CallerHashes { root_key: 2, subject: 1 };
        let same_key = CallerHashes { root_key: 1, subject: 2 };
        assert!(!evidence.add_call(&[7], same_user, 10) && !evidence.add_call(&[7], same_key, 10));
        assert!((strength(&evidence, 7, 10) - 1.0 / 3.0).abs() < 1e-6);
        assert!(evidence.add_call(&[7], caller(3), 10), "control: another caller counts");
        assert!((strength(&evidence, 7, 10) - 0.5).abs() < 1e-6);
        for number in 0..100 {
            evidence.add_call(&[7], caller(number), 10);
        }
        assert_eq!(evidence.stems()[0].callers.len(), MAX_STEM_CALLERS);
        assert!((strength(&evidence, 7, 10) - 0.8).abs() < 1e-6);
    }

    #[test]
    fn evidence_ends_after_180_days_without_a_call() {
        let mut evidence = ToolEvidence::default();
        evidence.add_call(&[7, 8], caller(1), 10);
        assert!(evidence.add_call(&[8], caller(1), 50), "the day counts");
        assert!(strength(&evidence, 7, 190) > 0.0);
        assert!(strength(&evidence, 7, 191).abs() < 1e-6);
        assert!(!evidence.remove_expired(190));
        assert!(evidence.remove_expired(191));
        assert_eq!(evidence.stems().iter().map(|it| it.stem).collect::<Vec<_>>(), [8]);
        assert!(evidence.remove_expired(231) && evidence.is_empty());
    }

    #[test]
    fn a_new_stem_replaces_one_caller_without_a_call_for_a_week_and_nothing_else() {
        let mut evidence = ToolEvidence::default();
        evidence.add_call(&[1], caller(1), 5);
        evidence.add_call(&[1], caller(2), 5);
        evidence.add_call(&[2], caller(1), 6);
        for stem in 100..100 + MAX_TOOL_STEMS as u64 - 2 {
            evidence.add_call(&[stem], caller(1), 7);
        }
        let full = evidence.clone();
        let many: Vec<u64> = (900..1_000).collect();
        assert!(!evidence.add_call(&many, caller(3), 12), "six days after");
        assert_eq!(evidence, full);
        assert!(evidence.add_call(&many, caller(3), 13), "control: a week after the call of one");
        let has = |stem| evidence.stems().iter().any(|it| it.stem == stem);
        assert_eq!(evidence.stems().len(), MAX_TOOL_STEMS);
        assert!(has(1) && !has(2) && has(100) && has(900) && !has(901));
    }

    #[test]
    fn a_call_teaches_the_first_stems_of_a_query() {
        let mut evidence = ToolEvidence::default();
        let many: Vec<u64> = (0..100).collect();
        evidence.add_call(&many, caller(1), 5);
        let stems: Vec<u64> = evidence.stems().iter().map(|it| it.stem).collect();
        assert_eq!(stems, many[..MAX_QUERY_STEMS]);
    }

    #[test]
    fn evidence_of_a_row_beyond_the_bounds_loses_its_weakest() {
        let of_stem = |stem: u64, callers: u32| StemEvidence {
            stem,
            day: 5,
            callers: (0..callers).map(caller).collect(),
        };
        let stems = (0..40).map(|stem| of_stem(stem, if stem < 10 { 0 } else { 12 }));
        let mut evidence = ToolEvidence(stems.chain([of_stem(99, 1)]).collect());
        evidence.apply_bounds();
        assert!(
            evidence.stems().iter().all(|it| (1..=MAX_STEM_CALLERS).contains(&it.callers.len()))
        );
        assert_eq!(evidence.stems().len(), 31);
        let stems = (0..40).map(|stem| of_stem(stem, if stem == 3 { 1 } else { 2 }));
        let mut evidence = ToolEvidence(stems.collect());
        evidence.apply_bounds();
        assert_eq!(evidence.stems().len(), MAX_TOOL_STEMS);
        assert!(evidence.stems().iter().all(|it| it.stem > 7 && it.stem != 3));
    }
}
