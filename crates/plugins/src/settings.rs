//! `tool_settings/{plugin}.json` (spec 3): what a person sets of a plugin, read each time anew.
//!
//! What cannot be used is told and counts as not said; the file is written whole, or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rooted_fs::private_file;
use serde_json::{Map, Value, json};
use tool::{Json, Limits, Problem};

use crate::manifest::{Faults, is_name, shown};
use crate::parameters;

/// Longest file, in bytes.
const MOST: u64 = 256 << 10;

/// The settings of one plugin, as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) enabled: Option<bool>,
    /// Tools that are switched on or off.
    pub(crate) overrides: BTreeMap<String, bool>,
    pub(crate) custom: Map<String, Value>,
    /// What of the file is not used.
    pub(crate) problems: Vec<Problem>,
    /// The text that was read; differs where the file does.
    pub(crate) text: Option<Vec<u8>>,
}

fn place(folder: &Path, plugin: &str) -> PathBuf {
    folder.join(format!("{plugin}.json"))
}

fn text(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match rooted_fs::files::read(path, MOST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// The text of the file as it is now. Blocks.
pub(crate) fn written(folder: &Path, plugin: &str) -> Option<Vec<u8>> {
    if is_name(plugin) { text(&place(folder, plugin)).ok().flatten() } else { None }
}

impl Settings {
    /// Reads the settings of `plugin`; without a file there are none. Blocks.
    pub(crate) fn read(folder: &Path, plugin: &str) -> Self {
        let path = place(folder, plugin);
        let told = |message: String| Self {
            problems: vec![
                Problem::new(path.display().to_string(), message)
                    .fix("mend or remove the file; until then the defaults count"),
            ],
            ..Self::default()
        };
        let text = match text(&path) {
            Ok(None) => return Self::default(),
            Ok(Some(text)) => text,
            Err(error) => return told(format!("the settings cannot be read: {error}")),
        };
        let read = Json::check(text.clone(), Limits::DEFINITION).map_err(|e| e.to_string());
        let read = read.and_then(|json| Self::of(&json.value()));
        let read =
            read.unwrap_or_else(|error| told(format!("the settings cannot be used: {error}")));
        Self { text: Some(text), ..read }
    }

    fn of(value: &Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("they must be an object")?;
        let known = ["enabled", "tool_overrides", "custom_config"];
        if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("`{}` is none of {}", shown(key), known.join(", ")));
        }
        let mut faults = Faults::default();
        let enabled = fields.get("enabled").filter(|value| !value.is_null());
        let enabled = enabled.map(|_| faults.flag(fields, "enabled", true));
        let mut overrides = BTreeMap::new();
        for (tool, value) in faults.object(fields, "tool_overrides").into_iter().flatten() {
            match value.get("enabled").and_then(Value::as_bool) {
                Some(on) => drop(overrides.insert(tool.clone(), on)),
                None => faults.tell(format!(
                    "'tool_overrides': write `{}: {{\"enabled\": true}}`, or false",
                    shown(tool)
                )),
            }
        }
        let custom = faults.object(fields, "custom_config").cloned().unwrap_or_default();
        if faults.is_empty() {
            Ok(Self { enabled, overrides, custom, ..Self::default() })
        } else {
            Err(faults.joined())
        }
    }

    /// The values for the plugin: the schema's defaults, and what is set in their place. What does not fit
    /// the schema is told and left out.
    pub(crate) fn values(&self, schema: &Map<String, Value>) -> (Map<String, Value>, Vec<String>) {
        let (mut values, mut told) = (Map::new(), Vec::new());
        for (name, field) in schema {
            let field = field.as_object().cloned().unwrap_or_default();
            if let Some(value) = field.get("default") {
                values.insert(name.clone(), value.clone());
            }
            let Some(value) = self.custom.get(name) else { continue };
            match fit(name, &field, value) {
                Ok(()) => drop(values.insert(name.clone(), value.clone())),
                Err(why) => told.push(why),
            }
        }
        for name in self.custom.keys().filter(|name| !schema.contains_key(*name)) {
            told.push(format!("`{}` is no setting of this plugin", shown(name)));
        }
        (values, told)
    }

    /// The whole as JSON.
    pub(crate) fn json(&self, values: &Map<String, Value>) -> Json {
        let overrides: Map<String, Value> = self
            .overrides
            .iter()
            .map(|(tool, on)| (tool.clone(), json!({"enabled": on})))
            .collect();
        Json::of(&json!({
            "enabled": self.enabled.unwrap_or(true),
            "tool_overrides": overrides,
            "custom_config": values,
        }))
    }
}

