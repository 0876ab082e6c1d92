//! Extensions of MCP that a gateway relays between its clients and a server, by an allow list.
//!
//! Both sides declare extensions by name in their capabilities, with settings of each
//! (<https://modelcontextprotocol.io/extensions>). The tasks extension is never relayed: a gateway serves
//! and follows tasks itself.

use std::sync::Arc;

use tool::Json;

use crate::tasks::TASKS_EXTENSION;

/// Name of the extension for user interfaces of tools, MCP Apps (SEP-1865).
pub const APPS_EXTENSION: &str = "io.modelcontextprotocol/ui";
/// Name of the extension for skills (SEP-2640).
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// Media type of a user interface, in the settings of [`APPS_EXTENSION`].
const APP_MEDIA_TYPE: &str = "text/html;profile=mcp-app";

/// Extensions that may be relayed to and from one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedExtensions(Arc<[String]>);

impl Default for AllowedExtensions {
    /// Allows user interfaces of tools, whose pages a client shows in a sandbox, and skills.
    fn default() -> Self {
        Self(Arc::from([APPS_EXTENSION, SKILLS_EXTENSION].map(str::to_owned)))
    }
}

impl AllowedExtensions {
    /// Allows the extensions of these names.
    pub fn from_names(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().filter(|name| name != TASKS_EXTENSION).collect())
    }

    /// Returns true if the extension of this name is allowed.
    pub fn allows(&self, name: &str) -> bool {
        self.0.iter().any(|allowed| allowed == name)
    }

    /// Returns the allowed ones among declared `extensions`, with their settings; `None` if there are
    /// none.
    pub fn select(&self, declared: Option<&Json>) -> Option<Json> {
        let declared = declared.filter(|json| json.kind() == "object")?;
        let allowed = self.0.iter().filter_map(|name| {
            let settings = declared.get(name).filter(|settings| settings.kind() == "object")?;
            Some((name, settings))
        });
        let empty = Json::empty_object();
        let selected =
            allowed.fold(empty.clone(), |all, (name, settings)| all.with_member(name, &settings));
        (selected != empty).then_some(selected)
    }

    /// Returns `extensions` for a connection that serves clients of different capabilities: all
    /// allowed ones. `None` if none is allowed.
    pub fn declaration(&self) -> Option<Json> {
        let settings = |name: &str| match name {
            APPS_EXTENSION => Json::object_from([("mimeTypes", &Json::encode(&[APP_MEDIA_TYPE]))]),
            _ => Json::empty_object(),
        };
        let all = self.0.iter();
        let declared =
            all.fold(Json::empty_object(), |all, name| all.with_member(name, &settings(name)));
        (!self.0.is_empty()).then_some(declared)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::{APPS_EXTENSION, AllowedExtensions, SKILLS_EXTENSION};

    #[test]
    fn only_allowed_extensions_pass_with_their_settings() {
        let declared = json!({APPS_EXTENSION: {"mimeTypes": ["x"]}, "com.example/a": {},
            "io.modelcontextprotocol/tasks": {}, "com.example/odd": 1});
        let select = |names: &[&str]| {
            let allowed = AllowedExtensions::from_names(names.iter().map(|&it| it.to_owned()));
            allowed.select(Some(&Json::encode(&declared))).map(|json| json.to_value())
        };
        let apps = json!({APPS_EXTENSION: {"mimeTypes": ["x"]}});
        assert_eq!(
            AllowedExtensions::default().select(Some(&Json::encode(&declared))).unwrap().to_value(),
            apps
        );
        assert_eq!(select(&["com.example/a"]), Some(json!({"com.example/a": {}})));
        for none in
            [&["com.example/odd"][..], &["com.example/b"], &["io.modelcontextprotocol/tasks"], &[]]
        {
            assert_eq!(select(none), None, "{none:?}");
        }
        assert_eq!(AllowedExtensions::default().select(None), None);
    }

    #[test]
    fn a_shared_connection_declares_all_that_is_allowed() {
        let declared = AllowedExtensions::default().declaration().unwrap().to_value();
        let expected = json!({APPS_EXTENSION: {"mimeTypes": ["text/html;profile=mcp-app"]}, SKILLS_EXTENSION: {}});
        assert_eq!(declared, expected);
        assert_eq!(AllowedExtensions::from_names([]).declaration(), None);
    }
}
