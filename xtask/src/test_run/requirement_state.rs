//! State of the test requirements on this machine. What is missing is installed where that may be.

use super::TestOptions;
use super::test_requirements::{REQUIREMENTS, TestRequirement};
use crate::test_installs;
use crate::workspace::Workspace;

/// Whether the tests that need something can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequirementState {
    /// It works: the version or the place that was found.
    Available(String),
    /// `--without` leaves out the tests that need it.
    Excluded,
    /// It does not work, and why.
    Missing(String),
}

/// A requirement and its state on this machine.
pub(super) struct CheckedRequirement {
    pub(super) requirement: &'static TestRequirement,
    pub(super) state: RequirementState,
}

impl CheckedRequirement {
    /// Tries every requirement that is not excluded. Installs missing packages, unless the run is
    /// hermetic.
    pub(super) fn check_all(workspace: &Workspace, options: &TestOptions) -> Vec<Self> {
        REQUIREMENTS.iter().map(|row| Self::check_one(row, workspace, options)).collect()
    }

    fn check_one(
        requirement: &'static TestRequirement,
        workspace: &Workspace,
        options: &TestOptions,
    ) -> Self {
        let state = if options.excluded_requirements.contains(&requirement.name) {
            RequirementState::Excluded
        } else {
            match try_requirement(requirement, workspace, options.is_hermetic) {
                Ok(found) => RequirementState::Available(found),
                Err(why) => RequirementState::Missing(why),
            }
        };
        Self { requirement, state }
    }

    pub(super) fn is_available(&self) -> bool {
        matches!(self.state, RequirementState::Available(_))
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self.state, RequirementState::Missing(_))
    }

    /// Returns the line for the start of a run: the name, and what was found or what helps.
    pub(super) fn status_line(&self) -> String {
        let state = match &self.state {
            RequirementState::Available(found) => found.clone(),
            RequirementState::Excluded => "left out".to_owned(),
            RequirementState::Missing(why) => {
                format!("MISSING: {why}; {}", self.requirement.fix_advice())
            }
        };
        format!("{:11} {state}", self.requirement.name)
    }
}

fn try_requirement(
    requirement: &TestRequirement,
    workspace: &Workspace,
    is_hermetic: bool,
) -> Result<String, String> {
    let (check, packages) = (requirement.check, requirement.packages());
    check(workspace).or_else(|why| {
        if is_hermetic || packages.is_empty() {
            return Err(why);
        }
        println!("installing {} with apt-get: {why}", packages.join(" "));
        test_installs::install_debian(packages)
            .map_err(|failure| format!("{why}; it could not be installed: {failure}"))?;
        check(workspace).map(|found| format!("{found}, installed now"))
    })
}
