//! Flags of `cargo xtask dist`.

use std::path::PathBuf;

/// A group of packages that `--only` can select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageKind {
    /// Wheels with the program.
    Wheel,
    /// Wheel of the Python package for nodes.
    NodeWheel,
    /// Tarballs for npm.
    Npm,
    /// Packages for Debian.
    Debian,
    /// Archives with the program, the script that installs them, the formula and the image file.
    Script,
    /// Dependencies and their licences.
    Sbom,
}

/// Names of the groups, in the order in which they are made.
const KINDS: &[(&str, PackageKind)] = &[
    ("wheel", PackageKind::Wheel),
    ("node-wheel", PackageKind::NodeWheel),
    ("npm", PackageKind::Npm),
    ("debian", PackageKind::Debian),
    ("script", PackageKind::Script),
    ("sbom", PackageKind::Sbom),
];

/// Options of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DistOptions {
    /// Programs to package, at most one for each architecture; by default the shipped one.
    pub(crate) binary_paths: Vec<PathBuf>,
    /// Output folder; by default `dist` in cargo's target directory.
    pub(crate) out_dir: Option<PathBuf>,
    /// Selected groups; empty for all.
    pub(crate) selected_kinds: Vec<PackageKind>,
    /// Version to stamp in place of the workspace's, for tests of upgrades.
    pub(crate) stamped_version: Option<String>,
    /// Compresses at the lowest level, for tests.
    pub(crate) is_fast: bool,
}

impl DistOptions {
    /// Parses the options from the command line.
    ///
    /// # Errors
    /// If a flag is unknown or has no value.
    pub(crate) fn parse_flags(flags: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            let mut value =
                || flags.next().map(|it| (*it).to_owned()).ok_or(format!("{flag} needs a value"));
            match *flag {
                "--binary" => options.binary_paths.push(value()?.into()),
                "--out" => options.out_dir = Some(value()?.into()),
                "--only" => options.selected_kinds.push(parse_kind(&value()?)?),
                "--stamp-version" => options.stamped_version = Some(value()?),
                "--fast" => options.is_fast = true,
                _ => {
                    return Err(format!(
                        "`{flag}` is no flag of dist; use --binary PATH, --out DIR, --only KIND, \
                         --stamp-version VERSION or --fast"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Returns the groups to make, in their order.
    pub(crate) fn package_kinds(&self) -> impl Iterator<Item = PackageKind> {
        let all = self.selected_kinds.is_empty();
        let kinds = KINDS.iter().map(|(_, kind)| *kind);
        kinds.filter(move |kind| all || self.selected_kinds.contains(kind))
    }
}

fn parse_kind(name: &str) -> Result<PackageKind, String> {
    let known = KINDS.iter().find(|(known, _)| *known == name);
    known.map(|(_, kind)| *kind).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        format!("--only needs one of {}; repeat it for each", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::{DistOptions, PackageKind};

    #[test]
    fn flags_are_known_or_refused() {
        let flags = ["--only", "npm", "--only", "wheel", "--fast", "--binary", "a", "--out", "b"];
        let options = DistOptions::parse_flags(&flags).unwrap();
        let kinds: Vec<_> = options.package_kinds().collect();
        assert_eq!(kinds, [PackageKind::Wheel, PackageKind::Npm]);
        assert!(options.is_fast && options.binary_paths == [std::path::PathBuf::from("a")]);
        assert_eq!(DistOptions::default().package_kinds().count(), 6);
        for (flags, problem) in [
            (&["--outt", "b"][..], "`--outt` is no flag of dist"),
            (&["--out"], "--out needs a value"),
            (&["--only", "rpm"], "--only needs one of wheel, node-wheel, npm"),
        ] {
            let error = DistOptions::parse_flags(flags).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
