//! Names in the configuration that match no tool and no source: slips, or what is yet to come.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Shelf, State};
use intake::Intake;
use policy::Inventory;
use tool::{Problem, name};

use super::App;
use super::readiness::{self, Wanted};
use super::reports::ConfigurationReport;
use config::Config;
use tool::nearest_name;

/// Names that are reported.
const REPORTED: usize = 20;
/// Names among which the nearest is looked for.
const CANDIDATES: usize = 5_000;
/// A catalog that changes is looked at when so much time has passed.
const QUIET: Duration = Duration::from_millis(500);

/// The tools and sources that a configuration may name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    tools: BTreeSet<String>,
    sources: BTreeSet<String>,
    /// Sources whose tools are not known.
    unlisted: BTreeSet<String>,
}

impl Names {
    /// The built-in tools, whether or not they can be offered here.
    pub(crate) fn shipped() -> Self {
        let mut names = Self::default();
        names.add(name::BUILTIN, builtin_manifests::names());
        names
    }

    /// Of all sources of a server.
    pub(crate) fn of_catalog(catalog: &Catalog) -> Self {
        let mut names = Self::default();
        for shelf in catalog.shelves() {
            names.add_shelf(shelf);
        }
        names
    }

    fn add_shelf(&mut self, shelf: &Shelf) {
        let source = shelf.source.as_str();
        let held = shelf.held.iter().map(|held| &held.entry);
        self.add(source, shelf.tools.iter().chain(held).map(|entry| entry.key.name.as_str()));
        if !matches!(shelf.state, State::Ok | State::Stale) {
            self.unlisted.insert(source.to_owned());
        }
    }

    /// The names of the sources.
    pub(crate) fn into_sources(self) -> BTreeSet<String> {
        self.sources
    }

    /// A source with its tools.
    pub(crate) fn add<'a>(&mut self, source: &str, tools: impl Iterator<Item = &'a str>) {
        self.sources.insert(source.to_owned());
        for tool in tools {
            self.tools.insert(format!("{source}.{tool}"));
            self.tools.insert(tool.to_owned());
        }
    }

    /// A source whose tools are not known.
    pub(crate) fn add_unlisted(&mut self, source: &str) {
        self.sources.insert(source.to_owned());
        self.unlisted.insert(source.to_owned());
    }

    fn near<'a>(all: &'a BTreeSet<String>, name: &str) -> Option<&'a str> {
        let all: Vec<_> = all.iter().take(CANDIDATES).map(String::as_str).collect();
        nearest_name(name, all.iter().copied())
    }
}

/// Names in the policy and in `default_guest_modules` that match nothing, each with its place and the nearest
/// known name.
pub(crate) fn unmatched(config: &Config, names: &Names) -> Vec<Problem> {
    let Names { tools, sources, unlisted } = names;
    let inventory = Inventory { tools, sources, unlisted };
    let patterns = config.policy.unmatched(&inventory).filter_map(|pattern| {
        let at = pattern.place();
        let source = pattern.as_str().strip_prefix("source:");
        let near = match source {
            Some(source) => Names::near(sources, source).map(|near| format!("source:{near}")),
            None => Names::near(tools, pattern.as_str()).map(str::to_owned),
        };
        // A source whose tools are not known may have it.
        if source.is_none() && near.is_none() && !unlisted.is_empty() {
            return None;
        }
        let what =
            if source.is_some() { "there is no such source" } else { "no source has such a tool" };
        let message = format!("the policy names `{pattern}`, and {what} now");
        Some(problem(config, (at.line, at.column), message, near.as_deref()))
    });
    // In the environment the whole list of an older core may stand, of which not every module is here.
    let of_file =
        config.default_guest_modules.as_ref().filter(|_| config.guest_modules_at.is_some());
    let guests = of_file.into_iter().flatten();
    let guests = guests.filter(|module| !sources.contains(*module)).map(|module| {
        let message = format!(
            "`default_guest_modules` names the source `{}`, which is not there now",
            module.escape_debug()
        );
        let at = config.guest_modules_at.map_or((0, 0), |at| (at.line, at.column));
        problem(config, at, message, Names::near(sources, module))
    });
    let mut problems: Vec<_> = patterns.chain(guests).collect();
    let more = problems.len().saturating_sub(REPORTED);
    problems.truncate(REPORTED);
    if more > 0 {
        let told = format!("{more} more names that match nothing");
        problems.push(problem(config, (0, 0), told, None));
    }
    problems
}

