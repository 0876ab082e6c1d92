//! Section `permissions` of the research registry: approval and allowed paths per scope.
//!
//! The section only adds restrictions to the operator's policy.

use std::collections::BTreeMap;

use serde::Deserialize;
use tool::{AccessScope, Json, ToolTraits};

use super::field_reader::escape_word;

/// Maximum paths of one scope.
const MAX_PATHS: usize = 1_000;
/// Maximum bytes of a path.
const MAX_PATH_BYTES: usize = 4_096;

/// Permissions of a file by scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FilePermissions(BTreeMap<AccessScope, ScopePermission>);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopePermission {
    /// Description of the permission for people.
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default)]
    requires_approval: bool,
    #[serde(default)]
    allowed_paths: Option<Vec<String>>,
}

impl FilePermissions {
    /// Parses the `permissions` section. An unknown value rejects the whole file, because the
    /// section restricts access.
    pub(super) fn from_json(json: &Json) -> Result<Self, String> {
        let section_error = |error: String| format!("`permissions`: {error}");
        let sections = json.decode::<BTreeMap<String, ScopePermission>>();
        let sections = sections.map_err(|error| section_error(error.to_string()))?;
        let mut by_scope = BTreeMap::new();
        for (scope_name, section) in sections {
            let scope = scope_name
                .parse::<AccessScope>()
                .map_err(|error| section_error(error.to_string()))?;
            let folders = section.allowed_paths.as_deref().unwrap_or_default();
            if section.allowed_paths.is_some() && scope != AccessScope::Filesystem {
                return Err(section_error("`allowed_paths` is for `filesystem`".to_owned()));
            }
            let is_invalid_path = |folder: &&String| {
                let has_parent_part = folder.split('/').any(|part| part == "..");
                !folder.starts_with('/') || has_parent_part || folder.len() > MAX_PATH_BYTES
            };
            if let Some(folder) = folders.iter().find(is_invalid_path) {
                return Err(section_error(format!(
                    "`{}` is not an absolute path",
                    escape_word(folder)
                )));
            }
            if folders.len() > MAX_PATHS {
                return Err(section_error(format!("more than {MAX_PATHS} paths")));
            }
            by_scope.insert(scope, section);
        }
        Ok(Self(by_scope))
    }

    /// Applies the permissions to the traits of a tool.
    pub(super) fn apply_to(&self, traits: &mut ToolTraits) {
        for section in traits.scopes.iter().filter_map(|scope| self.0.get(scope)) {
            traits.requires_approval |= section.requires_approval;
            if section.allowed_paths.is_some() {
                traits.allowed_paths.clone_from(&section.allowed_paths);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::{AccessScope, Json, ToolTraits};

    use super::FilePermissions;

    fn as_written() -> Value {
        json!({
            "network": {"description": "Can make network requests", "requires_approval": false},
            "filesystem": {"description": "Can read/write files", "requires_approval": true,
                "allowed_paths": ["/mnt/raid0/llm/", "/tmp/"]},
            "shell": {"description": "Can execute shell commands", "requires_approval": true},
            "compute": {"description": "Can execute computation", "requires_approval": false},
        })
    }

    #[test]
    fn the_research_registry_section_as_written_narrows_each_tool_by_its_scopes() {
        let permissions = FilePermissions::from_json(&Json::encode(&as_written())).unwrap();
        let narrowed = |scopes: &[AccessScope]| {
            let mut traits = ToolTraits { scopes: scopes.to_vec(), ..ToolTraits::default() };
            permissions.apply_to(&mut traits);
            (traits.requires_approval, traits.allowed_paths.map_or(0, |paths| paths.len()))
        };
        assert_eq!(narrowed(&[]), (false, 0));
        assert_eq!(narrowed(&[AccessScope::Network, AccessScope::Compute]), (false, 0));
        assert_eq!(narrowed(&[AccessScope::Shell]), (true, 0));
        assert_eq!(narrowed(&[AccessScope::Network, AccessScope::Filesystem]), (true, 2));
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for (section, told) in [
            (json!({"files": {}}), "unknown scope `files`"),
            (json!({"shell": {"requires_aproval": true}}), "unknown field `requires_aproval`"),
            (json!({"shell": {"requires_approval": "yes"}}), "invalid type"),
            (json!({"shell": {"allowed_paths": ["/tmp/"]}}), "`allowed_paths` is for `filesystem`"),
            (json!({"filesystem": {"allowed_paths": ["tmp/"]}}), "`tmp/` is not an absolute path"),
            (json!({"filesystem": {"allowed_paths": ["/tmp/../"]}}), "is not an absolute path"),
            (json!(["shell"]), "invalid type"),
        ] {
            let error = FilePermissions::from_json(&Json::encode(&section)).unwrap_err();
            assert!(error.starts_with("`permissions`: ") && error.contains(told), "{error}");
        }
    }
}
