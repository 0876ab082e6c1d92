//! The first words to a server, in each era, and what its answer says.

use ::mcp::{Era, Revision, RpcError, code};
use serde::Deserialize;
use tool::Json;

use super::link::Unanswered;
use super::request::US;
use tool::display_text::shown;

/// What a server can do, as far as it matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Can {
    pub(super) tools: Option<Listed>,
    pub(super) prompts: Option<Listed>,
    pub(super) resources: Option<Listed>,
    pub(super) completions: bool,
    pub(super) logging: bool,
    pub(super) tasks: Option<Tasks>,
}

/// Calls of tools can be tasks, in the words of the era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tasks {
    /// Whether they can be given up.
    pub(super) cancel: bool,
}

/// A list of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// Whether it tells of changes.
    pub(super) changes: bool,
    /// Whether single resources can be listened to.
    pub(super) subscribe: bool,
}

/// What a server said of itself.
#[derive(Debug)]
pub(super) struct Greeted {
    /// The result, as it came.
    pub(super) about: Json,
    /// What is spoken from now on.
    pub(super) revision: Revision,
    pub(super) can: Can,
    /// Whether it says that it speaks the other era too.
    pub(super) both: bool,
}

/// A greeting that came to nothing.
#[derive(Debug)]
pub(super) enum Ungreeted {
    /// It would not have it.
    Refused(RpcError),
    /// It speaks other revisions, these.
    Versions(Vec<String>),
    /// It answered with something else.
    Unreadable(String),
    /// No answer.
    Unanswered(Unanswered),
}

/// MCP's method.
pub(super) const fn method(era: Era) -> &'static str {
    match era {
        Era::Handshake => "initialize",
        Era::Stateless => "server/discover",
    }
}

/// Its params. What the asking client can differs from call to call on one connection, so all is
/// declared that can be relayed; who cannot answer says so when asked.
pub(super) fn params(era: Era) -> Json {
    match era {
        Era::Handshake => Json::of(&serde_json::json!({
            "protocolVersion": Revision::LAST_HANDSHAKE.as_str(),
            "capabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}},
            "clientInfo": serde_json::from_str::<serde_json::Value>(US).unwrap_or_default(),
        })),
        Era::Stateless => Json::empty(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    protocol_version: Option<String>,
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Capabilities {
    tools: Option<Capability>,
    prompts: Option<Capability>,
    resources: Option<Capability>,
    completions: Option<serde_json::Value>,
    logging: Option<serde_json::Value>,
    tasks: Option<serde_json::Value>,
    extensions: Option<serde_json::Value>,
}

impl Capabilities {
    fn tasks(&self, era: Era) -> Option<Tasks> {
        let is =
            |found: Option<&serde_json::Value>| found.is_some_and(serde_json::Value::is_object);
        match era {
            Era::Handshake => {
                let tasks = self.tasks.as_ref()?;
                let calls = is(tasks.pointer("/requests/tools/call"));
                calls.then(|| Tasks { cancel: is(tasks.get("cancel")) })
            }
            Era::Stateless => {
                let extension = self.extensions.as_ref()?.get(::mcp::task::EXTENSION);
                is(extension).then_some(Tasks { cancel: true })
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Capability {
    list_changed: Option<bool>,
    subscribe: Option<bool>,
}

/// Reads the answer.
pub(super) fn read(era: Era, about: Json) -> Result<Greeted, Ungreeted> {
    let said: Said = about.read().map_err(|error| Ungreeted::Unreadable(error.to_string()))?;
    let offered = match era {
        Era::Handshake => said.protocol_version.into_iter().collect(),
        Era::Stateless => said.supported_versions,
    };
    let eras = || offered.iter().filter_map(|version| Revision::read(version)).map(Revision::era);
    let both = eras().any(|other| other != era);
    let spoken = offered.iter().filter_map(|version| Revision::read(version));
    let Some(revision) = spoken.filter(|revision| revision.era() == era).max() else {
        return Err(Ungreeted::Versions(offered));
    };
    let listed = |said: Capability| Listed {
        changes: said.list_changed == Some(true),
        subscribe: said.subscribe == Some(true) || era == Era::Stateless,
    };
    let tasks = said.capabilities.tasks(era);
    let Capabilities { tools, prompts, resources, completions, logging, .. } = said.capabilities;
    let can = Can {
        tools: tools.map(listed),
        prompts: prompts.map(listed),
        resources: resources.map(listed),
        completions: completions.is_some(),
        logging: logging.is_some(),
        tasks,
    };
    Ok(Greeted { about, revision, can, both })
}

impl Ungreeted {
    /// Whether the server answered and would not have this dialect.
    pub(super) fn refuses_dialect(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Versions(_))
    }
}

/// Whether a server that would not have our revision names it among those that it speaks: then it is
/// asked once more, as MCP has it.
pub(super) fn is_spoken_after_all(era: Era, error: &RpcError) -> bool {
    let data = error.data.as_ref().filter(|_| error.code == code::UNSUPPORTED_VERSION);
    let spoken = data.and_then(|data| data.get("supported")?.read::<Vec<String>>().ok());
    era == Era::Stateless
        && spoken.is_some_and(|spoken| spoken.iter().any(|it| it == Revision::LATEST.as_str()))
}

/// Revisions that are not spoken here, in words.
pub(super) fn versions(theirs: &[String]) -> String {
    let theirs: Vec<_> = theirs.iter().take(10).map(|version| shown(version, 20)).collect();
    format!("speaks no revision of MCP that is known here, only: {}", theirs.join(", "))
}

#[cfg(test)]
mod tests {
    use ::mcp::{Era, Revision};
    use serde_json::json;
    use tool::Json;

    use super::{Can, Listed, Ungreeted, read};

    #[test]
    fn revisions_are_those_of_the_era_and_the_newest_is_spoken() {
        let read = |era, about| read(era, Json::of(&about));
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let greeted = read(Era::Handshake, json!({"protocolVersion": version})).unwrap();
            assert_eq!(greeted.revision.as_str(), version);
        }
        for version in ["2026-07-28", "1.0", ""] {
            let error = read(Era::Handshake, json!({"protocolVersion": version})).unwrap_err();
            assert!(matches!(error, Ungreeted::Versions(_)), "{version}");
        }
        let both = json!({"supportedVersions": ["2025-11-25", "2026-07-28", "2027-01-01"]});
        assert_eq!(read(Era::Stateless, both).unwrap().revision, Revision::V2026_07_28);
        let old = json!({"supportedVersions": ["2025-11-25"]});
        assert!(read(Era::Stateless, old).unwrap_err().refuses_dialect());
        assert!(!read(Era::Stateless, json!([])).unwrap_err().refuses_dialect());
    }

    #[test]
    fn capabilities_are_what_is_said() {
        let about = json!({"protocolVersion": "2025-11-25", "capabilities": {
            "tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}, "odd": 1}});
        let can = read(Era::Handshake, Json::of(&about)).unwrap().can;
        let expected = Can {
            tools: Some(Listed { changes: true, subscribe: false }),
            resources: Some(Listed { changes: false, subscribe: true }),
            logging: true,
            ..Can::default()
        };
        assert_eq!(can, expected);
    }
}
