//! `cargo xtask test`: all checks and tests, cheapest first.
//!
//! Every step runs even if an earlier one failed. The last line is the count of all tests.

mod linted_build;
mod requirement_checks;
mod requirement_state;
mod test_options;
mod test_requirements;
mod test_selection;

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::child_processes::{self, RUN_VARIABLE, run_quiet, run_visible};
use crate::test_counts::{self, TestCounts, TestInventory};
use crate::test_installs::{BackgroundInstalls, InstallResults};
use crate::workspace::{Workspace, cargo_program};
use crate::{test_installs, test_runner, tidy};
use requirement_checks::{data_folder, set_data_folder};
use requirement_state::CheckedRequirement;
pub(crate) use test_options::TestOptions;
pub(crate) use test_requirements::requirement_table;
use test_selection::TestSelection;

/// Filter of the tests that need programs from package registries.
const REAL_TESTS: &str = "(kind(test) & test(/^(real|conformance|clients)::/))";

/// Environment variables that rewrite golden documents. A test run removes them and only compares.
const BLESS_VARIABLES: &[&str] = &[
    "TOOLKEEP_BLESS",
    "INSTA_UPDATE",
    "INSTA_FORCE_PASS",
    "INSTA_FORCE_UPDATE",
    "INSTA_FORCE_UPDATE_SNAPSHOTS",
];

/// Runs all steps of the test task.
///
/// # Errors
/// If a step or a test failed, no test ran, or a process was left behind.
pub(crate) fn run_all(workspace: &Workspace, options: TestOptions) -> Result<(), String> {
    child_processes::adopt_orphans()?;
    child_processes::raise_descriptor_limit();
    let mut run = TestRun::new(workspace, options);
    // First, because the installations below use apt too.
    run.run_step("requirements", TestRun::check_requirements);
    run.installs = (!run.options.is_hermetic).then(|| test_installs::start_installs(workspace));
    run.run_step("tidy", |_| tidy::run_checks(workspace));
    run.run_step("fmt", |run| run.run_cargo(&["fmt", "--all", "--check"]));
    run.run_step("build and clippy", TestRun::build_tests);
    run.run_step("tests", TestRun::run_hermetic_tests);
    run.run_step("doctests", TestRun::run_doctests);
    if !run.options.is_hermetic {
        run.run_step("real tests", TestRun::run_real_tests);
    }
    run.run_step("leftovers", TestRun::check_leftovers);
    run.print_report()
}

/// Number of tests that run at a time: two for each processor, because many wait for a process, a timer or a file.
fn concurrent_test_count() -> usize {
    std::thread::available_parallelism().map_or(2, |count| count.get() * 2)
}

struct TestRun<'a> {
    workspace: &'a Workspace,
    options: TestOptions,
    /// Marks every process that this run starts for tests.
    run_id: String,
    counts: TestCounts,
    failed_steps: Vec<&'static str>,
    /// Lines of the report at the end.
    report_lines: Vec<String>,
    started: Instant,
    /// What tests need, and its state on this machine.
    requirements: Vec<CheckedRequirement>,
    /// Names of the tests that need installs, once they are listed.
    real_tests: Option<Vec<String>>,
    /// Installations for real tests, while they run.
    installs: Option<BackgroundInstalls>,
    /// Test runners that were started.
    started_runners: usize,
    /// Compiler of the workspace's crates in all builds of the run, if the toolchain has clippy.
    clippy_driver: Option<PathBuf>,
}

impl<'a> TestRun<'a> {
    fn new(workspace: &'a Workspace, options: TestOptions) -> Self {
        let started = Instant::now();
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let id = format!("{}-{since}", std::process::id());
        let (tally, failed, notes) = (TestCounts::default(), Vec::new(), Vec::new());
        Self {
            workspace,
            options,
            run_id: id,
            counts: tally,
            failed_steps: failed,
            report_lines: notes,
            started,
            requirements: Vec::new(),
            real_tests: None,
            installs: None,
            started_runners: 0,
            clippy_driver: None,
        }
    }

