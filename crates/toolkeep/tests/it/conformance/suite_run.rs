//! One run of a suite: its command line and its check files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use testkit::installed_programs::installed_file;
use tokio::process::Command;
use tokio::time::timeout;

use super::known_failures::KnownFailures;
use crate::real_support::test_command;

/// The longest that a whole suite may take.
const LONG: Duration = Duration::from_mins(8);
/// `-2026-07-28T00-00-00-000Z`, at the end of the folders of results.
const STAMP: usize = 25;

/// The suite and its part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suite {
    /// The folder of its installation.
    pub(super) installed: &'static str,
    /// Its words after `server` or `client`.
    pub(super) words: &'static [&'static str],
    /// The file of known failures, in `tests/conformance`.
    pub(super) known: &'static str,
    /// Scenarios that must have run.
    pub(super) scenarios: usize,
}

/// Checks of one scenario.
#[derive(Debug, Default)]
pub(super) struct Scenario {
    pub(super) passed: usize,
    /// IDs of failed checks and warnings, with their messages.
    pub(super) failed: BTreeMap<String, String>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) scenarios: BTreeMap<String, Scenario>,
}

impl Suite {
    /// Judges a server.
    pub(super) async fn server(&self, url: &str) -> Report {
        self.run("server", &["--url", url]).await
    }

    /// Judges a client by some scenarios, one after the other: each is a name and a revision. The
    /// client is a command line to which the suite adds an address.
    pub(super) async fn client(&self, line: &str, scenarios: &[(&str, &str)]) -> Report {
        let mut all = Report::default();
        for (name, revision) in scenarios {
            let mut words = vec!["--command", line, "--scenario", name];
            // The older suite knows which revision each of its scenarios is of.
            if self.installed != "conformance-0.1" {
                words.extend(["--spec-version", revision, "--force"]);
            }
            let report = self.run("client", &words).await;
            let under = |(name, found)| (format!("{name}@{revision}"), found);
            all.scenarios.extend(report.scenarios.into_iter().map(under));
        }
        all
    }

    async fn run(&self, half: &str, whom: &[&str]) -> Report {
        let package = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
        let program = installed_file(&format!("{}/{package}", self.installed));
        let out = tempfile::tempdir().unwrap();
        let mut node: Command = test_command(installed_file("bin/node")).into();
        node.arg(program).arg(half).args(whom).args(self.words).arg("-o").arg(out.path());
        node.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        node.kill_on_drop(true);
        let ended = timeout(LONG, node.output()).await.expect("the suite takes too long").unwrap();
        let report = Report::read(out.path());
        let said = String::from_utf8_lossy(&ended.stdout);
        let wrong = String::from_utf8_lossy(&ended.stderr);
        assert!(!report.scenarios.is_empty(), "no scenario ran:\n{said}\n{wrong}");
        report
    }

    /// Prints the counts, and compares with what is known.
    #[track_caller]
    pub(super) fn judge(&self, report: &Report) {
        println!("{} {}\n{}", self.installed, self.words.join(" "), report.table());
        let ran = report.scenarios.len();
        let mut wrong = KnownFailures::read(self.known).judge(report);
        if ran != self.scenarios {
            wrong.push(format!("{ran} scenarios ran, not {}", self.scenarios));
        }
        assert!(wrong.is_empty(), "{}:\n{}\n{}", self.known, wrong.join("\n"), report.table());
    }
}

impl Report {
    /// Reads every `checks.json` below a folder.
    fn read(folder: &Path) -> Self {
        let mut report = Self::default();
        report.add(folder, folder);
        report
    }

    fn add(&mut self, root: &Path, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.add(root, &path);
            } else if path.ends_with("checks.json") {
                let name = folder.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                let name = name.strip_prefix("server-").unwrap_or(&name);
                let name = name.get(..name.len() - STAMP).unwrap().to_owned();
                let checks = std::fs::read_to_string(&path).unwrap();
                let scenario = Scenario::of(&serde_json::from_str(&checks).unwrap());
                self.scenarios.insert(name, scenario);
            }
        }
    }

    fn table(&self) -> String {
        let mut lines = Vec::new();
        let (mut passed, mut failed) = (0, 0);
        for (name, scenario) in &self.scenarios {
            passed += scenario.passed;
            failed += scenario.failed.len();
            let (good, bad) = (scenario.passed, scenario.failed.len());
            lines.push(format!("  {name}: {good} passed, {bad} failed"));
            lines.extend(scenario.failed.iter().map(|(id, why)| format!("    {id}: {why}")));
        }
        let count = self.scenarios.len();
        lines.push(format!("{count} scenarios: {passed} checks passed, {failed} failed"));
        lines.join("\n")
    }
}

impl Scenario {
    fn of(checks: &Value) -> Self {
        let mut scenario = Self::default();
        for check in checks.as_array().unwrap() {
            let id = check["id"].as_str().unwrap().to_owned();
            match check["status"].as_str().unwrap() {
                "SUCCESS" => scenario.passed += 1,
                // A warning is a SHOULD for servers; this test requires it too.
                status @ ("FAILURE" | "WARNING") => {
                    let why = check["errorMessage"].as_str().unwrap_or("no reason given");
                    let why: String = why.chars().take(300).collect();
                    scenario.failed.insert(id, format!("{status} {why}"));
                }
                _ => {}
            }
        }
        scenario
    }
}
