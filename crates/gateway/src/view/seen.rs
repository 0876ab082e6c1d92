//! What one rights class sees of one part of a catalog. The next view of the class has it from this one,
//! as long as neither the part nor the policy changes.

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
    /// By their places on the shelf.
    methods: Box<[Option<Residual>]>,
    count: usize,
    /// Bytes of the largest arguments that any of its tools takes.
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
        // Whoever may use no tool of a source that has some gets nothing else of it either.
        let closed = count == 0 && !part.shelf().tools.is_empty();
        let methods = part.shelf().methods.iter();
        let methods = methods.map(|entry| admit(entry).filter(|_| !closed)).collect();
        let (part, print) = (Arc::clone(part), OnceLock::new());
        let tools = shared.settle(residuals);
        shared.one(Arc::new(Self { part, tools, methods, count, arguments, print }))
    }

    /// Of which part.
    pub(super) fn part(&self) -> &Arc<Part> {
        &self.part
    }

    /// Whether both are the same but for where they lie.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.tools.is_like(&other.tools) && self.methods == other.methods
    }

    pub(super) fn tool(&self, place: usize) -> Option<&Residual> {
        self.tools.get(place)
    }

    /// A method by its name, with what is left of it.
    pub(super) fn method(&self, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        let mut methods = self.part.shelf().methods.iter().zip(&self.methods);
        let (entry, residual) = methods.find(|(entry, _)| entry.key.name.as_str() == name)?;
        Some((entry, residual.as_ref()?))
    }

    /// The tools that are seen, from a place on.
    pub(super) fn tools_from(&self, place: usize) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        let tools = self.part.tools_from(place).iter().zip(self.tools.seen(place));
        tools.filter_map(|(entry, seen)| entry.as_ref().filter(|_| seen))
    }

    /// How many tools are seen.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether anything is.
    pub(super) fn any(&self) -> bool {
        self.count > 0 || self.methods.iter().any(Option::is_some)
    }

    pub(super) fn arguments(&self) -> usize {
        self.arguments
    }

    /// A hash of the names and definitions of the tools that are seen; worked out for who asks first.
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
