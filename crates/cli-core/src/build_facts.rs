//! Facts of the build, which the application reports to `toolkeep version`.

use serde::Serialize;

/// How the program was compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildProfile {
    /// Without optimisation.
    Debug,
    /// By `cargo build --release`.
    Plain,
    /// As the release is, without a profile of calls.
    Shipped,
    /// As the release is, with a profile of calls, by `cargo xtask release`.
    ProfileGuided,
}

impl BuildProfile {
    /// All profiles.
    const ALL: [Self; 4] = [Self::Debug, Self::Plain, Self::Shipped, Self::ProfileGuided];

    /// Returns the profile that the build names by `named`. Without one, or with an unknown one, a
    /// program with debug assertions is a debug build and any other a plain one.
    pub fn from_build(named: Option<&str>, has_debug_assertions: bool) -> Self {
        let known = |name: &str| Self::ALL.into_iter().find(|profile| profile.as_str() == name);
        let usual = if has_debug_assertions { Self::Debug } else { Self::Plain };
        named.and_then(known).unwrap_or(usual)
    }

    /// The name of the profile.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Plain => "plain",
            Self::Shipped => "shipped",
            Self::ProfileGuided => "profile-guided",
        }
    }
}

/// Facts of the build that only the application knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuildFacts {
    /// The commit of the source, if the build named it.
    pub commit: Option<&'static str>,
    /// The platform that the program was built for, as rustc names it.
    pub target: String,
    /// How it was compiled.
    pub profile: BuildProfile,
    /// Cargo features that are compiled in.
    pub features: Vec<&'static str>,
    /// Kinds of sources, as `source list` names them.
    pub sources: Vec<&'static str>,
    /// Kinds of storage.
    pub stores: Vec<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::BuildProfile;

    #[test]
    fn every_profile_is_named_as_it_is_printed() {
        for profile in BuildProfile::ALL {
            assert_eq!(BuildProfile::from_build(Some(profile.as_str()), true), profile);
            let printed = serde_json::to_value(profile).unwrap();
            assert_eq!(printed, profile.as_str());
        }
    }

    #[test]
    fn a_build_without_a_name_is_plain_or_debug() {
        for named in [None, Some(""), Some("fast")] {
            assert_eq!(BuildProfile::from_build(named, true), BuildProfile::Debug);
            assert_eq!(BuildProfile::from_build(named, false), BuildProfile::Plain);
        }
    }
}
