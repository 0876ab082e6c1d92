//! Flags of `cargo xtask test`.

/// What `--without` may leave out: what the tests need, and this machine may not have.
const EXCLUSIONS: &[&str] = &["data", "root"];

/// How to run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// Install nothing for the tests, leave out those that need installs.
    pub(super) hermetic: bool,
    /// Full counts.
    pub(super) deep: bool,
    /// What is left out on purpose. What is missing and not named here counts as failed.
    pub(super) without: Vec<String>,
}

impl Options {
    /// From the command line.
    pub(crate) fn parse(flags: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            match *flag {
                "--hermetic" => options.hermetic = true,
                "--deep" => options.deep = true,
                "--without" => options.without.push(exclusion(flags.next())?),
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

fn exclusion(name: Option<&&str>) -> Result<String, String> {
    let known = name.filter(|name| EXCLUSIONS.contains(*name));
    known.map(|name| (*name).to_owned()).ok_or_else(|| {
        format!("--without needs one of {}; say it once for each", EXCLUSIONS.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn flags_are_known_or_refused() {
        let deep = Options { deep: true, ..Options::default() };
        assert_eq!(Options::parse(&["--deep"]).unwrap(), deep);
        let without = Options { without: vec!["data".to_owned()], ..Options::default() };
        assert_eq!(Options::parse(&["--without", "data"]).unwrap(), without);
        let error = Options::parse(&["--hermtic"]).unwrap_err();
        assert_eq!(
            error,
            "`--hermtic` is no flag of test; use --hermetic, --deep or --without NAME"
        );
        for wrong in [&["--without"][..], &["--without", "real"], &["--without", "--deep"]] {
            let error = Options::parse(wrong).unwrap_err();
            assert_eq!(error, "--without needs one of data, root; say it once for each");
        }
    }
}
