//! Test run of a plugin's examples, for plugin authors. Needs no server and writes no records.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tool::{Json, Problem};

use crate::AccessGrant;
use crate::access::PluginRuntimeConfig;
use crate::manifest::{PluginManifest, PluginToolDeclaration, ToolExample};
use crate::plugin_folder::{FolderContent, MANIFEST_FILE};
use crate::plugin_process::PluginCallResult;
use crate::plugin_registry;
use crate::plugin_version::VersionBackend;
use crate::settings::PluginSettings;

/// Timeout of one example.
const EXAMPLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Result of one example.
#[derive(Debug, Clone, Serialize)]
pub struct ExampleResult {
    /// The tool.
    #[serde(rename = "tool")]
    pub tool_name: String,
    /// Number of the example, from 1.
    #[serde(rename = "example")]
    pub example_number: usize,
    /// The error; absent if the result matches the example.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "wrong")]
    pub error: Option<String>,
}

/// Test report of a plugin.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PluginTestReport {
    /// Its examples, tool by tool.
    pub examples: Vec<ExampleResult>,
    /// Problems of the plugin as a whole or of its tools.
    pub problems: Vec<Problem>,
}

impl PluginTestReport {
    /// Returns whether all examples passed without problems.
    pub fn has_passed(&self) -> bool {
        self.problems.is_empty() && self.examples.iter().all(|one| one.error.is_none())
    }
}

/// Loads the plugin in `folder` as a server would, with the defaults of its settings, and runs
/// every example.
///
/// # Errors
/// A message if the plugin cannot be loaded.
pub async fn test_examples(
    folder: &Path,
    config: PluginRuntimeConfig,
    grant: &AccessGrant,
) -> Result<PluginTestReport, String> {
    let manifest_path = folder.join(MANIFEST_FILE).display().to_string();
    let path = folder.to_owned();
    let content = tokio::task::spawn_blocking(move || FolderContent::read_folder(&path)).await;
    let content = content.map_err(|error| error.to_string())?;
    let content = content.map_err(|error| error.to_string())?;
    let text = content
        .file_content(MANIFEST_FILE)
        .ok_or_else(|| format!("the file {manifest_path} does not exist"))?;
    let manifest =
        PluginManifest::parse_manifest(text, &manifest_path).map_err(|error| error.to_string())?;
    let builder = plugin_registry::new_builder(config).await.map_err(|error| error.to_string())?;
    let mut version = builder
        .build_version(&content, &manifest_path, (manifest, PluginSettings::default()), grant)
        .await;
    let mut trial =
        PluginTestReport { problems: std::mem::take(&mut version.problems), examples: Vec::new() };
    for (declared, state) in version.manifest.tools.iter().zip(&version.tools) {
        let Some(backend) = version.backend.as_ref().filter(|_| state.is_enabled) else { continue };
        for (index, example) in declared.examples.iter().enumerate() {
            let wrong = check_example(backend, declared, example).await.err();
            trial.examples.push(ExampleResult {
                tool_name: declared.name.clone(),
                example_number: index + 1,
                error: wrong,
            });
        }
    }
    builder.cancellation.cancel();
    drop((version.backend, version.offers));
    builder.tasks.close();
    builder.tasks.wait().await;
    Ok(trial)
}

async fn check_example(
    backend: &VersionBackend,
    declared: &PluginToolDeclaration,
    example: &ToolExample,
) -> Result<(), String> {
    let schema =
        jsonschema::validator_for(&declared.input_schema).map_err(|error| error.to_string())?;
    if let Err(error) = schema.validate(&example.input) {
        return Err(format!("the input does not match the parameters: {error}"));
    }
    let input = Json::encode(&example.input);
    let answer =
        tokio::time::timeout(EXAMPLE_TIMEOUT, backend.call_for_test(&declared.name, &input)).await;
    let answer =
        answer.map_err(|_| format!("no response within {} s", EXAMPLE_TIMEOUT.as_secs()))?;
    match (answer?, &example.expected_error) {
        (PluginCallResult::ToolFailed(words), Some(error)) if words.contains(error.as_str()) => {
            Ok(())
        }
        (PluginCallResult::ToolFailed(words), _) => Err(format!("it failed: {words}")),
        (PluginCallResult::ProcessLost(why), _) => Err(format!("its process ended: {why}")),
        (PluginCallResult::Value(value), Some(error)) => {
            Err(format!("expected the error `{error}`, got {}", value.as_str()))
        }
        (PluginCallResult::Value(value), None) => match &example.expected_output {
            Some(wanted) if !contains_json(wanted, &value.to_value()) => {
                Err(format!("expected {wanted}, got {}", value.as_str()))
            }
            _ => Ok(()),
        },
    }
}

/// Returns whether `have` contains `expected`: the named members of objects, and equal other
/// values.
fn contains_json(expected: &Value, have: &Value) -> bool {
    match (expected, have) {
        (Value::Object(wanted), Value::Object(have)) => wanted
            .iter()
            .all(|(key, value)| have.get(key).is_some_and(|other| contains_json(value, other))),
        (wanted, have) => wanted == have,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::contains_json;

    #[test]
    fn of_an_object_the_members_that_are_named_count() {
        let have = json!({"a": 1, "b": {"c": [1, 2], "d": 3}});
        for wanted in [json!({}), json!({"a": 1}), json!({"b": {"c": [1, 2]}})] {
            assert!(contains_json(&wanted, &have), "{wanted}");
        }
        for wanted in [json!({"a": 2}), json!({"x": null}), json!({"b": {"c": [1]}}), json!([])] {
            assert!(!contains_json(&wanted, &have), "{wanted}");
        }
    }
}
