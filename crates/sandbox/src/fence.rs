//! Landlock rules: the same file access as the mount namespace, enforced independently, and no TCP.

use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus,
    Scope,
};

use super::Cage;
use super::view::{DEVICES, SYSTEM};

/// The newest this is written for; what the kernel does not know of it is left out.
const NEWEST: ABI = ABI::V9;

/// The folder for passing things, beside the working folder.
pub(super) struct Places<'a> {
    pub(super) cage: &'a Cage,
    pub(super) scratch: &'a Path,
    pub(super) binary: Option<BorrowedFd<'a>>,
}

/// Fences this process in, and all it becomes.
pub(super) fn fence(places: &Places<'_>) -> Result<(), String> {
    fenced(places).map_err(|error| error.to_string())?.map_err(str::to_owned)
}

fn fenced(places: &Places<'_>) -> Result<Result<(), &'static str>, landlock::RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let run = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = rules;
    let system = SYSTEM.iter().map(Path::new);
    for path in system.chain(places.cage.readable.iter().map(AsRef::as_ref)) {
        rules = beneath(rules, path, run)?;
    }
    // In a whole cage these are its own; else only those that every program looks at.
    let own: &[&str] = if places.cage.tier == super::Tier::Whole {
        &["/etc", "/proc"]
    } else {
        &["/etc/ld.so.cache", "/etc/alternatives"]
    };
    for path in own {
        rules = beneath(rules, Path::new(path), look)?;
    }
    if places.cage.tier == super::Tier::Whole {
        // There is nothing in its own root that it may not see the name of.
        rules = beneath(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    }
    for name in DEVICES {
        let device = Path::new("/dev").join(name);
        rules = beneath(rules, &device, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    for path in places.cage.work.iter().map(AsRef::as_ref).chain([places.scratch]) {
        rules = beneath(rules, path, written())?;
    }
    if let Some(binary) = places.binary {
        rules = rules.add_rule(PathBeneath::new(binary, AccessFs::Execute | AccessFs::ReadFile))?;
    }
    let status = rules.restrict_self()?;
    Ok(if status.ruleset == RulesetStatus::NotEnforced {
        Err("the kernel does not have it")
    } else {
        Ok(())
    })
}

/// All that can be done to files, but to run them or to make them devices.
fn written() -> BitFlags<AccessFs> {
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    AccessFs::from_all(NEWEST) & !never
}

/// What is not there needs no rule.
fn beneath(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(place, access))
}
