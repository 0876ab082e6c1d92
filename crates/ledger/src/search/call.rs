//! The records of one call.

use tool::ledger::Record;
use tool::{CallId, LedgerError};

use crate::index::Entry;
use crate::records::{begins, record};
use crate::segment_filter::Key;

use super::parts::Goes;
use super::{CHUNK, Search};

impl Search<'_> {
    /// All records of a call, oldest first.
    pub(crate) fn of_call(mut self, call: CallId) -> Result<Vec<Record>, LedgerError> {
        let (entries, first) = self.entries_of(call);
        let mut found = entries.iter().filter_map(|entry| self.read(entry)).collect::<Vec<_>>();
        let spans = self.inner.index().spans_before(first);
        for (span, end) in spans {
            // A call that waited for an approval has records before its intent. They are looked for where that costs next to nothing.
            let has_begun = found.iter().any(|record| begins(record.kind));
            if has_begun && self.inner.index().filter(span.number).is_none() {
                continue;
            }
            for part in self.parts((span, end), &[Key::Call(call)]) {
                self.walk(&part, first, &mut |_, _, frame| {
                    if frame.call == Some(call) {
                        found.extend(record(frame));
                    }
                    Goes::On
                })?;
            }
        }
        found.sort_by_key(|record| record.seq);
        Ok(found)
    }

    /// Its entries in the index, and the first number that is in the index.
    fn entries_of(&self, call: CallId) -> (Vec<Entry>, u64) {
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        loop {
            let of_call = |entry: &Entry| entry.call == Some(call);
            let (entries, lowest) = self.inner.index().scan(before, CHUNK, of_call);
            found.extend(entries);
            // Where records were damaged, their numbers may not fall: each turn must.
            let Some(lowest) = lowest else { return (found, before) };
            before = lowest.min(before.saturating_sub(1));
        }
    }
}
