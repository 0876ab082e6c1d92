//! Settings file of a plugin, `tool_settings/{plugin}.json` (research registry). It is read again
//! for each version.
//!
//! Unusable values are reported and ignored. The file is replaced atomically.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rooted_fs::private_file;
use serde_json::{Map, Value, json};
use tool::{Json, JsonLimits, Problem};

use crate::manifest::{FieldErrors, escape_for_message, is_plugin_name};
use crate::parameter_schema;

/// Longest file, in bytes.
const MAX_SETTINGS_BYTES: u64 = 256 << 10;

/// The settings of one plugin, as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PluginSettings {
    pub(crate) enabled: Option<bool>,
    /// Tools that are switched on or off.
    pub(crate) tool_overrides: BTreeMap<String, bool>,
    pub(crate) custom_values: Map<String, Value>,
    /// Problems of the file.
    pub(crate) problems: Vec<Problem>,
    /// The text as read, to detect changes of the file.
    pub(crate) source_text: Option<Vec<u8>>,
}

fn settings_path(folder: &Path, plugin: &str) -> PathBuf {
    folder.join(format!("{plugin}.json"))
}

fn read_text(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match rooted_fs::regular_file::read_bytes(path, MAX_SETTINGS_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Reads the current text of the file. Blocks.
pub(crate) fn current_text(folder: &Path, plugin: &str) -> Option<Vec<u8>> {
    if is_plugin_name(plugin) {
        read_text(&settings_path(folder, plugin)).ok().flatten()
    } else {
        None
    }
}

impl PluginSettings {
    /// Loads the settings of `plugin`; empty without a file. Blocks.
    pub(crate) fn load_settings(folder: &Path, plugin: &str) -> Self {
        let path = settings_path(folder, plugin);
        let told = |message: String| Self {
            problems: vec![
                Problem::new(path.display().to_string(), message)
                    .with_help("correct or remove the file; until then the defaults are used"),
            ],
            ..Self::default()
        };
        let text = match read_text(&path) {
            Ok(None) => return Self::default(),
            Ok(Some(text)) => text,
            Err(error) => return told(format!("cannot read the settings: {error}")),
        };
        let read = Json::parse(text.clone(), JsonLimits::DEFINITION).map_err(|e| e.to_string());
        let read = read.and_then(|json| Self::parse_settings(&json.to_value()));
        let read = read.unwrap_or_else(|error| told(format!("cannot parse the settings: {error}")));
        Self { source_text: Some(text), ..read }
    }

    fn parse_settings(value: &Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("they must be an object")?;
        let known = ["enabled", "tool_overrides", "custom_config"];
        if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!(
                "unknown value `{}`; use one of \
                {}",
                escape_for_message(key),
                known.join(", ")
            ));
        }
        let mut errors = FieldErrors::default();
        let enabled = fields.get("enabled").filter(|value| !value.is_null());
        let enabled = enabled.map(|_| errors.read_bool(fields, "enabled", true));
        let mut overrides = BTreeMap::new();
        for (tool, value) in errors.read_object(fields, "tool_overrides").into_iter().flatten() {
            match value.get("enabled").and_then(Value::as_bool) {
                Some(on) => drop(overrides.insert(tool.clone(), on)),
                None => errors.push_error(format!(
                    "'tool_overrides': write `{}: {{\"enabled\": true}}`, or false",
                    escape_for_message(tool)
                )),
            }
        }
        let custom = errors.read_object(fields, "custom_config").cloned().unwrap_or_default();
        if errors.is_empty() {
            Ok(Self {
                enabled,
                tool_overrides: overrides,
                custom_values: custom,
                ..Self::default()
            })
        } else {
            Err(errors.join_errors())
        }
    }

    /// Returns the values for the plugin: the defaults of the schema with the configured values.
    /// Values that violate the schema are reported and ignored.
    pub(crate) fn effective_values(
        &self,
        schema: &Map<String, Value>,
    ) -> (Map<String, Value>, Vec<String>) {
        let (mut values, mut problems) = (Map::new(), Vec::new());
        for (name, field) in schema {
            let field = field.as_object().cloned().unwrap_or_default();
            if let Some(value) = field.get("default") {
                values.insert(name.clone(), value.clone());
            }
            let Some(value) = self.custom_values.get(name) else { continue };
            match check_value(name, &field, value) {
                Ok(()) => drop(values.insert(name.clone(), value.clone())),
                Err(why) => problems.push(why),
            }
        }
        for name in self.custom_values.keys().filter(|name| !schema.contains_key(*name)) {
            problems.push(format!("unknown setting `{}`", escape_for_message(name)));
        }
        (values, problems)
    }

    /// Returns the complete settings as JSON.
    pub(crate) fn to_json(&self, values: &Map<String, Value>) -> Json {
        let overrides: Map<String, Value> = self
            .tool_overrides
            .iter()
            .map(|(tool, on)| (tool.clone(), json!({"enabled": on})))
            .collect();
        Json::encode(&json!({
            "enabled": self.enabled.unwrap_or(true),
            "tool_overrides": overrides,
            "custom_config": values,
        }))
    }
}

/// Validates a value against the schema of its setting.
fn check_value(name: &str, field: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let mut errors = FieldErrors::default();
    let schema = parameter_schema::to_property_schema(name, field, &mut errors);
    let schema = jsonschema::validator_for(&schema).map_err(|error| {
        format!("`{}`: its schema is invalid: {error}", escape_for_message(name))
    })?;
    match schema.validate(value) {
        Ok(()) => Ok(()),
        Err(error) => Err(format!(
            "`{}`: {}",
            escape_for_message(name),
            escape_for_message(&error.to_string())
        )),
    }
}

