//! `cargo xtask test`: everything that must hold, in the order of what is cheap to find.
//!
//! Every step runs even where an earlier one failed. The last line is the count of all tests.

mod needs;
mod options;

use std::process::Command;
use std::time::Instant;

use crate::children::{self, MARKER, quiet, shown};
use crate::tally::{self, Listed, Tally};
use crate::workspace::{Workspace, cargo};
use crate::{kubernetes, provision, tidy, tools};
use needs::{can_mount, data_folder, with_data};
pub(crate) use options::Options;

/// Which tests need installs and which need data: the modules of the integration tests.
const REAL: &str = "(kind(test) & test(/^(real|conformance|clients)::/))";
const DATA: &str = "(kind(test) & test(/^data::/))";
const ROOT: &str = "(kind(test) & test(/^root::/))";

/// What blesses golden documents when it is set. A test run only ever compares.
const BLESSINGS: &[&str] = &[
    "TOOLKEEP_BLESS",
    "INSTA_UPDATE",
    "INSTA_FORCE_PASS",
    "INSTA_FORCE_UPDATE",
    "INSTA_FORCE_UPDATE_SNAPSHOTS",
];

/// Runs it all.
///
/// # Errors
/// Where a step failed, a test failed, no test ran, or a process was left behind.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<(), String> {
    children::adopt_orphans()?;
    let mut run = Run::new(workspace, options);
    // Minutes of another compiler's work, beside our own.
    run.kubernetes = (!run.options.hermetic).then(|| kubernetes::begin(workspace));
    run.step("tidy", |_| tidy::run(workspace));
    run.step("fmt", |run| run.cargo(&["fmt", "--all", "--check"]));
    run.step("clippy", |run| run.cargo(CLIPPY));
    run.step("tests", Run::plain);
    run.step("doctests", Run::doctests);
    if !run.options.hermetic {
        run.step("real tests", Run::real);
    }
    run.step("leftovers", Run::leftovers);
    run.close()
}

const CLIPPY: &[&str] =
    &["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];

struct Run<'a> {
    workspace: &'a Workspace,
    options: Options,
    /// Marks every process that this run starts for tests.
    id: String,
    tally: Tally,
    failed: Vec<&'static str>,
    /// Lines of the report at the end.
    notes: Vec<String>,
    started: Instant,
    real: Option<u64>,
    /// The Kubernetes API server, while it is made ready.
    kubernetes: Option<kubernetes::Begun>,
    /// Test runners that were started.
    runs: usize,
}

impl<'a> Run<'a> {
    fn new(workspace: &'a Workspace, options: Options) -> Self {
        let started = Instant::now();
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let id = format!("{}-{since}", std::process::id());
        let (tally, failed, notes) = (Tally::default(), Vec::new(), Vec::new());
        let (real, kubernetes) = (None, None);
        Self { workspace, options, id, tally, failed, notes, started, real, kubernetes, runs: 0 }
    }

    fn step(&mut self, name: &'static str, step: impl FnOnce(&mut Self) -> Result<(), String>) {
        println!("── {name}");
        let started = Instant::now();
        let result = step(self);
        let took = format!("{:.1} s", started.elapsed().as_secs_f64());
        match result {
            Ok(()) => println!("── {name}: good, {took}"),
            Err(message) => {
                println!("── {name}: FAILED, {took}: {message}");
                self.failed.push(name);
            }
        }
    }

    fn cargo(&self, args: &[&str]) -> Result<(), String> {
        let ended = shown(self.command().args(args))?;
        if ended.status.success() {
            Ok(())
        } else {
            Err(format!("cargo {} failed", args.join(" ")))
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.workspace.root);
        for variable in BLESSINGS {
            command.env_remove(variable);
        }
        // Absent snapshots fail as changed ones do.
        command.env("INSTA_UPDATE", "no");
        command
    }

