//! Declarations of all built-in tools: `tools/FAMILY.yaml`, a file for each crate that ships tools.
//!
//! The files are the only source of names, schemas, traits and limits, so that configuration and
//! command line know every built-in tool without the code that runs it.

use std::sync::{Arc, LazyLock};

use tool::Tool;
use tool_manifest::ManifestRegistry;

/// A family of built-in tools, shipped by one crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFamily {
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
        impl ToolFamily {
            /// All families in listing order.
            pub const ALL: &[Self] = &[$(Self::$family),+];

            /// Returns the declarations of the family's tools.
            pub fn registry(self) -> &'static ManifestRegistry {
                match self {
                    $(Self::$family => {
                        static REGISTRY: LazyLock<ManifestRegistry> =
                            LazyLock::new(|| load_bundled(ToolFamily::$family));
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
fn load_bundled(family: ToolFamily) -> ManifestRegistry {
    ManifestRegistry::from_json(family.text()).expect("a shipped manifest is sound")
}

/// Returns the names of all built-in tools in listing order, including those that this machine
/// cannot offer.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    ToolFamily::ALL.iter().flat_map(|family| family.registry().tool_names())
}

/// Returns the definition of the built-in tool `name`, if it exists.
pub fn find_tool(name: &str) -> Option<Arc<Tool>> {
    let mut declared =
        ToolFamily::ALL.iter().filter_map(|family| family.registry().find_tool(name));
    declared.next().map(|declared| Arc::clone(declared.tool()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use testkit::executor::MockExecutor;
    use tool::{CallerType, PermissionLevel, SafetyLevel};
    use tool_manifest::{NumericLimit, ToolRestriction};

    use super::{ToolFamily, find_tool, tool_names};

    #[test]
    fn every_file_is_read_and_no_two_tools_have_one_name() {
        let all: Vec<&str> = tool_names().collect();
        let distinct: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len());
        for family in ToolFamily::ALL {
            assert!(family.registry().tool_names().next().is_some(), "{family:?} has no tool");
        }
        assert!(
            all.iter().all(|name| find_tool(name).is_some()) && find_tool("no_such_tool").is_none()
        );
    }

    #[test]
    fn a_tool_has_less_afterwards() {
        let shipped = ToolFamily::General.registry();
        let maximum = BTreeMap::from([("max_bytes".to_owned(), 10)]);
        let less = ToolRestriction {
            safety: Some(SafetyLevel::Dangerous),
            min_level: Some(PermissionLevel::Admin),
            destructive: Some(true),
            allows_chain: Some(false),
            max_argument_bytes: Some(1 << 20),
            max_values: maximum,
            ..ToolRestriction::default()
        };
        less.validate_for(shipped, "read_file").unwrap();
        let off = ToolRestriction { is_disabled: true, ..ToolRestriction::default() };
        let wider =
            ToolRestriction { safety: Some(SafetyLevel::Safe), ..ToolRestriction::default() };
        assert!(wider.validate_for(shipped, "write_file").is_err());
        let by = [("read_file", less), ("echo", off), ("write_file", wider)];
        let by = by.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
        let registry = shipped.with_restrictions(&by);
        assert!(registry.find_tool("echo").is_none() && registry.find_tool("write_file").is_none());
        let more =
            ToolRestriction { max_argument_bytes: Some(128 << 20), ..ToolRestriction::default() };
        assert!(more.validate_for(shipped, "csv_to_json").unwrap_err().contains("64 MiB"));
        let read = registry.find_tool("read_file").unwrap();
        assert_eq!(read.numeric_limit("max_bytes"), NumericLimit { default: 10, max: 10 });
        let traits = &read.tool().traits;
        assert_eq!(
            (traits.safety, traits.min_level),
            (SafetyLevel::Dangerous, PermissionLevel::Admin)
        );
        assert!(traits.is_destructive && traits.allowed_callers == [CallerType::Direct]);
        assert_eq!(
            read.tool().input_schema.to_value(),
            read.tool().raw_definition.to_value()["parameters"]
        );
        let foreign = shipped
            .find_tool("calculator")
            .unwrap()
            .with_executor(MockExecutor::new(|_| panic!("it is not called")));
        let less = ToolRestriction {
            min_level: Some(PermissionLevel::Admin),
            ..ToolRestriction::default()
        };
        assert_eq!(
            less.restrict_tool(foreign.clone()).unwrap().tool.traits.min_level,
            PermissionLevel::Admin
        );
        let off = ToolRestriction { is_disabled: true, ..ToolRestriction::default() };
        assert!(off.restrict_tool(foreign.clone()).is_none());
        let maximum = BTreeMap::from([("n".to_owned(), 1)]);
        let number = ToolRestriction { max_values: maximum, ..ToolRestriction::default() };
        assert!(number.restrict_tool(foreign).is_none());
        let same = registry.find_tool("calculator").unwrap();
        assert_eq!(same.tool(), shipped.find_tool("calculator").unwrap().tool());
    }
}
