//! Replacement of a plugin's version: builds the next version, and activates or rejects it.

use tool::{Digest, Problem};

use super::{PluginSource, ReloadOutcome};
use crate::AccessGrant;
use crate::manifest::PluginManifest;
use crate::plugin_folder::{FolderContent, MANIFEST_FILE};
use crate::plugin_version::PluginVersion;
use crate::settings::PluginSettings;

/// Inputs of a version. A difference requires a new version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct VersionInputs {
    pub(super) content_digest: Option<Digest>,
    pub(super) settings: Option<Vec<u8>>,
    pub(super) grant: AccessGrant,
}

impl PluginSource {
    /// Builds a version from the content and replaces the active one if permitted.
    pub(super) async fn apply_content(
        &self,
        content: Result<FolderContent, String>,
    ) -> ReloadOutcome {
        let manifest_path = self.folder.join(MANIFEST_FILE).display().to_string();
        let content = match content {
            Ok(content) => content,
            Err(why) => return self.reject_change(None, Problem::new(manifest_path, why)),
        };
        let digest = content.digest;
        let manifest = match PluginManifest::from_content(&content, &manifest_path) {
            Ok(manifest) => manifest,
            Err(problem) => return self.reject_change(Some(digest), problem),
        };
        if let Err(other_folder) = self.authority.claim_name(&manifest.name, &self.folder) {
            let message = format!(
                "the plugin `{}` already exists in `{}`",
                manifest.name,
                other_folder.display()
            );
            return self.reject_change(
                Some(digest),
                Problem::new(manifest_path, message).with_help("rename one; the first one is used"),
            );
        }
        let folder = self.version_builder.config.settings_dir.clone();
        let name = manifest.name.clone();
        let settings =
            tokio::task::spawn_blocking(move || PluginSettings::load_settings(&folder, &name))
                .await
                .unwrap_or_default();
        let grant = self.authority.grant_for(&manifest.name);
        let inputs = VersionInputs {
            content_digest: Some(digest),
            settings: settings.source_text.clone(),
            grant: grant.clone(),
        };
        if let Some(outcome) = self.reuse_version(&inputs) {
            return outcome;
        }
        let version = self
            .version_builder
            .build_version(&content, &manifest_path, (manifest, settings), &grant)
            .await;
        self.install_version(version, inputs)
    }

    /// Returns the result if no new version is needed: unchanged since the last scan, or equal to
    /// the running version.
    fn reuse_version(&self, inputs: &VersionInputs) -> Option<ReloadOutcome> {
        let mut state = self.lock_state();
        if state.last_inputs == *inputs {
            return Some(ReloadOutcome::Unchanged);
        }
        let is_current = state.version.as_ref().is_some_and(|version| {
            Some(version.content_digest) == inputs.content_digest
                && version.settings.source_text == inputs.settings
                && version.grant == inputs.grant
        });
        if is_current {
            state.last_inputs = inputs.clone();
            state.rejected_problems = Vec::new();
            drop(state);
            self.notify_revision();
        }
        is_current.then_some(ReloadOutcome::Applied)
    }

    /// Activates a version, unless it is broken and the active one works better.
    fn install_version(&self, version: PluginVersion, inputs: VersionInputs) -> ReloadOutcome {
        let now = self.version_builder.config.clock.monotonic_now();
        let mut state = self.lock_state();
        state.last_inputs = inputs;
        if version.failed_to_start {
            state.start_backoff.record_failure(now);
        } else {
            state.start_backoff.record_success();
        }
        let is_worse = state
            .version
            .as_ref()
            .is_some_and(|last| !last.is_broken || loses_working_tool(last, &version));
        if version.is_broken && is_worse {
            state.rejected_problems = rejection_problems(&version.problems, state.version.as_ref());
            drop(state);
            self.notify_revision();
            return ReloadOutcome::Rejected;
        }
        tracing::info!(
            plugin = version.manifest.name, content = %version.content_digest, tools = version.offers.len(),
            "a plugin has a new version"
        );
        let old = state.version.replace(version);
        state.rejected_problems = Vec::new();
        drop(state);
        // Its process ends with its last call; dropped outside of the lock.
        drop(old);
        self.notify_revision();
        ReloadOutcome::Applied
    }

    /// Records why a change is rejected. Reports no change if the reason is the same as before.
    fn reject_change(&self, digest: Option<Digest>, problem: Problem) -> ReloadOutcome {
        let mut state = self.lock_state();
        let problems = rejection_problems(&[problem], state.version.as_ref());
        let has_changed =
            problems != state.rejected_problems || digest != state.last_inputs.content_digest;
        state.last_inputs.content_digest = digest;
        state.rejected_problems = problems;
        drop(state);
        if has_changed {
            self.notify_revision();
            ReloadOutcome::Rejected
        } else {
            ReloadOutcome::Unchanged
        }
    }
}

/// Returns whether a tool that works in `last` is disabled in `next`.
fn loses_working_tool(last: &PluginVersion, next: &PluginVersion) -> bool {
    let worked = |name: &str| last.tools.iter().any(|tool| tool.is_enabled && tool.name == name);
    next.tools.iter().any(|tool| !tool.is_enabled && worked(&tool.name))
}

/// Problems of a rejected change, and the version that stays active.
fn rejection_problems(problems: &[Problem], active: Option<&PluginVersion>) -> Vec<Problem> {
    let Some(version) = active else { return problems.to_vec() };
    let add_active_version = |problem: &Problem| {
        let message = format!(
            "the new version is invalid, so version {} stays active: {}",
            version.manifest.version, problem.message
        );
        Problem { message, ..problem.clone() }
    };
    problems.iter().map(add_active_version).collect()
}
