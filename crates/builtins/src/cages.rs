//! The cages that tools run in: what this machine has of one, and what is run there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::process::{Child, Launcher, Spec};
use sandbox::{Cage, Standing, Tier, standing};
use tokio::sync::OnceCell;
use tool::Caged;

/// What the tools that run code are made with.
#[derive(Debug)]
pub struct Cages {
    launcher: Launcher,
    work: Option<PathBuf>,
    floor: Tier,
    standing: OnceCell<Standing>,
}

impl Cages {
    /// Children are started by `launcher`, in a cage of `floor` at least; commands work in `work`.
    pub fn new(launcher: Launcher, work: Option<PathBuf>, floor: Tier) -> Self {
        Self { launcher, work, floor, standing: OnceCell::new() }
    }

    /// The folder that commands work in.
    pub fn work(&self) -> Option<&Path> {
        self.work.as_deref()
    }

    /// What this machine has of a cage. Tried at the first call, which takes some 20 ms; known from then
    /// on.
    pub async fn standing(&self) -> &Standing {
        self.standing.get_or_init(|| standing(&self.launcher)).await
    }

    /// The tier that is to be used.
    ///
    /// # Errors
    /// Why there is none that the operator allows, in a line.
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

    /// What to do about it.
    pub async fn advice(&self) -> &'static str {
        if self.standing().await.tier().is_some() {
            "allow user namespaces for this user, or say `server: { cage: fenced }` in the configuration"
        } else {
            "a kernel with landlock and seccomp is needed, and that nothing around Toolkeep refuses them"
        }
    }

    /// Why commands cannot work in the folder in a cage of `tier`, though code without one could.
    pub(crate) fn unfit_for_commands(tier: Tier) -> Option<&'static str> {
        let unmapped = tier == Tier::Fenced && rustix::process::geteuid().is_root();
        unmapped.then_some("in a fenced cage commands cannot work in the superuser's folder")
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// A spec for a shell's command line, in the working folder or in `folder`.
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

/// For the record: what a call took in a cage of `tier`, milliseconds and KiB.
pub(crate) fn caged(tier: Tier, used: Option<(u64, u64)>) -> Caged {
    let (cpu_ms, peak_kib) = used.unzip();
    Caged { tier: tier.as_str().to_owned(), cpu_ms, peak_kib }
}

/// The same of a child that has ended.
pub(crate) fn caged_child(tier: Tier, child: &Child) -> Caged {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    caged(tier, child.used().map(|used| (milliseconds(used.cpu), used.peak_kib)))
}

/// Nothing of Toolkeep's own.
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
