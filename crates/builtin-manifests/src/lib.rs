//! Declarations of all built-in tools: `tools/FAMILY.yaml`, a file for each crate that ships tools.
//!
//! The files are the only source of names, schemas, traits and limits, so that configuration and
//! command line know every built-in tool without the code that runs it.

use std::sync::{Arc, LazyLock};

use tool::Tool;
use tool_manifest::Registry;

/// A family of built-in tools, shipped by one crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `builtins`.
    General,
    /// `builtins-math`.
    Math,
    /// `builtins-symbolic`.
    Symbolic,
    /// `builtins-llm`.
    Text,
    /// `programs`.
    Programs,
}

macro_rules! families {
    ($($family:ident: $file:literal),+ $(,)?) => {
        impl Family {
            /// All families in listing order.
            pub const ALL: &[Self] = &[$(Self::$family),+];

            /// Returns the declarations of the family's tools.
            pub fn registry(self) -> &'static Registry {
                match self {
                    $(Self::$family => {
                        static REGISTRY: LazyLock<Registry> =
                            LazyLock::new(|| read_shipped(Family::$family));
                        &REGISTRY
                    })+
                }
            }

            /// Returns the generated JSON of the family with examples, for tests.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$family => {
                        include_str!(concat!(env!("OUT_DIR"), "/", $file, ".json"))
                    })+
                }
            }
        }
    };
}

families! {
    General: "builtins",
    Math: "builtins-math",
    Symbolic: "builtins-symbolic",
    Text: "builtins-llm",
    Programs: "programs",
}

#[expect(clippy::expect_used, reason = "the files are constants, and a test reads each")]
fn read_shipped(family: Family) -> Registry {
    Registry::read(family.text()).expect("a shipped manifest is sound")
}

/// Returns the names of all built-in tools in listing order, including those that this machine
/// cannot offer.
pub fn names() -> impl Iterator<Item = &'static str> {
    Family::ALL.iter().flat_map(|family| family.registry().names())
}

/// Returns the definition of the built-in tool `name`, if it exists.
pub fn tool(name: &str) -> Option<Arc<Tool>> {
    let mut declared = Family::ALL.iter().filter_map(|family| family.registry().get(name));
    declared.next().map(|declared| Arc::clone(declared.tool()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use testkit::executor::Scripted;
    use tool::{CallerType, Level, Safety};
    use tool_manifest::{Bound, Narrowing};

    use super::{Family, names, tool};

    #[test]
    fn every_file_is_read_and_no_two_tools_have_one_name() {
        let all: Vec<&str> = names().collect();
        let distinct: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len());
        for family in Family::ALL {
            assert!(family.registry().names().next().is_some(), "{family:?} has no tool");
        }
        assert!(all.iter().all(|name| tool(name).is_some()) && tool("no_such_tool").is_none());
    }

    #[test]
    fn a_tool_has_less_afterwards() {
        let shipped = Family::General.registry();
        let maximum = BTreeMap::from([("max_bytes".to_owned(), 10)]);
        let less = Narrowing {
            safety: Some(Safety::Dangerous),
            level: Some(Level::Admin),
            destructive: Some(true),
            chain: Some(false),
            arguments: Some(1 << 20),
            maximum,
            ..Narrowing::default()
        };
        less.check(shipped, "read_file").unwrap();
        let off = Narrowing { off: true, ..Narrowing::default() };
        let wider = Narrowing { safety: Some(Safety::Safe), ..Narrowing::default() };
        assert!(wider.check(shipped, "write_file").is_err());
        let by = [("read_file", less), ("echo", off), ("write_file", wider)];
        let by = by.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
        let registry = shipped.narrowed(&by);
        assert!(registry.get("echo").is_none() && registry.get("write_file").is_none());
        let more = Narrowing { arguments: Some(128 << 20), ..Narrowing::default() };
        assert!(more.check(shipped, "csv_to_json").unwrap_err().contains("64 MiB"));
        let read = registry.get("read_file").unwrap();
        assert_eq!(read.bound("max_bytes"), Bound { usual: 10, most: 10 });
        let traits = &read.tool().traits;
        assert_eq!((traits.safety, traits.level), (Safety::Dangerous, Level::Admin));
        assert!(traits.destructive && traits.callers == [CallerType::Direct]);
        assert_eq!(read.tool().input.value(), read.tool().received.value()["parameters"]);
        let foreign = shipped
            .get("calculator")
            .unwrap()
            .run_by(Scripted::new(|_| panic!("it is not called")));
        let less = Narrowing { level: Some(Level::Admin), ..Narrowing::default() };
        assert_eq!(less.applied(foreign.clone()).unwrap().tool.traits.level, Level::Admin);
        let off = Narrowing { off: true, ..Narrowing::default() };
        assert!(off.applied(foreign.clone()).is_none());
        let maximum = BTreeMap::from([("n".to_owned(), 1)]);
        let number = Narrowing { maximum, ..Narrowing::default() };
        assert!(number.applied(foreign).is_none());
        let same = registry.get("calculator").unwrap();
        assert_eq!(same.tool(), shipped.get("calculator").unwrap().tool());
    }
}
