//! Host for the code beside a tool file (the research registry's kinds `python` and `cpp`), run
//! like the code of a plugin.
//!
//! The tool file replaces the manifest; folder, versions, sandbox and process are those of a
//! plugin. It is not listed as a plugin: its tools belong to the tool file.

mod synthetic_manifest;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool::{CatalogItem, Digest, Executor, Problem, Source as _, SourceName};

pub(crate) use synthetic_manifest::SyntheticManifest;
pub use synthetic_manifest::{EntryPoint, ToolCode};

use crate::AccessGrant;
use crate::plugin_registry::PluginRegistry;
use crate::plugin_source::{PluginAuthority, PluginSource};

/// The code that is loaded now.
#[derive(Debug)]
pub struct LoadedCode {
    /// Revision of the code, from 1.
    pub revision: u64,
    /// Hash of the running code.
    pub content_digest: Option<Digest>,
    /// For each requested tool, in order: its executor, or the problem that prevents it.
    pub executors: Vec<Result<Arc<dyn Executor>, Problem>>,
    /// Problems of a rejected change of the code.
    pub rejected_problems: Vec<Problem>,
}

/// Handle of the code beside one tool file. Dropping it stops the code.
#[derive(Debug)]
pub struct ToolFileCode {
    source_name: String,
    source: Arc<PluginSource>,
    authority: Arc<dyn PluginAuthority>,
    registry: Arc<PluginRegistry>,
}

/// Grants of a tool file's source, which are separate from those of plugins.
#[derive(Debug)]
struct ToolFileGrants {
    inner: Arc<dyn PluginAuthority>,
    source_name: String,
}

impl PluginAuthority for ToolFileGrants {
    fn claim_name(&self, _: &str, _: &Path) -> Result<(), PathBuf> {
        Ok(())
    }

    fn grant_for(&self, _: &str) -> AccessGrant {
        self.inner.grant_for(&self.source_name)
    }
}

impl PluginRegistry {
    /// Attaches the code below `folder`, for the tools of the source `name`, which also names its
    /// grants.
    pub fn attach_code(self: &Arc<Self>, name: &SourceName, folder: &Path) -> ToolFileCode {
        let of = self.authority();
        let names: Arc<dyn PluginAuthority> =
            Arc::new(ToolFileGrants { inner: of, source_name: name.to_string() });
        let builder = self.version_builder();
        let source = PluginSource::with_name(name.clone(), folder, builder, Arc::clone(&names));
        let (name, source) = (name.to_string(), Arc::new(source));
        ToolFileCode { source_name: name, source, authority: names, registry: Arc::clone(self) }
    }
}

impl ToolFileCode {
    /// Loads this code in place of the previous one. If it is broken, the previous one continues to
    /// run.
    pub async fn load_code(&self, code: &[ToolCode]) -> LoadedCode {
        let grant = self.authority.grant_for(&self.source_name);
        let (synthetic, unfit) = SyntheticManifest::new(&self.source_name, code, &grant);
        let given = Arc::new(synthetic);
        if self.source.set_synthetic_manifest(Arc::clone(&given)) {
            self.registry.watch_attached(&self.source);
        }
        self.source.request_scan().await;
        let listing = self.source.list_offers().await.unwrap_or_default();
        let plugin_status = self.source.status();
        let refused = self.source.rejected_problems();
        let tools = code.iter().zip(unfit).map(|(code, unfit)| {
            if let Some(problem) = unfit {
                return Err(problem);
            }
            let id = synthetic_manifest::tool_id(code);
            let found = listing.offers.iter().find(|offer| match &offer.item {
                CatalogItem::Tool(tool) => tool.name.as_str().ends_with(&format!(".{id}")),
                _ => false,
            });
            let why = || {
                let state = plugin_status.tools.iter().find(|tool| tool.name == id);
                let why = state.and_then(|tool| tool.disabled_reason.clone());
                let told = |message: String| Problem::new(self.source_name.as_str(), message);
                let first = || refused.first().or(listing.problems.first()).cloned();
                let why = why.map(told).or_else(first);
                why.unwrap_or_else(|| told("its code is not executed".to_owned()))
            };
            found.map(|offer| Arc::clone(&offer.executor)).ok_or_else(why)
        });
        let tools = tools.collect();
        LoadedCode {
            revision: listing.revision.0.max(1),
            content_digest: plugin_status.content_digest,
            executors: tools,
            rejected_problems: refused,
        }
    }

    /// Resolves with the new revision when the code differs from that of `known_revision`.
    pub async fn wait_for_change(&self, known_revision: u64) -> u64 {
        self.source.wait_for_change(tool::SourceRevision(known_revision)).await.0
    }

    /// Stops the source of the code; running calls are still answered.
    pub fn close(&self) {
        self.source.stop_source();
    }
}

impl Drop for ToolFileCode {
    fn drop(&mut self) {
        self.source.stop_source();
    }
}