    fn plain(&mut self) -> Result<(), String> {
        if let Some(installed) = tools::nextest(self.workspace)? {
            self.notes.push(format!("installed: {installed}"));
        }
        let Listed { plain, real, data, root } = self.list()?;
        self.real = Some(real);
        let folder = data_folder(self.workspace);
        let mut filter = format!("not {REAL}");
        let mut expected = plain;
        let missing = || "no folder TOOLKEEP_DATA, nor a default one".to_owned();
        let data_there = folder.is_dir().then_some(()).ok_or_else(missing);
        let mount = can_mount(&self.workspace.target).map_err(|why| format!("cannot mount: {why}"));
        for (name, part, count, there) in
            [("data", DATA, data, data_there), ("root", ROOT, root, mount)]
        {
            if self.is_run(name, count, there) {
                expected += count;
            } else {
                filter = format!("{filter} & not {part}");
            }
        }
        if self.options.hermetic {
            self.leave_out(real, "real::, conformance:: and clients::", "--hermetic");
        }
        self.nextest(&filter, expected, |command| with_data(command, &folder))
    }

    fn real(&mut self) -> Result<(), String> {
        // Before anything else is installed: two at once would be in each other's way.
        match self.kubernetes.take().map(kubernetes::Begun::ready) {
            Some(Ok(Some(built))) => self.notes.push(format!("built for tests: {built}")),
            Some(Err(why)) => {
                let told = format!("no Kubernetes API server ({why}): the tests that need it fail");
                println!("{told}");
                self.notes.push(told);
            }
            Some(Ok(None)) | None => {}
        }
        let expected = self.real.ok_or("the tests could not be listed")?;
        if expected == 0 {
            self.notes.push("no test needs installs, so nothing was installed".to_owned());
            return Ok(());
        }
        let ready = provision::run(self.workspace)?;
        let new = if ready.installed.is_empty() {
            vec!["nothing new".to_owned()]
        } else {
            ready.installed
        };
        self.notes.push(format!("installed for tests: {}", new.join(", ")));
        let data = data_folder(self.workspace);
        self.nextest(REAL, expected, |command| {
            with_data(command.env("TOOLKEEP_REAL", &ready.folder), &data);
        })
    }

    fn list(&self) -> Result<Listed, String> {
        let mut list = self.command();
        list.env("PATH", tools::path(&self.workspace.target));
        list.args(["nextest", "list", "--workspace", "--locked", "--message-format", "json"]);
        let ended = quiet(&mut list)?;
        if ended.status.success() { tally::listed(&ended.out) } else { Err(ended.err) }
    }

    /// Runs the tests of `filter`, which must be `expected` in number.
    fn nextest(
        &mut self,
        filter: &str,
        expected: u64,
        more: impl FnOnce(&mut Command),
    ) -> Result<(), String> {
        let mut command = self.command();
        command.env("PATH", tools::path(&self.workspace.target)).env(MARKER, &self.id);
        command.args([
            "nextest",
            "run",
            "--workspace",
            "--locked",
            "--no-tests",
            "pass",
            "-E",
            filter,
        ]);
        if self.options.deep {
            command.args(["--profile", "deep"]).env("TOOLKEEP_DEEP", "1");
        }
        more(&mut command);
        self.runs += 1;
        let ended = shown(&mut command)?;
        let tally = tally::nextest(&ended.err).ok_or("nextest printed no summary")?;
        self.tally.add(tally);
        let ran = tally.passed + tally.failed;
        self.notes.push(format!("nextest ran {ran} of {expected} tests: {}", tally.line()));
        if ran != expected {
            return Err(format!("{expected} tests are listed, but {ran} ran"));
        }
        if ended.status.success() { Ok(()) } else { Err(format!("{} tests failed", tally.failed)) }
    }

    fn doctests(&mut self) -> Result<(), String> {
        let packages = self.workspace.with_doctests();
        let mut command = self.command();
        command.args(["test", "--doc", "--locked"]).env(MARKER, &self.id);
        for package in &packages {
            command.args(["--package", package]);
        }
        if packages.is_empty() {
            return Ok(());
        }
        self.runs += 1;
        let ended = shown(&mut command)?;
        let tally = tally::doctests(&ended.out).ok_or("rustdoc printed no result")?;
        self.tally.add(tally);
        self.notes.push(format!("doctests of {}: {}", packages.join(", "), tally.line()));
        if ended.status.success() { Ok(()) } else { Err("doctests failed".to_owned()) }
    }

