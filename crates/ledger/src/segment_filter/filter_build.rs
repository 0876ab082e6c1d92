//! Building a filter: one pass over a sealed segment, which gives its summary too.

use std::collections::{HashMap, HashSet};
use std::io;

use tool::CallId;
use tool::call_outcome::CallStatus;
use tool::ledger::RecordKind;

use crate::disk::OpenMode;
use crate::frame::Frame;
use crate::frame_reader::ReadStep;
use crate::search_fields::{SearchFacts, SearchFields, has_search_fields, search_fields};
use crate::segment::{SEGMENT_HEADER_BYTES, WriterDir};
use crate::segment_scan::SegmentScan;
use crate::segment_summary::SegmentSummary;

use super::{FilterHeader, FilterKey, FilterPart, MAX_PARTS, SegmentFilter, read_source};

/// A part has at least so many bytes.
const MIN_PART_BYTES: u64 = 4 << 10;

/// Dependencies of the build pass.
pub(crate) struct FilterBuildContext<'a> {
    pub(crate) salt: u64,
    /// Returns whether the build must stop.
    pub(crate) should_stop: &'a dyn Fn() -> bool,
    /// Finds the search fields of calls whose intents are in earlier segments.
    pub(crate) find_search_fields:
        &'a mut dyn FnMut(&HashSet<CallId>) -> HashMap<CallId, SearchFields>,
}

/// Builds the filter of the sealed segment `number`. `None` if its header is unreadable or the
/// build was stopped.
pub(crate) fn build_filter(
    writer_dir: &WriterDir,
    number: u32,
    context: &mut FilterBuildContext<'_>,
) -> io::Result<Option<SegmentFilter>> {
    let file = writer_dir.open_segment(number, OpenMode::Read)?;
    let Some(source) = read_source(file.as_ref(), number)? else { return Ok(None) };
    let mut pass = FilterBuilder::new(FilterHeader::new_empty(number, source, context.salt));
    let mut visit = |read: &ReadStep<'_>| match read {
        ReadStep::Frame(at, frame) => pass.visit_frame(*at, frame),
        // The records that a repair could recover there are unknown.
        ReadStep::Garbage { .. } => pass.header.unreadable_parts |= pass.part_bit(),
        ReadStep::End(_) => {}
    };
    let whole = (writer_dir, number, None);
    let scan = SegmentScan::scan_with(whole, context.should_stop, &mut visit)?;
    let Some(scan) = scan else { return Ok(None) };
    pass.end_part();
    let foreign = pass.earlier_calls.keys().copied().collect::<HashSet<_>>();
    let names =
        if foreign.is_empty() { HashMap::new() } else { (context.find_search_fields)(&foreign) };
    let filter = pass.into_filter(&names);
    // The file may have changed since the pass began; then the filter is of another state anyway.
    let summary = SegmentSummary::from_scan(&scan).filter(|_| scan.size == source.size_bytes);
    let encoded = summary.map(|summary| summary.encode_summary()).transpose()?;
    Ok(Some(filter.with_summary(encoded.unwrap_or_default())))
}

/// Marks a call whose intent has no readable names.
const NO_NAMES: u32 = u32::MAX;

struct FilterBuilder {
    header: FilterHeader,
    part_bytes: u64,
    /// Hashes, of each part that has begun.
    keys: Vec<Vec<u64>>,
    /// Names by their places in `names`.
    name_ids: HashMap<SearchFields, u32>,
    names: Vec<SearchFields>,
    /// The names that the part has.
    used_names: HashSet<u32>,
    /// The intents of the segment.
    intents: HashMap<CallId, u32>,
    /// Calls that began in an earlier segment, and the parts with records of theirs.
    earlier_calls: HashMap<CallId, u64>,
    /// The call before.
    last_call: Option<CallId>,
    /// The call that made the last call that another one made.
    last_parent: Option<CallId>,
    /// The kinds and the statuses that the part has.
    used_kinds: HashSet<RecordKind>,
    used_statuses: HashSet<CallStatus>,
}

impl FilterBuilder {
    fn new(mut head: FilterHeader) -> Self {
        // Bytes before the first record belong to the first part.
        head.parts.push(FilterPart { offset: SEGMENT_HEADER_BYTES as u64, first_seq: 0 });
        Self {
            part_bytes: (head.source.size_bytes / MAX_PARTS as u64 + 1).max(MIN_PART_BYTES),
            header: head,
            keys: vec![Vec::new()],
            name_ids: HashMap::new(),
            names: Vec::new(),
            used_names: HashSet::new(),
            intents: HashMap::new(),
            earlier_calls: HashMap::new(),
            last_call: None,
            last_parent: None,
            used_kinds: HashSet::new(),
            used_statuses: HashSet::new(),
        }
    }

