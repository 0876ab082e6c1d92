//! Evidence for a tool from calls after searches: for each stem of a query, who called it.
//!
//! Bounded in every direction, and pure: stems and callers are hashes that the caller makes, and days
//! are numbers that it counts.

use serde::{Deserialize, Serialize};

/// Maximum number of callers that count for a stem of a tool.
pub const MAX_STEM_CALLERS: usize = 8;
/// Maximum number of stems of a tool. The weakest leave first, then the oldest.
pub const MAX_TOOL_STEMS: usize = 32;
/// Maximum number of tools that one stem raises, those with the strongest evidence: a search looks at no more.
pub const MAX_STEM_TOOLS: usize = 64;
/// Maximum age of evidence in days.
pub const MAX_EVIDENCE_DAYS: u32 = 180;

/// A caller as two hashes. Who shares either of them with another is no second caller: many keys of
/// one user count once, and so do many users of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerMark {
    /// Hash of the key.
    pub key: u32,
    /// Hash of the user.
    pub subject: u32,
}

impl CallerMark {
    fn is_same_caller(self, other: Self) -> bool {
        self.key == other.key || self.subject == other.subject
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
    pub callers: Vec<CallerMark>,
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

    fn is_expired(&self, today: u32) -> bool {
        today.saturating_sub(self.day) > MAX_EVIDENCE_DAYS
    }

    fn add_caller(&mut self, caller: CallerMark, today: u32) -> bool {
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
    /// Adds a call after a query with these stems. Returns true if anything changed.
    pub fn add_call(&mut self, stems: &[u64], caller: CallerMark, today: u32) -> bool {
        let mut is_changed = false;
        for &stem in stems {
            if let Some(known) = self.0.iter_mut().find(|it| it.stem == stem) {
                is_changed |= known.add_caller(caller, today);
            } else {
                self.0.push(StemEvidence { stem, day: today, callers: vec![caller] });
                is_changed = true;
            }
        }
        self.apply_bounds();
        is_changed
    }

    /// Removes what is too old or beyond the bounds, as of a row of the store. Returns true if anything was.
    pub fn remove_expired(&mut self, today: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|it| !it.is_expired(today) && !it.callers.is_empty());
        self.0.iter_mut().for_each(|it| it.callers.truncate(MAX_STEM_CALLERS));
        self.apply_bounds();
        self.0.len() != before
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

    fn apply_bounds(&mut self) {
        while self.0.len() > MAX_TOOL_STEMS {
            let weakest = self.0.iter().enumerate().min_by_key(|(_, it)| it.rank());
            let Some((at, _)) = weakest else { return };
            self.0.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallerMark, MAX_STEM_CALLERS, MAX_TOOL_STEMS, ToolEvidence};

    fn caller(number: u32) -> CallerMark {
        CallerMark { key: number, subject: number }
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
        let same_user = CallerMark { key: 2, subject: 1 };
        let same_key = CallerMark { key: 1, subject: 2 };
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
    fn the_weakest_stems_leave_first_then_the_oldest() {
        let mut evidence = ToolEvidence::default();
        evidence.add_call(&[1], caller(1), 5);
        evidence.add_call(&[1], caller(2), 5);
        evidence.add_call(&[2], caller(1), 6);
        for stem in 100..100 + MAX_TOOL_STEMS as u64 - 2 {
            evidence.add_call(&[stem], caller(1), 7);
        }
        let has = |evidence: &ToolEvidence, stem| evidence.stems().iter().any(|it| it.stem == stem);
        assert!(has(&evidence, 2));
        evidence.add_call(&[900], caller(3), 8);
        assert_eq!(evidence.stems().len(), MAX_TOOL_STEMS);
        assert!(has(&evidence, 1) && !has(&evidence, 2) && has(&evidence, 900));
    }
}