/// Whether a value is one that the schema of its setting allows.
fn fit(name: &str, field: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let mut faults = Faults::default();
    let schema = parameters::property(name, field, &mut faults);
    let schema = jsonschema::validator_for(&schema)
        .map_err(|error| format!("`{}`: its schema cannot be used: {error}", shown(name)))?;
    match schema.validate(value) {
        Ok(()) => Ok(()),
        Err(error) => Err(format!("`{}`: {}", shown(name), shown(&error.to_string()))),
    }
}

/// Merges changes into the file of `plugin`: objects key by key, `null` takes a key away. Blocks.
///
/// # Errors
/// What is wrong with them, or with writing; then nothing was changed.
pub(crate) fn change(
    folder: &Path,
    plugin: &str,
    schema: &Map<String, Value>,
    changes: &Value,
) -> Result<(), Unchanged> {
    let before = Settings::read(folder, plugin);
    let kept = before.text.and_then(|text| serde_json::from_slice(&text).ok());
    let mut all: Value = kept.filter(Value::is_object).unwrap_or_else(|| json!({}));
    merge(&mut all, changes);
    let settings = Settings::of(&all).map_err(Unchanged::Unfit)?;
    let (_, told) = settings.values(schema);
    if !told.is_empty() {
        return Err(Unchanged::Unfit(told.join("; ")));
    }
    write(folder, plugin, &all).map_err(|error| Unchanged::Unwritten(error.to_string()))
}

/// Why settings are as they were.
#[derive(Debug)]
pub(crate) enum Unchanged {
    Unfit(String),
    Unwritten(String),
}

fn merge(all: &mut Value, changes: &Value) {
    match (all.as_object_mut(), changes.as_object()) {
        (Some(all), Some(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    all.remove(key);
                } else {
                    merge(all.entry(key.clone()).or_insert(Value::Null), change);
                }
            }
        }
        _ => *all = changes.clone(),
    }
}

fn write(folder: &Path, plugin: &str, all: &Value) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let text = serde_json::to_string_pretty(all)? + "\n";
    // Settings may hold secrets.
    private_file::replace(&place(folder, plugin), text.as_bytes())
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

    fn read(text: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("p.json"), text).unwrap();
        Settings::read(folder.path(), "p")
    }

    #[test]
    fn defaults_of_the_schema_are_filled_in() {
        let (values, told) = read(r#"{"custom_config": {"most": 7}}"#).values(&schema());
        assert_eq!(Value::from(values), json!({"directory": "/c", "most": 7}));
        assert!(told.is_empty());
        let (values, _) = Settings::default().values(&schema());
        assert_eq!(Value::from(values), json!({"directory": "/c", "most": 5}));
    }

    #[test]
    fn what_does_not_fit_the_schema_is_told_and_not_used() {
        let settings = read(r#"{"custom_config": {"most": "x", "directory": "/d", "other": 1}}"#);
        let (values, told) = settings.values(&schema());
        assert_eq!(Value::from(values), json!({"directory": "/d", "most": 5}));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("`most`: ") && told[1].starts_with("`other` is no setting"));
    }

    #[test]
    fn a_file_that_cannot_be_used_counts_as_none_and_is_told() {
        for bad in
            ["{", "[]", r#"{"enabled": 1}"#, r#"{"tool_overrides": {"a": true}}"#, r#"{"x": 1}"#]
        {
            let settings = read(bad);
            assert_eq!((settings.enabled, settings.problems.len()), (None, 1), "{bad}");
            assert!(
                settings.problems[0].message.starts_with("the settings cannot be used"),
                "{bad}"
            );
        }
        assert_eq!(read("{}").problems, []);
    }

    #[test]
    fn changes_are_merged_and_refused_whole() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let change = |changes: Value| change(at, "p", &schema(), &changes);
        change(json!({"tool_overrides": {"a": {"enabled": false}}, "custom_config": {"most": 2}}))
            .unwrap();
        change(json!({"enabled": false, "custom_config": {"directory": "/d"}})).unwrap();
        let settings = Settings::read(at, "p");
        assert_eq!(settings.enabled, Some(false));
        assert_eq!(settings.overrides, BTreeMap::from([("a".to_owned(), false)]));
        assert_eq!(Value::from(settings.custom), json!({"most": 2, "directory": "/d"}));
        for bad in [json!({"custom_config": {"most": 0}}), json!({"enabled": "no"}), json!([])] {
            assert!(matches!(change(bad), Err(Unchanged::Unfit(_))));
        }
        change(json!({"custom_config": {"most": null}, "enabled": null})).unwrap();
        assert_eq!(Value::from(Settings::read(at, "p").custom), json!({"directory": "/d"}));
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