    fn run_step(&mut self, name: &'static str, step: impl FnOnce(&mut Self) -> Result<(), String>) {
        println!("── {name}");
        let started = Instant::now();
        let result = step(self);
        let elapsed = format!("{:.1} s", started.elapsed().as_secs_f64());
        match result {
            Ok(()) => println!("── {name}: good, {elapsed}"),
            Err(message) => {
                println!("── {name}: FAILED, {elapsed}: {message}");
                self.failed_steps.push(name);
            }
        }
    }

    fn run_cargo(&self, args: &[&str]) -> Result<(), String> {
        let output = run_visible(self.cargo_command().args(args))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("cargo {} failed", args.join(" ")))
        }
    }

    fn cargo_command(&self) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.workspace.root_dir);
        for variable in BLESS_VARIABLES {
            command.env_remove(variable);
        }
        if let Some(driver) = &self.clippy_driver {
            linted_build::set_compiler(&mut command, driver);
        }
        // Absent snapshots fail as changed ones do.
        command.env("INSTA_UPDATE", "no");
        command
    }

    fn build_tests(&mut self) -> Result<(), String> {
        self.clippy_driver = Some(linted_build::find_clippy(&self.workspace.root_dir)?);
        let mut command = self.cargo_command();
        command.args(["test", "--profile", self.options.cargo_profile()]);
        linted_build::build_tests(&mut command)
    }

    fn run_hermetic_tests(&mut self) -> Result<(), String> {
        if let Some(installed) = test_runner::ensure_nextest(self.workspace)? {
            self.report_lines.push(format!("installed: {installed}"));
        }
        let TestInventory { hermetic, real } = self.list_tests()?;
        test_requirements::check_table(&hermetic.iter().chain(&real))?;
        if self.options.is_hermetic {
            self.skip_tests(real.len() as u64, "real::, conformance:: and clients::", "--hermetic");
        }
        self.real_tests = Some(real);
        let selection = self.select_tests(&hermetic);
        let folder = data_folder(self.workspace);
        let filter = format!("not {REAL_TESTS}{}", selection.filter);
        self.run_nextest(&filter, selection.run_count, |nextest| set_data_folder(nextest, &folder))
    }

    /// Prints what tests need and what this machine has of it.
    fn check_requirements(&mut self) -> Result<(), String> {
        self.requirements = CheckedRequirement::check_all(self.workspace, &self.options);
        for found in &self.requirements {
            println!("{}", found.status_line());
        }
        let missing = self.requirements.iter().filter(|found| found.is_missing());
        let names: Vec<&str> = missing.map(|found| found.requirement.name).collect();
        if names.is_empty() { Ok(()) } else { Err(format!("missing: {}", names.join(", "))) }
    }

    /// Selects the tests that can run here, and counts the others as failed or as skipped.
    fn select_tests(&mut self, tests: &[String]) -> TestSelection {
        let mut selection = TestSelection::select_tests(tests, &self.requirements);
        for excluded in selection.excluded.drain(..) {
            let counts = &mut self.counts;
            let count = if excluded.are_failed { &mut counts.failed } else { &mut counts.skipped };
            *count += excluded.count;
            self.report_lines.push(excluded.report_line);
        }
        selection
    }

    fn run_real_tests(&mut self) -> Result<(), String> {
        let tests = self.real_tests.take().ok_or("the tests could not be listed")?;
        let installs = self.installs.take().map(BackgroundInstalls::wait_until_ready);
        let InstallResults { programs, api_server } = installs.ok_or("nothing was installed")?;
        match api_server {
            Ok(Some(built)) => self.report_lines.push(format!("built for tests: {built}")),
            Ok(None) => {}
            Err(why) => {
                let message =
                    format!("no Kubernetes API server ({why}): the tests that need it fail");
                println!("{message}");
                self.report_lines.push(message);
            }
        }
        let ready = programs?;
        let new = if ready.installed.is_empty() {
            vec!["nothing new".to_owned()]
        } else {
            ready.installed
        };
        self.report_lines.push(format!("installed for tests: {}", new.join(", ")));
        let data = data_folder(self.workspace);
        let selection = self.select_tests(&tests);
        let filter = format!("{REAL_TESTS}{}", selection.filter);
        self.run_nextest(&filter, selection.run_count, |command| {
            set_data_folder(command.env("TOOLKEEP_REAL", &ready.folder), &data);
        })
    }

    fn list_tests(&self) -> Result<TestInventory, String> {
        let mut list = self.cargo_command();
        list.env("PATH", test_runner::search_path(&self.workspace.target_dir));
        list.args(["nextest", "list", "--workspace", "--locked", "--message-format", "json"]);
        list.args(["--cargo-profile", self.options.cargo_profile()]);
        let output = run_quiet(&mut list)?;
        if output.status.success() {
            test_counts::parse_list(&output.stdout_text)
        } else {
            Err(output.stderr_text)
        }
    }

    /// Runs the tests that match `filter`; their number must be `expected`.
    fn run_nextest(
        &mut self,
        filter: &str,
        expected: u64,
        more: impl FnOnce(&mut Command),
    ) -> Result<(), String> {
        let mut command = self.cargo_command();
        command
            .env("PATH", test_runner::search_path(&self.workspace.target_dir))
            .env(RUN_VARIABLE, &self.run_id);
        command.args([
            "nextest",
            "run",
            "--workspace",
            "--locked",
            "--cargo-profile",
            self.options.cargo_profile(),
            "--no-tests",
            "pass",
            "--test-threads",
            &concurrent_test_count().to_string(),
            "-E",
            filter,
        ]);
        if self.options.is_deep {
            command.args(["--profile", "deep"]).env("TOOLKEEP_DEEP", "1");
        }
        more(&mut command);
        self.started_runners += 1;
        let output = run_visible(&mut command)?;
        let tally =
            test_counts::parse_nextest(&output.stderr_text).ok_or("nextest printed no summary")?;
        self.counts.add_counts(tally);
        let ran = tally.passed + tally.failed;
        self.report_lines
            .push(format!("nextest ran {ran} of {expected} tests: {}", tally.summary_line()));
        if ran != expected {
            return Err(format!("{expected} tests are listed, but {ran} ran"));
        }
        if output.status.success() { Ok(()) } else { Err(format!("{} tests failed", tally.failed)) }
    }

    fn run_doctests(&mut self) -> Result<(), String> {
        let packages = self.workspace.packages_with_doctests();
        let mut command = self.cargo_command();
        command.args(["test", "--doc", "--locked", "--profile", self.options.cargo_profile()]);
        // Of the whole workspace: with these packages alone, their dependencies have other features and are built again.
        command.arg("--workspace").env(RUN_VARIABLE, &self.run_id);
        if packages.is_empty() {
            return Ok(());
        }
        self.started_runners += 1;
        let output = run_visible(&mut command)?;
        let tally =
            test_counts::parse_doctests(&output.stdout_text).ok_or("rustdoc printed no result")?;
        self.counts.add_counts(tally);
        self.report_lines.push(format!(
            "doctests of {}: {}",
            packages.join(", "),
            tally.summary_line()
        ));
        if output.status.success() { Ok(()) } else { Err("doctests failed".to_owned()) }
    }

    fn skip_tests(&mut self, count: u64, module: &str, why: &str) {
        if count > 0 {
            self.counts.skipped += count;
            self.report_lines.push(format!("left out: {count} tests in {module} ({why})"));
        }
    }

    fn check_leftovers(&mut self) -> Result<(), String> {
        let leftovers_found = child_processes::end_leftovers(&self.run_id);
        if leftovers_found.is_empty() {
            let runs = self.started_runners;
            self.report_lines
                .push(format!("started: {runs} test runs, all ended; processes left behind: none"));
            return Ok(());
        }
        let lines: Vec<String> =
            leftovers_found.iter().map(|l| format!("\n  {} {}", l.pid, l.command_line)).collect();
        Err(format!(
            "{} processes outlived the tests and were ended:{}",
            leftovers_found.len(),
            lines.concat()
        ))
    }

    fn print_report(self) -> Result<(), String> {
        for note in &self.report_lines {
            println!("{note}");
        }
        let elapsed = self.started.elapsed().as_secs();
        println!(
            "{} took {elapsed} s",
            if self.options.is_hermetic { "the hermetic part" } else { "all" }
        );
        let result = test_verdict(&self.failed_steps, self.counts);
        if let Err(message) = &result {
            println!("{message}");
        }
        println!("{}", self.counts.summary_line());
        // The message is already printed, and the count must be the last line.
        result.map_err(|_| String::new())
    }
}

