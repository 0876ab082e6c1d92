//! Names in the configuration that match no tool or source: typos, or sources that are added later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, SourceCatalog, SourceState};
use intake::SourceSupervisor;
use policy::ToolInventory;
use tool::{Problem, names};

use super::App;
use super::problem_reports::ConfigReport;
use super::source_readiness::{self, RequiredSources};
use config::Config;
use tool::find_nearest_name;

/// Maximum number of names that are reported.
const MAX_REPORTED: usize = 20;
/// Maximum number of candidates for a suggestion.
const MAX_CANDIDATES: usize = 5_000;
/// Delay between a change of the catalog and the comparison.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// The tools and sources that a configuration may name.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    tools: BTreeSet<String>,
    sources: BTreeSet<String>,
    /// Sources whose tools are unknown.
    unlisted_sources: BTreeSet<String>,
}

impl KnownNames {
    /// Returns the names of all built-in tools, including those that are not available here.
    pub(crate) fn of_builtins() -> Self {
        let mut names = Self::default();
        names.add_source(names::BUILTIN_SOURCE, builtin_manifests::tool_names());
        names
    }

    /// Returns the names of all sources of a catalog.
    pub(crate) fn of_catalog(catalog: &Catalog) -> Self {
        let mut names = Self::default();
        for shelf in catalog.list_sources() {
            names.add_source_catalog(shelf);
        }
        names
    }

    fn add_source_catalog(&mut self, shelf: &SourceCatalog) {
        let source = shelf.source.as_str();
        let blocked = shelf.blocked.iter().map(|held| &held.entry);
        self.add_source(
            source,
            shelf.tools.iter().chain(blocked).map(|entry| entry.tool_key.name.as_str()),
        );
        if !matches!(shelf.state, SourceState::Current | SourceState::Stale) {
            self.unlisted_sources.insert(source.to_owned());
        }
    }

    /// Returns the names of the sources only.
    pub(crate) fn into_source_names(self) -> BTreeSet<String> {
        self.sources
    }

    /// Adds a source with its tools.
    pub(crate) fn add_source<'a>(&mut self, source: &str, tools: impl Iterator<Item = &'a str>) {
        self.sources.insert(source.to_owned());
        for tool in tools {
            self.tools.insert(format!("{source}.{tool}"));
            self.tools.insert(tool.to_owned());
        }
    }

    /// Adds a source whose tools are unknown.
    pub(crate) fn add_unlisted(&mut self, source: &str) {
        self.sources.insert(source.to_owned());
        self.unlisted_sources.insert(source.to_owned());
    }

    fn closest_name<'a>(all: &'a BTreeSet<String>, name: &str) -> Option<&'a str> {
        let all: Vec<_> = all.iter().take(MAX_CANDIDATES).map(String::as_str).collect();
        find_nearest_name(name, all.iter().copied())
    }
}

/// Returns the unmatched names of the policy and of `default_guest_modules`, with position and
/// closest known name.
pub(crate) fn unmatched_names(config: &Config, names: &KnownNames) -> Vec<Problem> {
    let KnownNames { tools, sources, unlisted_sources: unlisted } = names;
    let inventory =
        ToolInventory { tool_names: tools, source_names: sources, unlisted_sources: unlisted };
    let patterns = config.policy.unmatched_patterns(&inventory).filter_map(|pattern| {
        let position = pattern.position();
        let source = pattern.as_str().strip_prefix("source:");
        let closest = match source {
            Some(source) => {
                KnownNames::closest_name(sources, source).map(|near| format!("source:{near}"))
            }
            None => KnownNames::closest_name(tools, pattern.as_str()).map(str::to_owned),
        };
        // A source whose tools are unknown may have the tool.
        if source.is_none() && closest.is_none() && !unlisted.is_empty() {
            return None;
        }
        let reason =
            if source.is_some() { "no source has this name" } else { "no source has such a tool" };
        let message = format!("the policy names `{pattern}`, but {reason}");
        Some(unmatched_problem(
            config,
            (position.line, position.column),
            message,
            closest.as_deref(),
        ))
    });
    // A list from the environment may name modules of an older core that are not installed here.
    let of_file =
        config.default_guest_modules.as_ref().filter(|_| config.guest_modules_position.is_some());
    let guest_sources = of_file.into_iter().flatten();
    let guests = guest_sources.filter(|module| !sources.contains(*module)).map(|module| {
        let message = format!(
            "`default_guest_modules` names the source `{}`, which does not exist",
            module.escape_debug()
        );
        let at = config.guest_modules_position.map_or((0, 0), |at| (at.line, at.column));
        unmatched_problem(config, at, message, KnownNames::closest_name(sources, module))
    });
    let mut problems: Vec<_> = patterns.chain(guests).collect();
    let unreported = problems.len().saturating_sub(MAX_REPORTED);
    problems.truncate(MAX_REPORTED);
    if unreported > 0 {
        let summary = format!("{unreported} more names that match nothing");
        problems.push(unmatched_problem(config, (0, 0), summary, None));
    }
    problems
}

