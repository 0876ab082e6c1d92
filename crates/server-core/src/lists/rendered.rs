//! Tools as one format writes them: each when it is first asked for, and no more bytes of them kept than a bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use catalog::{Catalog, Entry};
use formats::{AliasMap, Format};
use tool::Json;

/// What a rendered tool counts for beside its text, in bytes.
const AROUND: usize = 256;

/// Tools of one catalog in one format, under these names.
#[derive(Debug)]
pub struct Rendered {
    /// The names.
    pub names: Arc<AliasMap>,
    /// Who asks has a view of it: what is kept of an older catalog does not keep that.
    catalog: Weak<Catalog>,
    format: Format,
    /// Bytes of written tools that are kept.
    most: usize,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    bytes: usize,
    tools: HashMap<Box<str>, One>,
    /// How many were written.
    #[cfg(test)]
    count: usize,
}

/// A tool, and how it was written.
#[derive(Debug, Clone)]
struct One {
    entry: Arc<Entry>,
    rendered: Arc<formats::Rendered>,
}

impl One {
    fn bytes(&self) -> usize {
        self.rendered.json.as_ref().map_or(0, |json| json.bytes().len()) + AROUND
    }
}

impl Rendered {
    /// Nothing is written yet, but for what was written of the catalog before and is the same, under the same
    /// name. At most so many bytes are kept.
    pub(super) fn new(
        catalog: &Arc<Catalog>,
        (format, names): (Format, Arc<AliasMap>),
        most: usize,
        before: Option<&Self>,
    ) -> Self {
        let mut written = Written::default();
        if let Some(before) = before {
            let old = before.written();
            let same = |name: &str, one: &One| {
                let there = own(catalog, name).is_some_and(|entry| Arc::ptr_eq(entry, &one.entry));
                there && before.names.alias(name) == names.alias(name)
            };
            let kept = old.tools.iter().filter(|(name, one)| same(name, one));
            written.tools = kept.map(|(name, one)| (name.clone(), one.clone())).collect();
            written.bytes = written.tools.values().map(One::bytes).sum();
        }
        let (catalog, written) = (Arc::downgrade(catalog), Mutex::new(written));
        Self { names, catalog, format, most, written }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One tool with what its format does not say.
    pub fn tool(&self, name: &str) -> Option<Arc<formats::Rendered>> {
        if let Some(one) = self.written().tools.get(name) {
            return Some(Arc::clone(&one.rendered));
        }
        let catalog = self.catalog.upgrade()?;
        let entry = own(&catalog, name)?;
        let alias = self.names.alias(name).unwrap_or(name);
        // Outside the lock: two callers may write one tool at once, and agree.
        let rendered = Arc::new(formats::render(self.format, &entry.tool, alias));
        let one = One { entry: Arc::clone(entry), rendered: Arc::clone(&rendered) };
        let mut written = self.written();
        if written.bytes + one.bytes() > self.most {
            // Begun anew, as lists are.
            let gone = std::mem::take(&mut written.tools);
            written.bytes = 0;
            gateway::away(true, gone);
        }
        #[cfg(test)]
        {
            written.count += 1;
        }
        written.bytes += one.bytes();
        let before = written.tools.insert(name.into(), one);
        written.bytes -= before.map_or(0, |before| before.bytes());
        Some(rendered)
    }

    /// One tool; `None` where there is none, or the format cannot say it.
    pub fn fragment(&self, name: &str) -> Option<Json> {
        self.tool(name)?.json.clone()
    }

    /// How many tools are kept.
    pub(super) fn len(&self) -> usize {
        self.written().tools.len()
    }

    /// How many were written, and the bytes that are kept.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let written = self.written();
        (written.count, written.bytes)
    }
}

/// The tool that is listed by this very name.
fn own<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a Arc<Entry>> {
    let (_, entry) = catalog.find(name)?;
    (entry.name.as_str() == name).then_some(entry)
}
