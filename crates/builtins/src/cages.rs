//! Sandboxes for tools that run code: detects what this machine supports and builds the commands
//! that run in one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::process::{Child, Launcher, Spec};
use sandbox::{Cage, Standing, Tier, standing};
use tokio::sync::OnceCell;
use tool::Caged;

/// Process launcher, working directory and minimum sandbox level of the tools that run code.
#[derive(Debug)]
pub struct Cages {
    launcher: Launcher,
    work: Option<PathBuf>,
    floor: Tier,
    standing: OnceCell<Standing>,
}

impl Cages {
    /// Creates a provider that starts children with `launcher` in a sandbox of at least `floor`;
    /// commands run in `work`.
    pub fn new(launcher: Launcher, work: Option<PathBuf>, floor: Tier) -> Self {
        Self { launcher, work, floor, standing: OnceCell::new() }
    }

    /// Returns the working directory of commands, if one is configured.
    pub fn work(&self) -> Option<&Path> {
        self.work.as_deref()
    }

    /// Tests which sandbox levels this machine supports. The first call takes about 20 ms; later
    /// calls return its result.
    pub async fn standing(&self) -> &Standing {
        self.standing.get_or_init(|| standing(&self.launcher)).await
    }

    /// Returns the sandbox level to use.
    ///
    /// # Errors
    /// One line that says why no permitted level is available.
    pub async fn tier(&self) -> Result<Tier, String> {
        let standing = self.standing().await;
        match standing.tier() {
            Some(tier) if tier >= self.floor => Ok(tier),
            Some(_) => {
                let why = standing.lacks(Tier::Whole).unwrap_or_default();
                Err(format!("a whole cage cannot be made here: {why}"))
            }
            None => {
                let why = standing.lacks(Tier::Fenced).or_else(|| standing.lacks(Tier::Whole));
                Err(format!("no cage can be made here: {}", why.unwrap_or_default()))
            }
        }
    }

    /// Returns a hint on how to make the missing sandbox level available.
    pub async fn advice(&self) -> &'static str {
        if self.standing().await.tier().is_some() {
            "allow user namespaces for this user, or say `server: { cage: fenced }` in the configuration"
        } else {
            "a kernel with landlock and seccomp is needed, and that nothing around Toolkeep refuses them"
        }
    }

    /// Returns why commands cannot use the working folder at this level, although code without
    /// files could run.
    pub(crate) fn unfit_for_commands(tier: Tier) -> Option<&'static str> {
        let unmapped = tier == Tier::Fenced && rustix::process::geteuid().is_root();
        unmapped.then_some("in a fenced cage commands cannot work in the superuser's folder")
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// Builds the sandboxed command for a shell command line, run in the working folder or in
    /// `folder` below it.
    pub(crate) async fn shell(&self, line: &str, folder: Option<&str>) -> Result<Spec, String> {
        let tier = self.tier().await?;
        let work = self.work.as_deref().ok_or("no folder to work in is configured")?;
        let cwd = work.join(folder.unwrap_or("."));
        Ok(Spec {
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), line.to_owned()],
            env: environment(work),
            clear_env: true,
            cwd: Some(cwd),
            cage: Some(Cage::new(tier).working_in(work)),
        })
    }
}

/// Builds the recorded resource usage of a sandboxed call, in milliseconds and KiB.
pub(crate) fn caged(tier: Tier, used: Option<(u64, u64)>) -> Caged {
    let (cpu_ms, peak_kib) = used.unzip();
    Caged { tier: tier.as_str().to_owned(), cpu_ms, peak_kib }
}

/// Builds the recorded resource usage of a child process that has ended.
pub(crate) fn caged_child(tier: Tier, child: &Child) -> Caged {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    caged(tier, child.used().map(|used| (milliseconds(used.cpu), used.peak_kib)))
}

/// The environment of commands. Contains nothing of Toolkeep's own environment.
fn environment(work: &Path) -> Vec<(String, sandbox::process::EnvValue)> {
    let home = work.display().to_string();
    [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", home.as_str()),
        ("SHELL", "/bin/sh"),
        ("USER", "tool"),
        ("LOGNAME", "tool"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .into()
}
