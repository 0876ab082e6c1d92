//! Facts of this build. The commit and the profile come from variables of the build, never from the
//! sources or their repository, so that the same input gives the same program.

use cli_core::build_facts::{BuildFacts, BuildProfile};
use tool::names::BUILTIN_SOURCE;

/// The commit that `cargo xtask release` builds.
const COMMIT: Option<&str> = option_env!("TOOLKEEP_BUILD_COMMIT");

/// The profile that `cargo xtask release` builds with.
const PROFILE: Option<&str> = option_env!("TOOLKEEP_BUILD_PROFILE");

/// Every Cargo feature of this crate, and whether it is compiled in.
const FEATURES: &[(&str, bool)] = &[];

/// Kind of an MCP server, as `source list` names it.
pub(crate) const MCP_KIND: &str = "mcp";
/// Kind of an HTTP module.
pub(crate) const MODULE_KIND: &str = "module";
/// Kind of a node.
pub(crate) const NODE_KIND: &str = "node";
/// Kind of a plugin folder.
pub(crate) const PLUGIN_KIND: &str = "plugin";
/// Kind of a tool file.
pub(crate) const TOOL_FILE_KIND: &str = "tool_file";

/// Kinds of sources.
const SOURCE_KINDS: &[&str] =
    &[BUILTIN_SOURCE, MCP_KIND, MODULE_KIND, NODE_KIND, PLUGIN_KIND, TOOL_FILE_KIND];

/// Kinds of storage: of rows, of what servers share, of manifests, of records and results.
const STORE_KINDS: &[&str] = &["files", "mongodb", "redis", "sqlite"];

/// C library of the target, as rustc names it.
const TARGET_ENV: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };

/// Returns the facts of this build.
pub(crate) fn build_facts() -> BuildFacts {
    let features = FEATURES.iter().filter(|(_, is_enabled)| *is_enabled);
    BuildFacts {
        commit: COMMIT.filter(|commit| !commit.is_empty()),
        target: format!("{}-unknown-{}-{TARGET_ENV}", std::env::consts::ARCH, std::env::consts::OS),
        profile: BuildProfile::from_build(PROFILE, cfg!(debug_assertions)),
        features: features.map(|(name, _)| *name).collect(),
        sources: SOURCE_KINDS.to_vec(),
        stores: STORE_KINDS.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::{FEATURES, build_facts};

    /// Names below `[features]` in a manifest, but for `default`.
    fn features_of(manifest: &str) -> Vec<String> {
        let lines = manifest.lines().skip_while(|line| line.trim() != "[features]").skip(1);
        let own = lines.take_while(|line| !line.starts_with('['));
        let names = own.filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned()));
        names.filter(|name| name != "default" && !name.starts_with('#')).collect()
    }

    #[test]
    fn every_feature_of_the_manifest_is_reported() {
        let manifest =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let known: Vec<_> = FEATURES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(features_of(&manifest), known);
        // Control: a feature would be found.
        let other =
            "[package]\nname = \"x\"\n\n[features]\ndefault = [\"one\"]\none = []\n\n[lints]\n";
        assert_eq!(features_of(other), ["one"]);
    }

    #[test]
    fn the_target_is_the_one_that_the_tests_run_on() {
        let facts = build_facts();
        assert!(facts.target.starts_with(std::env::consts::ARCH), "{}", facts.target);
        assert!(facts.target.ends_with("-gnu") || facts.target.ends_with("-musl"));
    }
}
