//! Section `permissions` of spec 3: approval and allowed paths per scope.
//!
//! The section only adds restrictions to the operator's policy.

use std::collections::BTreeMap;

use serde::Deserialize;
use tool::{Json, Scope, Traits};

/// Maximum paths of one scope.
const FOLDERS: usize = 1_000;
/// Maximum bytes of a path.
const FOLDER: usize = 4_096;

/// Permissions of a file by scope.
#[derive(Debug, Clone, Default)]
pub(super) struct Permissions(BTreeMap<Scope, Section>);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    /// Description of the permission for people.
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default)]
    requires_approval: bool,
    #[serde(default)]
    allowed_paths: Option<Vec<String>>,
}

impl Permissions {
    /// Parses the `permissions` section. An unknown value rejects the whole file, because the
    /// section restricts access.
    pub(super) fn read(json: &Json) -> Result<Self, String> {
        let told = |error: String| format!("`permissions`: {error}");
        let sections = json.read::<BTreeMap<String, Section>>();
        let sections = sections.map_err(|error| told(error.to_string()))?;
        let mut all = BTreeMap::new();
        for (word, section) in sections {
            let scope = word.parse::<Scope>().map_err(|error| told(error.to_string()))?;
            let folders = section.allowed_paths.as_deref().unwrap_or_default();
            if section.allowed_paths.is_some() && scope != Scope::Filesystem {
                return Err(told("`allowed_paths` is for `filesystem`".to_owned()));
            }
            let plain = |folder: &&String| {
                let up = folder.split('/').any(|part| part == "..");
                !folder.starts_with('/') || up || folder.len() > FOLDER
            };
            if let Some(folder) = folders.iter().find(plain) {
                let folder: String = folder.chars().take(64).collect();
                return Err(told(format!("`{}` is no absolute path", folder.escape_debug())));
            }
            if folders.len() > FOLDERS {
                return Err(told(format!("more than {FOLDERS} paths")));
            }
            all.insert(scope, section);
        }
        Ok(Self(all))
    }

    /// Applies the permissions to the traits of a tool.
    pub(super) fn narrow(&self, traits: &mut Traits) {
        for section in traits.scopes.iter().filter_map(|scope| self.0.get(scope)) {
            traits.approval |= section.requires_approval;
            if section.allowed_paths.is_some() {
                traits.allowed_paths.clone_from(&section.allowed_paths);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::{Json, Scope, Traits};

    use super::Permissions;

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
    fn the_section_of_spec_3_as_written_narrows_each_tool_by_its_scopes() {
        let permissions = Permissions::read(&Json::of(&as_written())).unwrap();
        let narrowed = |scopes: &[Scope]| {
            let mut traits = Traits { scopes: scopes.to_vec(), ..Traits::default() };
            permissions.narrow(&mut traits);
            (traits.approval, traits.allowed_paths.map_or(0, |paths| paths.len()))
        };
        assert_eq!(narrowed(&[]), (false, 0));
        assert_eq!(narrowed(&[Scope::Network, Scope::Compute]), (false, 0));
        assert_eq!(narrowed(&[Scope::Shell]), (true, 0));
        assert_eq!(narrowed(&[Scope::Network, Scope::Filesystem]), (true, 2));
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for (section, told) in [
            (json!({"files": {}}), "unknown scope `files`"),
            (json!({"shell": {"requires_aproval": true}}), "unknown field `requires_aproval`"),
            (json!({"shell": {"requires_approval": "yes"}}), "invalid type"),
            (json!({"shell": {"allowed_paths": ["/tmp/"]}}), "`allowed_paths` is for `filesystem`"),
            (json!({"filesystem": {"allowed_paths": ["tmp/"]}}), "`tmp/` is no absolute path"),
            (json!({"filesystem": {"allowed_paths": ["/tmp/../"]}}), "is no absolute path"),
            (json!(["shell"]), "invalid type"),
        ] {
            let error = Permissions::read(&Json::of(&section)).unwrap_err();
            assert!(error.starts_with("`permissions`: ") && error.contains(told), "{error}");
        }
    }
}
