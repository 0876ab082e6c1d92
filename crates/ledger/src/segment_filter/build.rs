//! Building a filter: one pass over a sealed segment.

use std::collections::{HashMap, HashSet};
use std::io;

use tool::CallId;
use tool::ledger::Kind;

use crate::disk::Open;
use crate::frame::Frame;
use crate::names::{Names, names};
use crate::segment::{HEADER, Site};
use crate::walk::{Step, Walk};

use super::{FilterHead, Key, PARTS, Part, SegmentFilter, source};

/// A part has at least so many bytes.
const PART_BYTES: u64 = 4 << 10;
/// Asks after so many steps whether to stop.
const STOP_AFTER: u32 = 4_096;

/// What the pass needs of its surroundings.
pub(crate) struct Surroundings<'a> {
    pub(crate) salt: u64,
    /// Whether to give up.
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Finds the names of calls whose intents are in earlier segments.
    pub(crate) names_of: &'a mut dyn FnMut(&HashSet<CallId>) -> HashMap<CallId, Names>,
}

/// Reads the sealed segment `number`. `None` where its header cannot be read, or where it was to stop.
pub(crate) fn build(
    site: &Site,
    number: u32,
    around: &mut Surroundings<'_>,
) -> io::Result<Option<SegmentFilter>> {
    let file = site.open(number, Open::Read)?;
    let Some(source) = source(file.as_ref(), number)? else { return Ok(None) };
    let mut pass = Pass::new(FilterHead::empty(number, source, around.salt));
    let mut walk = Walk::new(file.as_ref(), HEADER as u64, source.size)?;
    for step in 1_u32.. {
        if step.is_multiple_of(STOP_AFTER) && (around.stop)() {
            return Ok(None);
        }
        match walk.next()? {
            Step::Frame(at, frame) => pass.frame(at, &frame),
            // What may be read there once the damage is repaired is not known.
            Step::Garbage { .. } => pass.head.unreadable |= pass.bit(),
            Step::End(_) => break,
        }
    }
    pass.end_part();
    let foreign = pass.foreign.keys().copied().collect::<HashSet<_>>();
    let names = if foreign.is_empty() { HashMap::new() } else { (around.names_of)(&foreign) };
    Ok(Some(pass.filter(&names)))
}

/// A call whose intent has no names that can be read.
const NAMELESS: u32 = u32::MAX;

struct Pass {
    head: FilterHead,
    part_bytes: u64,
    /// Hashes, of each part that has begun.
    keys: Vec<Vec<u64>>,
    /// Names by their places in `names`.
    ids: HashMap<Names, u32>,
    names: Vec<Names>,
    /// The names that the part has.
    used: HashSet<u32>,
    /// The intents of the segment.
    intents: HashMap<CallId, u32>,
    /// Calls that began in an earlier segment, and the parts with records of theirs.
    foreign: HashMap<CallId, u64>,
    /// The call before.
    last: Option<CallId>,
}

impl Pass {
    fn new(mut head: FilterHead) -> Self {
        // Whatever is before the first record belongs to the first part.
        head.parts.push(Part { offset: HEADER as u64, first: 0 });
        Self {
            part_bytes: (head.source.size / PARTS as u64 + 1).max(PART_BYTES),
            head,
            keys: vec![Vec::new()],
            ids: HashMap::new(),
            names: Vec::new(),
            used: HashSet::new(),
            intents: HashMap::new(),
            foreign: HashMap::new(),
            last: None,
        }
    }

    /// The bit of the part.
    fn bit(&self) -> u64 {
        1 << (self.head.parts.len().clamp(1, PARTS) - 1)
    }

    fn begin_part(&mut self, at: u64, seq: u64) {
        let parts = self.head.parts.len();
        let Some(part) = self.head.parts.last_mut() else { return };
        if part.first == 0 {
            part.first = seq;
        } else if at - part.offset >= self.part_bytes && parts < PARTS {
            self.end_part();
            self.head.parts.push(Part { offset: at, first: seq });
            self.keys.push(Vec::new());
        }
    }

    fn end_part(&mut self) {
        self.last = None;
        for id in std::mem::take(&mut self.used) {
            if let Some(names) = self.names.get(id as usize) {
                let keys = name_keys(names, self.head.salt);
                self.keys.last_mut().into_iter().for_each(|all| all.extend(keys));
            }
        }
    }

    fn frame(&mut self, at: u64, frame: &Frame<'_>) {
        self.begin_part(at, frame.seq);
        if let Some(call) = frame.call.filter(|call| self.last != Some(*call)) {
            self.last = Some(call);
            let (low, high) = self.head.calls.unwrap_or((call, call));
            self.head.calls = Some((low.min(call), high.max(call)));
            let hash = Key::Call(call).hash(self.head.salt);
            self.keys.last_mut().into_iter().for_each(|all| all.push(hash));
        }
        match frame.kind {
            Kind::Intent | Kind::Wait | Kind::Refused | Kind::Event => {
                let id = names(frame).map(|names| self.id(names.into_names()));
                self.used.extend(id);
                if let (Kind::Intent, Some(call)) = (frame.kind, frame.call) {
                    self.intents.insert(call, id.unwrap_or(NAMELESS));
                }
            }
            // Its names are those of its intent.
            _ => {
                let Some(call) = frame.call else { return };
                match self.intents.get(&call) {
                    Some(&NAMELESS) => {}
                    Some(id) => drop(self.used.insert(*id)),
                    None => *self.foreign.entry(call).or_default() |= self.bit(),
                }
            }
        }
    }

    fn id(&mut self, names: Names) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(NAMELESS);
        *self.ids.entry(names).or_insert_with_key(|names| {
            self.names.push(names.clone());
            next
        })
    }

    /// `names`: what is known of the calls that began earlier. Parts with others of them may hold any names.
    fn filter(mut self, names: &HashMap<CallId, Names>) -> SegmentFilter {
        for (call, parts) in &self.foreign {
            let Some(names) = names.get(call) else {
                self.head.unnamed |= parts;
                continue;
            };
            let of_part = |(part, _): &(usize, _)| parts & (1 << part) != 0;
            for (_, keys) in self.keys.iter_mut().enumerate().filter(of_part) {
                keys.extend(name_keys(names, self.head.salt));
            }
        }
        for keys in &mut self.keys {
            keys.sort_unstable();
            keys.dedup();
        }
        SegmentFilter::new(self.head, &self.keys)
    }
}

fn name_keys(Names { org, tool, caller }: &Names, salt: u64) -> [u64; 4] {
    let keys = [Key::Org(org), Key::Tool(tool), Key::OrgAndTool(org, tool), Key::Caller(caller)];
    keys.map(|key| key.hash(salt))
}
