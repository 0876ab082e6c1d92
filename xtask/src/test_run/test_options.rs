//! Flags of `cargo xtask test`.

use super::test_requirements::{REQUIREMENTS, requirement_names};

/// Options of a test run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// Installs nothing for the tests, and skips those that need installations.
    pub(super) is_hermetic: bool,
    /// Full counts.
    pub(super) is_deep: bool,
    /// Names of requirements whose tests are left out. Tests with a missing requirement that is
    /// not excluded count as failed.
    pub(super) excluded_requirements: Vec<&'static str>,
}

impl TestOptions {
    /// Parses the options from the command line.
    pub(crate) fn parse_flags(flags: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            match *flag {
                "--hermetic" => options.is_hermetic = true,
                "--deep" => options.is_deep = true,
                "--without" => options.excluded_requirements.push(parse_exclusion(flags.next())?),
                _ => {
                    return Err(format!(
                        "`{flag}` is no flag of test; use --hermetic, --deep or --without NAME"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Returns the profile that cargo builds the tests with: millions of rounds are worth a longer build.
    pub(super) fn cargo_profile(&self) -> &'static str {
        if self.is_deep { "deep" } else { "test" }
    }
}

fn parse_exclusion(name: Option<&&str>) -> Result<&'static str, String> {
    let known = REQUIREMENTS.iter().find(|row| name.is_some_and(|name| *name == row.name));
    known.map(|row| row.name).ok_or_else(|| {
        format!("--without needs one of {}; repeat it for each", requirement_names())
    })
}

#[cfg(test)]
mod tests {
    use super::TestOptions;

    #[test]
    fn flags_are_known_or_refused() {
        let deep = TestOptions { is_deep: true, ..TestOptions::default() };
        assert_eq!(TestOptions::parse_flags(&["--deep"]).unwrap(), deep);
        let names = ["data", "python"];
        let without =
            TestOptions { excluded_requirements: names.to_vec(), ..TestOptions::default() };
        let flags = names.map(|name| ["--without", name]).concat();
        assert_eq!(TestOptions::parse_flags(&flags).unwrap(), without);
        let error = TestOptions::parse_flags(&["--hermtic"]).unwrap_err();
        assert_eq!(
            error,
            "`--hermtic` is no flag of test; use --hermetic, --deep or --without NAME"
        );
        for wrong in [&["--without"][..], &["--without", "real"], &["--without", "--deep"]] {
            let error = TestOptions::parse_flags(wrong).unwrap_err();
            assert!(error.starts_with("--without needs one of data, python, "), "{error}");
            assert!(error.ends_with("; repeat it for each"), "{error}");
        }
    }
}
