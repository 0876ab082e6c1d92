//! Code that stands beside a tool file (spec 3's kinds `python` and `cpp`), run as a plugin's is.
//!
//! The tool file says what there is in the place of a manifest; folder, versions, cage and process are those
//! of a plugin. It is one that nobody lists: its tools are the tool file's.

mod given;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool::{Digest, Executor, Item, Problem, Source as _, SourceName};

pub(crate) use given::Given;
pub use given::{Call, Code};

use crate::Grant;
use crate::plugin::{Names, PluginSource};
use crate::registry::Registry;

/// What runs now.
#[derive(Debug)]
pub struct Attached {
    /// Counts the states of the code, from 1.
    pub revision: u64,
    /// The hash of what runs.
    pub content: Option<Digest>,
    /// Of each tool that was given, in their order: what runs it, or why nothing does.
    pub tools: Vec<Result<Arc<dyn Executor>, Problem>>,
    /// Why a change of the code was not taken.
    pub refused: Vec<Problem>,
}

/// The code beside one tool file. Dropped, it ends.
#[derive(Debug)]
pub struct Beside {
    name: String,
    source: Arc<PluginSource>,
    names: Arc<dyn Names>,
    registry: Arc<Registry>,
}

/// What the operator gives the source: it has a name of its own, and no plugin's.
#[derive(Debug)]
struct Own {
    of: Arc<dyn Names>,
    source: String,
}

impl Names for Own {
    fn claim(&self, _: &str, _: &Path) -> Result<(), PathBuf> {
        Ok(())
    }

    fn grant(&self, _: &str) -> Grant {
        self.of.grant(&self.source)
    }
}

impl Registry {
    /// The code below `folder`, for the tools of the source `name`, which is also the name of its grants.
    pub fn beside(self: &Arc<Self>, name: &SourceName, folder: &Path) -> Beside {
        let of = self.names();
        let names: Arc<dyn Names> = Arc::new(Own { of, source: name.to_string() });
        let with = (self.maker(), Arc::clone(&names));
        let source = PluginSource::attached(name.clone(), folder, with);
        let (name, source) = (name.to_string(), Arc::new(source));
        Beside { name, source, names, registry: Arc::clone(self) }
    }
}

impl Beside {
    /// Has these run, and nothing else from then on. Where the code is broken what ran before goes on.
    pub async fn take(&self, code: &[Code]) -> Attached {
        let grant = self.names.grant(&self.name);
        let (given, unfit) = Given::new(&self.name, code, &grant);
        let given = Arc::new(given);
        if self.source.give(Arc::clone(&given)) {
            self.registry.follow_beside(&self.source);
        }
        self.source.ask().await;
        let listing = self.source.list().await.unwrap_or_default();
        let standing = self.source.standing();
        let refused = self.source.refused();
        let tools = code.iter().zip(unfit).map(|(code, unfit)| {
            if let Some(problem) = unfit {
                return Err(problem);
            }
            let id = given::id(code);
            let found = listing.offers.iter().find(|offer| match &offer.item {
                Item::Tool(tool) => tool.name.as_str().ends_with(&format!(".{id}")),
                _ => false,
            });
            let why = || {
                let state = standing.tools.iter().find(|tool| tool.name == id);
                let why = state.and_then(|tool| tool.why.clone());
                let told = |message: String| Problem::new(self.name.as_str(), message);
                let first = || refused.first().or(listing.problems.first()).cloned();
                let why = why.map(told).or_else(first);
                why.unwrap_or_else(|| told("its code is not run".to_owned()))
            };
            found.map(|offer| Arc::clone(&offer.executor)).ok_or_else(why)
        });
        let tools = tools.collect();
        Attached { revision: listing.revision.0.max(1), content: standing.content, tools, refused }
    }

    /// Resolves when the code is another than that of `seen`.
    pub async fn changed(&self, seen: u64) -> u64 {
        self.source.changed(tool::Revision(seen)).await.0
    }

    /// Ends it: calls that run are answered.
    pub fn close(&self) {
        self.source.end();
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.source.end();
    }
}