fn test_verdict(failed: &[&str], tally: TestCounts) -> Result<(), String> {
    if tally.passed + tally.failed == 0 {
        return Err("no test ran".to_owned());
    }
    if tally.failed > 0 && failed.is_empty() {
        return Err("tests failed".to_owned());
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::requirement_state::{CheckedRequirement, RequirementState};
    use super::test_requirements::REQUIREMENTS;
    use super::{TestCounts, TestOptions, TestRun, test_verdict};
    use crate::workspace::Workspace;

    #[test]
    fn tests_with_a_missing_requirement_have_failed_unless_they_are_left_out() {
        let workspace = Workspace::load_workspace().unwrap();
        let tests = ["toolkeep::it attack_data::a", "a tests::b"].map(str::to_owned);
        let counts_with = |state: RequirementState| {
            let mut run = TestRun::new(&workspace, TestOptions::default());
            let requirement = REQUIREMENTS.iter().find(|row| row.name == "data").unwrap();
            run.requirements = vec![CheckedRequirement { requirement, state }];
            assert!(
                run.select_tests(&tests).run_count + run.counts.failed + run.counts.skipped == 2
            );
            (run.counts, run.report_lines.concat())
        };
        let none = TestCounts::default();
        let (counts, _) = counts_with(RequirementState::Available("here".to_owned()));
        assert_eq!(counts, none);
        let (counts, line) = counts_with(RequirementState::Missing("no folder".to_owned()));
        assert_eq!(counts, TestCounts { failed: 1, ..none });
        for words in ["failed: 1 tests need data: no folder", "TOOLKEEP_DATA", "--without data"] {
            assert!(line.contains(words), "{line}");
        }
        let (counts, line) = counts_with(RequirementState::Excluded);
        assert_eq!(counts, TestCounts { skipped: 1, ..none });
        assert_eq!(line, "left out: 1 tests need data (--without data)");
    }

    #[test]
    fn nothing_of_the_environment_blesses_what_tests_compare() {
        let workspace = Workspace::load_workspace().unwrap();
        let run = TestRun::new(&workspace, TestOptions::default());
        let command = run.cargo_command();
        for variable in super::BLESS_VARIABLES {
            let set: Vec<_> = command.get_envs().filter(|(name, _)| name == variable).collect();
            let expected = (*variable == "INSTA_UPDATE").then_some("no".as_ref());
            assert_eq!(set, [(variable.as_ref(), expected)]);
        }
    }

    #[test]
    fn no_test_is_no_success() {
        let tally = |passed, failed| TestCounts { passed, failed, skipped: 9 };
        assert!(test_verdict(&[], tally(1, 0)).is_ok());
        for (failed, tally) in [(&[][..], tally(0, 0)), (&[], tally(1, 1)), (&["fmt"], tally(1, 0))]
        {
            assert!(test_verdict(failed, tally).is_err());
        }
    }
}