fn problem(
    config: &Config,
    (line, column): (usize, usize),
    message: String,
    near: Option<&str>,
) -> Problem {
    let file = config.file.as_ref().map(|file| file.display().to_string());
    let file = file.unwrap_or_else(|| "configuration".to_owned());
    let place = if line == 0 { file } else { format!("{file}:{line}:{column}") };
    let fix = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "correct the name; if it is yet to come, leave it".to_owned(),
    };
    Problem::new(place, message).fix(fix)
}

/// Compares the names with the catalog and reports those that match nothing in the `configuration` source.
pub(crate) async fn refresh(report: &ConfigurationReport, intake: &Intake) {
    let (Some(config), catalog) = (report.config(), intake.catalog()) else { return };
    let found = tokio::task::spawn_blocking(move || of_server(&config, &catalog)).await;
    let found = found.unwrap_or_default();
    let known = report.names();
    for Problem { place, message, .. } in found.iter().filter(|new| !known.contains(new)) {
        tracing::warn!(place, "{message}");
    }
    if found != known {
        report.set_names(found);
        report.publish(intake);
    }
}

fn of_server(config: &Arc<Config>, catalog: &Catalog) -> Vec<Problem> {
    let mut problems = plugins::unreadable(&config.plugins.folders);
    // Most have neither, and the names of all tools are not looked at for nothing.
    if config.rules().is_some() || config.default_guest_modules.is_some() {
        problems.extend(unmatched(config, &Names::of_catalog(catalog)));
    }
    problems
}

/// Follows the catalog, once there was time to list the first sources; never ends.
pub(crate) async fn follow(app: &App) {
    let mut numbers = app.intake.numbers();
    readiness::wait(&app.intake, &Wanted::Overview, None).await;
    while numbers.changed().await.is_ok() {
        tokio::time::sleep(QUIET).await;
        numbers.borrow_and_update();
        refresh(&app.workshop.report, &app.intake).await;
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use crate::review::review;
    use config::{Environment, Setting, read};

    /// Each of these was good, and a server said nothing of most.
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
        let setting = Setting {
            file: Some("t.yaml".into()),
            listen: None,
            data: None,
            allowed_hosts: Vec::new(),
            behind_tls: false,
            folder: folder.path().to_owned(),
            environment: Arc::clone(&environment),
        };
        let config = read(&setting).whole().unwrap();
        let found = review(&config, &environment).await.unwrap();
        let line = |problem: &tool::Problem| format!("{problem:?}");
        let left_out: Vec<_> = found.left_out.iter().map(line).collect();
        assert_eq!(left_out.len(), 3, "{left_out:#?}");
        for (told, what) in left_out.iter().zip(["nothere.yaml", "invalid type", "gone"]) {
            assert!(told.contains(what), "{told}");
        }
        let warnings: Vec<_> = found.warnings.iter().map(line).collect();
        // The control is in it: names that are there, and patterns of many names, are none.
        assert_eq!(warnings.len(), 3, "{warnings:#?}");
        for (told, what) in warnings.iter().zip([
            ("t.yaml:9:11", "did you mean `calculator`?"),
            ("`source:bogus`", "there is no such source"),
            ("`loca`", "did you mean `local`?"),
        ]) {
            assert!(told.contains(what.0) && told.contains(what.1), "{what:?}: {told}");
        }
    }
}
