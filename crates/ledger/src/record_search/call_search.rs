//! Search for all records of one call, oldest first.

use tool::ledger::LedgerRecord;
use tool::{CallId, LedgerError};

use crate::record_index::IndexEntry;
use crate::record_reader::{decode_record, is_first_of_call};
use crate::segment_filter::FilterKey;

use super::segment_parts::VisitFlow;
use super::{INDEX_CHUNK_ENTRIES, RecordSearch};

impl RecordSearch<'_> {
    /// Returns all records of a call, oldest first.
    pub(crate) fn list_for_call(mut self, call: CallId) -> Result<Vec<LedgerRecord>, LedgerError> {
        let (entries, first) = self.index_entries_of(call);
        let mut found =
            entries.iter().filter_map(|entry| self.read_entry(entry)).collect::<Vec<_>>();
        let ranges = self.inner.lock_index().ranges_before(first);
        for range in ranges {
            // A call that waited for approval has records before its intent. They are searched only
            // where that is cheap.
            let has_begun = found.iter().any(|record| is_first_of_call(record.kind));
            if has_begun && self.inner.lock_index().segment_filter(range.number).is_none() {
                continue;
            }
            for part in self.find_parts(range, &[FilterKey::Call(call)]) {
                self.visit_frames(&part, first, &mut |_, _, frame| {
                    if frame.call_id == Some(call) {
                        found.extend(decode_record(frame));
                    }
                    VisitFlow::Continue
                })?;
            }
        }
        found.sort_by_key(|record| record.sequence);
        Ok(found)
    }

    /// Its entries in the index, and the first number that is in the index.
    fn index_entries_of(&self, call: CallId) -> (Vec<IndexEntry>, u64) {
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        loop {
            let of_call = |entry: &IndexEntry| entry.call_id == Some(call);
            let (entries, lowest) =
                self.inner.lock_index().scan_entries(before, INDEX_CHUNK_ENTRIES, of_call);
            found.extend(entries);
            // With damaged records, numbers may not decrease, but each turn must.
            let Some(lowest) = lowest else { return (found, before) };
            before = lowest.min(before.saturating_sub(1));
        }
    }
}
