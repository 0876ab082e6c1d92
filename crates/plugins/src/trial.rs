//! Tries the examples of a plugin's manifest, for who writes one: without a server and without a record.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tool::{Json, Problem};

use crate::Grant;
use crate::folder::{Content, MANIFEST};
use crate::grant::Means;
use crate::manifest::{Declared, Example, Manifest};
use crate::process::{Answer, Host};
use crate::registry;
use crate::server::Session;
use crate::settings::Settings;
use crate::version::Version;

/// The longest that an example may take.
const LONGEST: Duration = Duration::from_mins(1);

/// What came of one example.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// The tool.
    pub tool: String,
    /// Which of its examples, from 1.
    pub example: usize,
    /// What is wrong; nothing where it came as the example says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
}

/// What came of a plugin.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trial {
    /// Its examples, tool by tool.
    pub examples: Vec<Tried>,
    /// What is wrong with it as a whole, or with tools.
    pub problems: Vec<Problem>,
}

impl Trial {
    /// Whether all is as it should be.
    pub fn good(&self) -> bool {
        self.problems.is_empty() && self.examples.iter().all(|one| one.wrong.is_none())
    }
}

/// Loads the plugin in `folder` as a server would, with the defaults of its settings, and tries every
/// example.
///
/// # Errors
/// Where it cannot be loaded at all, in words.
pub async fn trial(folder: &Path, means: Means, grant: &Grant) -> Result<Trial, String> {
    let place = folder.join(MANIFEST).display().to_string();
    let at = folder.to_owned();
    let content = tokio::task::spawn_blocking(move || Content::read(&at)).await;
    let content = content.map_err(|error| error.to_string())?;
    let content = content.map_err(|error| error.to_string())?;
    let text = content.file(MANIFEST).ok_or_else(|| format!("there is no {place}"))?;
    let manifest = Manifest::read(text, &place).map_err(|error| error.to_string())?;
    let maker = registry::maker(means).await.map_err(|error| error.to_string())?;
    let mut version = maker.make(&content, &place, (manifest, Settings::default()), grant).await;
    let mut trial = Trial { problems: std::mem::take(&mut version.problems), examples: Vec::new() };
    for (declared, state) in version.manifest.tools.iter().zip(&version.tools) {
        let Some(runs) = by(&version).filter(|_| state.enabled) else { continue };
        for (index, example) in declared.examples.iter().enumerate() {
            let wrong = tried(runs, declared, example).await.err();
            trial.examples.push(Tried { tool: declared.name.clone(), example: index + 1, wrong });
        }
    }
    maker.end.cancel();
    drop((version.host, version.served, version.offers));
    maker.tasks.close();
    maker.tasks.wait().await;
    Ok(trial)
}

/// What runs an example.
#[derive(Clone, Copy)]
enum By<'a> {
    Host(&'a Arc<Host>),
    Server(&'a Session),
}

fn by(version: &Version) -> Option<By<'_>> {
    let host = version.host.as_ref().map(By::Host);
    host.or_else(|| version.served.as_ref().map(|served| By::Server(&served.session)))
}

impl By<'_> {
    async fn answer(self, tool: &str, input: &Json) -> Result<Answer, String> {
        match self {
            By::Host(host) => {
                let process = host.process().await.map_err(|error| error.message)?;
                let begun = process.begin(tool, input);
                let begun = begun.map_err(|_| "its process takes no call".to_owned())?;
                Ok(begun.answer.await.unwrap_or(Answer::Lost("it is gone".to_owned())))
            }
            By::Server(session) => match session.server.tried(tool, input).await {
                Ok(Ok(value)) => Ok(Answer::Value(value)),
                Ok(Err(words)) => Ok(Answer::Failed(words)),
                Err(why) => Ok(Answer::Lost(why)),
            },
        }
    }
}

async fn tried(by: By<'_>, declared: &Declared, example: &Example) -> Result<(), String> {
    let schema = jsonschema::validator_for(&declared.input).map_err(|error| error.to_string())?;
    if let Err(error) = schema.validate(&example.input) {
        return Err(format!("the input does not fit the parameters: {error}"));
    }
    let input = Json::of(&example.input);
    let answer = tokio::time::timeout(LONGEST, by.answer(&declared.name, &input)).await;
    let answer = answer.map_err(|_| format!("no answer within {} s", LONGEST.as_secs()))?;
    match (answer?, &example.error) {
        (Answer::Failed(words), Some(error)) if words.contains(error.as_str()) => Ok(()),
        (Answer::Failed(words), _) => Err(format!("it failed: {words}")),
        (Answer::Lost(why), _) => Err(format!("its process ended: {why}")),
        (Answer::Value(value), Some(error)) => {
            Err(format!("it should fail with `{error}`, and answers {}", value.as_str()))
        }
        (Answer::Value(value), None) => match &example.output {
            Some(wanted) if !within(wanted, &value.value()) => {
                Err(format!("it should answer {wanted}, and answers {}", value.as_str()))
            }
            _ => Ok(()),
        },
    }
}

/// Whether all that is wanted is there: of objects the members that are named, all else as it is.
fn within(wanted: &Value, have: &Value) -> bool {
    match (wanted, have) {
        (Value::Object(wanted), Value::Object(have)) => wanted
            .iter()
            .all(|(key, value)| have.get(key).is_some_and(|other| within(value, other))),
        (wanted, have) => wanted == have,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::within;

    #[test]
    fn of_an_object_the_members_that_are_named_count() {
        let have = json!({"a": 1, "b": {"c": [1, 2], "d": 3}});
        for wanted in [json!({}), json!({"a": 1}), json!({"b": {"c": [1, 2]}})] {
            assert!(within(&wanted, &have), "{wanted}");
        }
        for wanted in [json!({"a": 2}), json!({"x": null}), json!({"b": {"c": [1]}}), json!([])] {
            assert!(!within(&wanted, &have), "{wanted}");
        }
    }
}