    /// Whether the `count` tests that need `name` run. Where it is missing they have failed, unless
    /// `--without` leaves them out.
    fn is_run(&mut self, name: &str, count: u64, there: Result<(), String>) -> bool {
        if self.options.without.iter().any(|left_out| left_out == name) {
            self.leave_out(count, &format!("{name}::"), &format!("--without {name}"));
            return false;
        }
        let Err(why) = there else { return true };
        self.tally.failed += count;
        self.notes.push(format!(
            "failed: {count} tests in {name}:: could not run ({why}); provide it, or leave them out \
             with --without {name}"
        ));
        false
    }

    fn leave_out(&mut self, count: u64, module: &str, why: &str) {
        if count > 0 {
            self.tally.skipped += count;
            self.notes.push(format!("left out: {count} tests in {module} ({why})"));
        }
    }

    fn leftovers(&mut self) -> Result<(), String> {
        let left = children::leftovers(&self.id);
        if left.is_empty() {
            let runs = self.runs;
            self.notes
                .push(format!("started: {runs} test runs, all ended; processes left behind: none"));
            return Ok(());
        }
        let lines: Vec<String> =
            left.iter().map(|l| format!("\n  {} {}", l.pid, l.command)).collect();
        Err(format!(
            "{} processes outlived the tests and were ended:{}",
            left.len(),
            lines.concat()
        ))
    }

    fn close(self) -> Result<(), String> {
        for note in &self.notes {
            println!("{note}");
        }
        let took = self.started.elapsed().as_secs();
        println!(
            "{} took {took} s",
            if self.options.hermetic { "the hermetic part" } else { "all" }
        );
        let result = verdict(&self.failed, self.tally);
        if let Err(message) = &result {
            println!("{message}");
        }
        println!("{}", self.tally.line());
        // All is said, and the count is to be the last line.
        result.map_err(|_| String::new())
    }
}

fn verdict(failed: &[&str], tally: Tally) -> Result<(), String> {
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
    use super::{Options, Run, Tally, verdict};
    use crate::workspace::Workspace;

    #[test]
    fn what_is_missing_has_failed_unless_it_is_left_out() {
        let workspace = Workspace::open().unwrap();
        let missing = || Err("not there".to_owned());
        let mut run = Run::new(&workspace, Options::default());
        assert!(run.is_run("data", 3, Ok(())));
        assert_eq!(run.tally, Tally::default());
        assert!(!run.is_run("data", 3, missing()));
        assert_eq!(run.tally, Tally { failed: 3, ..Tally::default() });
        let options = Options::parse(&["--without", "data"]).unwrap();
        let mut run = Run::new(&workspace, options);
        assert!(!run.is_run("data", 3, missing()) && !run.is_run("data", 2, Ok(())));
        assert_eq!(run.tally, Tally { skipped: 5, ..Tally::default() });
    }

    #[test]
    fn nothing_of_the_environment_blesses_what_tests_compare() {
        let workspace = Workspace::open().unwrap();
        let run = Run::new(&workspace, Options::default());
        let command = run.command();
        for variable in super::BLESSINGS {
            let set: Vec<_> = command.get_envs().filter(|(name, _)| name == variable).collect();
            let expected = (*variable == "INSTA_UPDATE").then_some("no".as_ref());
            assert_eq!(set, [(variable.as_ref(), expected)]);
        }
    }

    #[test]
    fn no_test_is_no_success() {
        let tally = |passed, failed| Tally { passed, failed, skipped: 9 };
        assert!(verdict(&[], tally(1, 0)).is_ok());
        for (failed, tally) in [(&[][..], tally(0, 0)), (&[], tally(1, 1)), (&["fmt"], tally(1, 0))]
        {
            assert!(verdict(failed, tally).is_err());
        }
    }
}