    /// The bit of the part.
    fn part_bit(&self) -> u64 {
        1 << (self.header.parts.len().clamp(1, MAX_PARTS) - 1)
    }

    fn begin_part(&mut self, at: u64, seq: u64) {
        let parts = self.header.parts.len();
        let Some(part) = self.header.parts.last_mut() else { return };
        if part.first_seq == 0 {
            part.first_seq = seq;
        } else if at - part.offset >= self.part_bytes && parts < MAX_PARTS {
            self.end_part();
            self.header.parts.push(FilterPart { offset: at, first_seq: seq });
            self.keys.push(Vec::new());
        }
    }

    fn end_part(&mut self) {
        (self.last_call, self.last_parent) = (None, None);
        self.used_kinds.clear();
        self.used_statuses.clear();
        for id in std::mem::take(&mut self.used_names) {
            if let Some(names) = self.names.get(id as usize) {
                let keys = name_keys(names, self.header.salt);
                self.keys.last_mut().into_iter().for_each(|all| all.extend(keys));
            }
        }
    }

    fn visit_frame(&mut self, at: u64, frame: &Frame<'_>) {
        self.begin_part(at, frame.seq);
        self.add_facts(frame);
        if let Some(call) = frame.call_id.filter(|call| self.last_call != Some(*call)) {
            self.last_call = Some(call);
            let (low, high) = self.header.call_range.unwrap_or((call, call));
            self.header.call_range = Some((low.min(call), high.max(call)));
            let hash = FilterKey::Call(call).key_hash(self.header.salt);
            self.keys.last_mut().into_iter().for_each(|all| all.push(hash));
        }
        if has_search_fields(frame.kind) {
            let id = search_fields(frame).map(|names| self.name_id(names.into_owned_fields()));
            self.used_names.extend(id);
            if let (RecordKind::Intent, Some(call)) = (frame.kind, frame.call_id) {
                self.intents.insert(call, id.unwrap_or(NO_NAMES));
            }
            return;
        }
        // Its names are those of its intent.
        let Some(call) = frame.call_id else { return };
        match self.intents.get(&call) {
            Some(&NO_NAMES) => {}
            Some(id) => drop(self.used_names.insert(*id)),
            None => *self.earlier_calls.entry(call).or_default() |= self.part_bit(),
        }
    }

    fn add_facts(&mut self, frame: &Frame<'_>) {
        let facts = SearchFacts::from_frame(frame);
        let kind = self.used_kinds.insert(frame.kind).then_some(FilterKey::Kind(frame.kind));
        let status = facts.status.filter(|status| self.used_statuses.insert(*status));
        // Calls that one call makes follow each other.
        let parent = facts.parent.filter(|parent| self.last_parent != Some(*parent));
        self.last_parent = parent.or(self.last_parent);
        let keys = [kind, status.map(FilterKey::Status), parent.map(FilterKey::Parent)];
        let hashes = keys.into_iter().flatten().map(|key| key.key_hash(self.header.salt));
        self.keys.last_mut().into_iter().for_each(|all| all.extend(hashes.clone()));
    }

    fn name_id(&mut self, names: SearchFields) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(NO_NAMES);
        *self.name_ids.entry(names).or_insert_with_key(|names| {
            self.names.push(names.clone());
            next
        })
    }

    /// Creates the filter. `names` are the known fields of calls that began earlier; parts with
    /// other such calls may hold any names.
    fn into_filter(mut self, names: &HashMap<CallId, SearchFields>) -> SegmentFilter {
        for (call, parts) in &self.earlier_calls {
            let Some(names) = names.get(call) else {
                self.header.unnamed_parts |= parts;
                continue;
            };
            let of_part = |(part, _): &(usize, _)| parts & (1 << part) != 0;
            for (_, keys) in self.keys.iter_mut().enumerate().filter(of_part) {
                keys.extend(name_keys(names, self.header.salt));
            }
        }
        for keys in &mut self.keys {
            keys.sort_unstable();
            keys.dedup();
        }
        SegmentFilter::new(self.header, &self.keys)
    }
}

fn name_keys(SearchFields { org, tool, caller }: &SearchFields, salt: u64) -> [u64; 4] {
    let keys = [
        FilterKey::Org(org),
        FilterKey::Tool(tool),
        FilterKey::OrgAndTool(org, tool),
        FilterKey::Caller(caller),
    ];
    keys.map(|key| key.key_hash(salt))
}