/// Merges changes into the file of `plugin`: objects by key; `null` removes a key. Blocks.
///
/// # Errors
/// The changes are invalid or cannot be written; nothing was changed then.
pub(crate) fn update_settings(
    folder: &Path,
    plugin: &str,
    schema: &Map<String, Value>,
    changes: &Value,
) -> Result<(), PluginSettingsError> {
    let before = PluginSettings::load_settings(folder, plugin);
    let stored = before.source_text.and_then(|text| serde_json::from_slice(&text).ok());
    let mut all: Value = stored.filter(Value::is_object).unwrap_or_else(|| json!({}));
    merge_changes(&mut all, changes);
    let settings = PluginSettings::parse_settings(&all).map_err(PluginSettingsError::Invalid)?;
    let (_, problems) = settings.effective_values(schema);
    if !problems.is_empty() {
        return Err(PluginSettingsError::Invalid(problems.join("; ")));
    }
    write_settings(folder, plugin, &all)
        .map_err(|error| PluginSettingsError::WriteFailed(error.to_string()))
}

/// Error of a settings update; the file is unchanged.
#[derive(Debug)]
pub(crate) enum PluginSettingsError {
    Invalid(String),
    WriteFailed(String),
}

fn merge_changes(all: &mut Value, changes: &Value) {
    match (all.as_object_mut(), changes.as_object()) {
        (Some(all), Some(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    all.remove(key);
                } else {
                    merge_changes(all.entry(key.clone()).or_insert(Value::Null), change);
                }
            }
        }
        _ => *all = changes.clone(),
    }
}

fn write_settings(folder: &Path, plugin: &str, all: &Value) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let text = serde_json::to_string_pretty(all)? + "\n";
    // Settings may hold secrets.
    private_file::replace_atomically(&settings_path(folder, plugin), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Map<String, Value> {
        let schema = json!({
            "directory": {"type": "string", "default": "/c"},
            "most": {"type": "integer", "minimum": 1, "default": 5},
            "token": {"type": "string"},
        });
        schema.as_object().cloned().unwrap()
    }

    fn read(text: &str) -> PluginSettings {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("p.json"), text).unwrap();
        PluginSettings::load_settings(folder.path(), "p")
    }

    #[test]
    fn defaults_of_the_schema_are_filled_in() {
        let (values, told) = read(r#"{"custom_config": {"most": 7}}"#).effective_values(&schema());
        assert_eq!(Value::from(values), json!({"directory": "/c", "most": 7}));
        assert!(told.is_empty());
        let (values, _) = PluginSettings::default().effective_values(&schema());
        assert_eq!(Value::from(values), json!({"directory": "/c", "most": 5}));
    }

    #[test]
    fn what_does_not_fit_the_schema_is_told_and_not_used() {
        let settings = read(r#"{"custom_config": {"most": "x", "directory": "/d", "other": 1}}"#);
        let (values, told) = settings.effective_values(&schema());
        assert_eq!(Value::from(values), json!({"directory": "/d", "most": 5}));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("`most`: ") && told[1] == "unknown setting `other`");
    }

    #[test]
    fn a_file_that_cannot_be_used_counts_as_none_and_is_told() {
        for bad in
            ["{", "[]", r#"{"enabled": 1}"#, r#"{"tool_overrides": {"a": true}}"#, r#"{"x": 1}"#]
        {
            let settings = read(bad);
            assert_eq!((settings.enabled, settings.problems.len()), (None, 1), "{bad}");
            assert!(settings.problems[0].message.starts_with("cannot parse the settings"), "{bad}");
        }
        assert_eq!(read("{}").problems, []);
    }

    #[test]
    fn changes_are_merged_and_refused_whole() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let change = |changes: Value| update_settings(at, "p", &schema(), &changes);
        change(json!({"tool_overrides": {"a": {"enabled": false}}, "custom_config": {"most": 2}}))
            .unwrap();
        change(json!({"enabled": false, "custom_config": {"directory": "/d"}})).unwrap();
        let settings = PluginSettings::load_settings(at, "p");
        assert_eq!(settings.enabled, Some(false));
        assert_eq!(settings.tool_overrides, BTreeMap::from([("a".to_owned(), false)]));
        assert_eq!(Value::from(settings.custom_values), json!({"most": 2, "directory": "/d"}));
        for bad in [json!({"custom_config": {"most": 0}}), json!({"enabled": "no"}), json!([])] {
            assert!(matches!(change(bad), Err(PluginSettingsError::Invalid(_))));
        }
        change(json!({"custom_config": {"most": null}, "enabled": null})).unwrap();
        assert_eq!(
            Value::from(PluginSettings::load_settings(at, "p").custom_values),
            json!({"directory": "/d"})
        );
        assert_eq!(fs::read_dir(at).unwrap().count(), 1, "nothing is left beside it");
        // Settings may hold secrets. The control: what is written in the plain way takes the umask's mode.
        let mode = |name: &str| {
            let meta = fs::metadata(at.join(name)).unwrap();
            std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
        };
        fs::write(at.join("plain"), "x").unwrap();
        assert_ne!(mode("plain"), 0o600);
        assert_eq!(mode("p.json"), 0o600);
    }
}
