//! Calls that one segment opens and closes, so that a start needs not read an old segment twice.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tool::CallId;
use tool::ledger::RecordKind;

use crate::frame::Frame;
use crate::record_index::SearchKey;

/// Calls with an intent and no outcome, with the number of the intent and its search key.
pub(crate) type OpenCalls = HashMap<CallId, (u64, Option<SearchKey>)>;

/// Changes of the open calls by the frames of a segment. A call has one intent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentCalls {
    /// Number of its frames.
    pub(crate) records: u64,
    /// Calls with an intent in the segment and no outcome after it, with the number of the intent.
    opened: HashMap<CallId, u64>,
    /// Calls with an outcome in the segment and no intent before it.
    closed: Vec<CallId>,
}

impl SegmentCalls {
    /// Visits the next frame of the segment.
    pub(crate) fn visit_frame(&mut self, frame: &Frame<'_>) {
        self.records += 1;
        let Some(call) = frame.call_id else { return };
        match frame.kind {
            RecordKind::Intent => drop(self.opened.insert(call, frame.seq)),
            RecordKind::Outcome if self.opened.remove(&call).is_none() => self.closed.push(call),
            _ => {}
        }
    }

    /// Returns the number of calls that the segment leaves open or ends.
    pub(crate) fn len(&self) -> usize {
        self.opened.len() + self.closed.len()
    }

    /// Frees the memory of calls that ended within the segment.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.opened.shrink_to_fit();
        self.closed.shrink_to_fit();
    }

    /// Applies all frames of the segment to the calls that were open before it.
    pub(crate) fn apply_to(&self, open_calls: &mut OpenCalls) {
        for call in &self.closed {
            open_calls.remove(call);
        }
        open_calls.extend(self.opened.iter().map(|(call, seq)| (*call, (*seq, None))));
    }
}

#[cfg(test)]
mod tests {
    use tool::ledger::RecordKind;

    use super::{OpenCalls, SegmentCalls};
    use crate::frame::{FrameBuilder, decode_frame};
    use crate::tests::fixture::{Random, id};

    /// Applies one frame to the open calls, as a replay does.
    fn replay_frame(open_calls: &mut OpenCalls, call: u64, kind: RecordKind, seq: u64) {
        match kind {
            RecordKind::Intent => drop(open_calls.insert(id(call), (seq, None))),
            RecordKind::Outcome => drop(open_calls.remove(&id(call))),
            _ => {}
        }
    }

    /// Calls end in their segment, in a later one, twice, without an intent, or never.
    #[test]
    fn the_open_calls_of_a_segment_are_those_of_its_frames() {
        let mut random = Random::new(5);
        let mut most = 0;
        for _ in 0..200 {
            let (mut model, mut open_calls, mut seq) = (OpenCalls::new(), OpenCalls::new(), 0);
            let mut calls = 0;
            for _ in 0..4 {
                let mut segment = SegmentCalls::default();
                for _ in 0..random.below(12) {
                    seq += 1;
                    let kinds = [RecordKind::Intent, RecordKind::Outcome, RecordKind::Refusal];
                    let kind = kinds[random.index(3)];
                    calls += u64::from(kind == RecordKind::Intent);
                    let call = match kind {
                        RecordKind::Intent => calls,
                        _ => random.below(calls + 2),
                    };
                    let mut frame = FrameBuilder::json(kind, Some(id(call)), &0).unwrap();
                    let frame = frame.finish(seq).to_vec();
                    segment.visit_frame(&decode_frame(&frame).unwrap());
                    replay_frame(&mut model, call, kind, seq);
                }
                segment.apply_to(&mut open_calls);
                assert_eq!(open_calls, model);
                most = most.max(model.len());
            }
        }
        assert!(most > 3, "{most} calls are open at most");
    }
}