fn unmatched_problem(
    config: &Config,
    (line, column): (usize, usize),
    message: String,
    closest: Option<&str>,
) -> Problem {
    let file = config.file.as_ref().map(|file| file.display().to_string());
    let file = file.unwrap_or_else(|| "configuration".to_owned());
    let place = if line == 0 { file } else { format!("{file}:{line}:{column}") };
    let fix = match closest {
        Some(near) => format!("did you mean `{near}`?"),
        None => "correct the name, or ignore this if you add it later".to_owned(),
    };
    Problem::new(place, message).with_help(fix)
}

/// Compares the configured names with the catalog and reports unmatched ones in the source
/// `configuration`.
pub(crate) async fn refresh_report(report: &ConfigReport, supervisor: &SourceSupervisor) {
    let (Some(config), catalog) = (report.active_config(), supervisor.catalog()) else { return };
    let problems = tokio::task::spawn_blocking(move || server_problems(&config, &catalog)).await;
    let found = problems.unwrap_or_default();
    let reported = report.unmatched_names();
    for Problem { location: place, message, .. } in
        found.iter().filter(|new| !reported.contains(new))
    {
        tracing::warn!(place, "{message}");
    }
    if found != reported {
        report.set_unmatched_names(found);
        report.publish_source(supervisor);
    }
}

fn server_problems(config: &Arc<Config>, catalog: &Catalog) -> Vec<Problem> {
    let mut problems = plugins::unreadable_folders(&config.plugins.folders);
    // Most configurations have neither, so the comparison is skipped.
    if config.policy_document().is_some() || config.default_guest_modules.is_some() {
        problems.extend(unmatched_names(config, &KnownNames::of_catalog(catalog)));
    }
    problems
}

/// Watches the catalog after the first sources are listed; never returns.
pub(crate) async fn watch_catalog(app: &App) {
    let mut numbers = app.intake.subscribe_versions();
    source_readiness::wait_until_listed(&app.intake, &RequiredSources::Overview, None).await;
    while numbers.changed().await.is_ok() {
        tokio::time::sleep(DEBOUNCE).await;
        numbers.borrow_and_update();
        refresh_report(&app.source_factory.config_report, &app.intake).await;
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use crate::config_review::review_config;
    use config::{Environment, LoadOptions, load_config};

    /// Regression test: these mistakes used to pass the review, and a server reported few of them.
    #[tokio::test]
    async fn a_review_finds_tool_files_with_faults_and_names_that_match_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "bad.yaml",
            "version: 1\ntools:\n  - { name: m, description: d, parameters: { type: object }, \
              implementation: { type: mok } }\n",
        );
        write(
            "good.yaml",
            "version: 1\ntools:\n  - { name: fine, description: d, parameters: { type: object }, \
              implementation: { type: mock, mock_response: 1 } }\n",
        );
        write(
            "t.yaml",
            "version: 1\nsources:\n  - { name: none, tools: ./nothere.yaml }\n  \
              - { name: bad, tools: ./bad.yaml }\n  - { name: local, tools: ./good.yaml }\n\
              default_guest_modules: [loca]\nplugins: { folders: [./gone] }\npolicy:\n  \
              allow: [calculatorr, fine, local.fine, \"calc*\"]\n  deny: [\"source:bogus\", \"source:local\"]\n",
        );
        let environment: Environment = [("HOME", "/home/me")].into_iter().collect();
        let environment = Arc::new(environment);
        let setting = LoadOptions {
            file: Some("t.yaml".into()),
            listen: None,
            data_dir: None,
            allowed_hosts: Vec::new(),
            behind_tls: false,
            current_dir: folder.path().to_owned(),
            environment: Arc::clone(&environment),
        };
        let config = load_config(&setting).into_valid_config().unwrap();
        let found = review_config(&config, &environment).await.unwrap();
        let line = |problem: &tool::Problem| format!("{problem:?}");
        let left_out: Vec<_> = found.left_out.iter().map(line).collect();
        assert_eq!(left_out.len(), 3, "{left_out:#?}");
        for (told, what) in left_out.iter().zip(["nothere.yaml", "invalid type", "gone"]) {
            assert!(told.contains(what), "{told}");
        }
        let warnings: Vec<_> = found.warnings.iter().map(line).collect();
        // The control is included: existing names and patterns that match several names give no
        // warning.
        assert_eq!(warnings.len(), 3, "{warnings:#?}");
        for (told, what) in warnings.iter().zip([
            ("t.yaml:9:11", "did you mean `calculator`?"),
            ("`source:bogus`", "no source has this name"),
            ("`loca`", "did you mean `local`?"),
        ]) {
            assert!(told.contains(what.0) && told.contains(what.1), "{what:?}: {told}");
        }
    }
}
