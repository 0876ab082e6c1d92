//! The visible part of one source for one rights class; reused by the class's next view while source and
//! policy are unchanged.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use catalog::{Entry, Part};
use policy::Residual;
use tool::Limits;

use super::residuals::{Building, Residuals, Shared};

#[derive(Debug)]
pub(super) struct Seen {
    part: Arc<Part>,
    tools: Residuals,
    /// Residuals of methods by their index in the source.
    methods: Box<[Option<Residual>]>,
    count: usize,
    /// Maximum size in bytes of the arguments of any of its tools.
    arguments: usize,
    print: OnceLock<u64>,
}

impl Seen {
    pub(super) fn new(
        part: &Arc<Part>,
        admit: impl Fn(&Arc<Entry>) -> Option<Residual>,
        shared: &Shared,
    ) -> Arc<Self> {
        let mut residuals = Building::default();
        let (mut count, mut arguments) = (0, Limits::ARGUMENTS.bytes);
        for place in part.tools_from(0) {
            let seen = place.as_ref().and_then(|entry| Some((entry, admit(entry)?)));
            if let Some((entry, _)) = &seen {
                arguments = arguments.max(entry.tool.traits.limits().bytes);
                count += 1;
            }
            residuals.push(seen.map(|(_, residual)| residual));
        }
        // A class without any tool of a source that has tools does not get its other items either.
        let closed = count == 0 && !part.shelf().tools.is_empty();
        let methods = part.shelf().methods.iter();
        let methods = methods.map(|entry| admit(entry).filter(|_| !closed)).collect();
        let (part, print) = (Arc::clone(part), OnceLock::new());
        let tools = shared.settle(residuals);
        shared.one(Arc::new(Self { part, tools, methods, count, arguments, print }))
    }

    /// Returns the merged source.
    pub(super) fn part(&self) -> &Arc<Part> {
        &self.part
    }

    /// Returns true if both have equal content in shared memory.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.tools.is_like(&other.tools) && self.methods == other.methods
    }

    pub(super) fn tool(&self, place: usize) -> Option<&Residual> {
        self.tools.get(place)
    }

    /// Finds a method by name with its residual.
    pub(super) fn method(&self, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        let mut methods = self.part.shelf().methods.iter().zip(&self.methods);
        let (entry, residual) = methods.find(|(entry, _)| entry.key.name.as_str() == name)?;
        Some((entry, residual.as_ref()?))
    }

    /// Iterates over the visible tools from an index on.
    pub(super) fn tools_from(&self, place: usize) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        let tools = self.part.tools_from(place).iter().zip(self.tools.seen(place));
        tools.filter_map(|(entry, seen)| entry.as_ref().filter(|_| seen))
    }

    /// Returns the number of visible tools.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns true if it has any visible item.
    pub(super) fn any(&self) -> bool {
        self.count > 0 || self.methods.iter().any(Option::is_some)
    }

    pub(super) fn arguments(&self) -> usize {
        self.arguments
    }

    /// Returns a hash of the names and definitions of the visible tools, computed on first use.
    pub(super) fn print(&self) -> u64 {
        *self.print.get_or_init(|| {
            let mut hash = DefaultHasher::new();
            for entry in self.tools_from(0) {
                entry.name.as_str().hash(&mut hash);
                entry.definition.hash(&mut hash);
            }
            hash.finish()
        })
    }
}
