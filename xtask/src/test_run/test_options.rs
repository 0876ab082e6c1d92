//! Flags of `cargo xtask test`.

/// Test modules that `--without` can exclude.
const EXCLUDABLE_MODULES: &[&str] = &["data", "root"];

/// Options of a test run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// Installs nothing for the tests, and skips those that need installations.
    pub(super) is_hermetic: bool,
    /// Full counts.
    pub(super) is_deep: bool,
    /// Excluded test modules. Tests with a missing requirement that is not excluded count as
    /// failed.
    pub(super) excluded_modules: Vec<String>,
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
                "--without" => options.excluded_modules.push(parse_exclusion(flags.next())?),
                _ => {
                    return Err(format!(
                        "`{flag}` is no flag of test; use --hermetic, --deep or --without NAME"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn parse_exclusion(name: Option<&&str>) -> Result<String, String> {
    let known = name.filter(|name| EXCLUDABLE_MODULES.contains(*name));
    known.map(|name| (*name).to_owned()).ok_or_else(|| {
        format!("--without needs one of {}; say it once for each", EXCLUDABLE_MODULES.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::TestOptions;

    #[test]
    fn flags_are_known_or_refused() {
        let deep = TestOptions { is_deep: true, ..TestOptions::default() };
        assert_eq!(TestOptions::parse_flags(&["--deep"]).unwrap(), deep);
        let without =
            TestOptions { excluded_modules: vec!["data".to_owned()], ..TestOptions::default() };
        assert_eq!(TestOptions::parse_flags(&["--without", "data"]).unwrap(), without);
        let error = TestOptions::parse_flags(&["--hermtic"]).unwrap_err();
        assert_eq!(
            error,
            "`--hermtic` is no flag of test; use --hermetic, --deep or --without NAME"
        );
        for wrong in [&["--without"][..], &["--without", "real"], &["--without", "--deep"]] {
            let error = TestOptions::parse_flags(wrong).unwrap_err();
            assert_eq!(error, "--without needs one of data, root; say it once for each");
        }
    }
}
