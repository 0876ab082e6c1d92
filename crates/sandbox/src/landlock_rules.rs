//! Landlock rules: the same file access as the mount namespace, enforced independently, and no TCP.

use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus,
    Scope,
};

use super::SandboxSpec;
use super::root_fs::{DEVICES, SYSTEM_DIRS};

/// Newest Landlock ABI that is used; features that the kernel lacks are left out.
const LANDLOCK_ABI: ABI = ABI::V9;

/// Paths that Landlock allows: the sandbox's folders, its temporary folder and its program.
pub(super) struct LandlockScope<'a> {
    pub(super) sandbox_spec: &'a SandboxSpec,
    pub(super) scratch: &'a Path,
    pub(super) binary: Option<BorrowedFd<'a>>,
}

/// Restricts this process and its future children to these paths.
pub(super) fn restrict_process(scope: &LandlockScope<'_>) -> Result<(), String> {
    build_and_apply(scope).map_err(|error| error.to_string())?.map_err(str::to_owned)
}

fn build_and_apply(
    places: &LandlockScope<'_>,
) -> Result<Result<(), &'static str>, landlock::RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
        .handle_access(AccessNet::from_all(LANDLOCK_ABI))?
        .scope(Scope::from_all(LANDLOCK_ABI))?
        .create()?;
    let run = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = rules;
    let system = SYSTEM_DIRS.iter().map(Path::new);
    for path in system.chain(places.sandbox_spec.readable_paths.iter().map(AsRef::as_ref)) {
        rules = allow_beneath(rules, path, run)?;
    }
    // A full sandbox has its own `/etc` and `/proc`; otherwise only the files that every program
    // reads.
    let own: &[&str] = if places.sandbox_spec.level == super::SandboxLevel::Full {
        &["/etc", "/proc"]
    } else {
        &["/etc/ld.so.cache", "/etc/alternatives"]
    };
    for path in own {
        rules = allow_beneath(rules, Path::new(path), look)?;
    }
    if places.sandbox_spec.level == super::SandboxLevel::Full {
        // A process in its own root file system may list all of it.
        rules = allow_beneath(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    }
    for name in DEVICES {
        let device = Path::new("/dev").join(name);
        rules = allow_beneath(rules, &device, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    for path in places.sandbox_spec.work_dir.iter().map(AsRef::as_ref).chain([places.scratch]) {
        rules = allow_beneath(rules, path, write_access())?;
    }
    if let Some(binary) = places.binary {
        rules = rules.add_rule(PathBeneath::new(binary, AccessFs::Execute | AccessFs::ReadFile))?;
    }
    let status = rules.restrict_self()?;
    Ok(if status.ruleset == RulesetStatus::NotEnforced {
        Err("the kernel does not support it")
    } else {
        Ok(())
    })
}

/// All write access, except executing files and creating devices.
fn write_access() -> BitFlags<AccessFs> {
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    AccessFs::from_all(LANDLOCK_ABI) & !never
}

/// A path that does not exist needs no rule.
fn allow_beneath(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(LANDLOCK_ABI) };
    rules.add_rule(PathBeneath::new(place, access))
}
