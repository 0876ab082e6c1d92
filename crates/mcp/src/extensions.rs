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

/// An extension that may be relayed, with the methods of it that are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AllowedExtension {
    name: String,
    /// Methods that clients may call, as the operator lists them.
    methods: Vec<String>,
}

/// Extensions that may be relayed to and from one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedExtensions(Arc<[AllowedExtension]>);

/// Returns the name of a method in policies and records: `mcp.charts.render` for `charts/render`.
pub fn catalog_method_name(method: &str) -> String {
    format!("mcp.{}", method.replace('/', "."))
}

impl Default for AllowedExtensions {
    /// Allows user interfaces of tools, whose pages a client shows in a sandbox, and skills.
    fn default() -> Self {
        Self::from_names([APPS_EXTENSION, SKILLS_EXTENSION].map(str::to_owned))
    }
}

impl AllowedExtensions {
    /// Allows the extensions of these names, without methods of their own.
    pub fn from_names(names: impl IntoIterator<Item = String>) -> Self {
        Self::from_methods(names.into_iter().map(|name| (name, [])))
    }

    /// Allows the extensions of these names, each with its methods.
    pub fn from_methods<M: IntoIterator<Item = String>>(
        extensions: impl IntoIterator<Item = (String, M)>,
    ) -> Self {
        let named = extensions.into_iter().filter(|(name, _)| name != TASKS_EXTENSION);
        let extension = |(name, methods): (String, M)| AllowedExtension {
            name,
            methods: methods.into_iter().collect(),
        };
        Self(named.map(extension).collect())
    }

    /// Returns the methods of the allowed ones among declared `extensions`.
    pub fn relayed_methods<'a>(&'a self, declared: Option<&Json>) -> Vec<&'a str> {
        let is_declared = |name: &str| {
            let settings = declared.and_then(|declared| declared.get(name));
            settings.is_some_and(|settings| settings.kind() == "object")
        };
        let relayed = self.0.iter().filter(|it| !it.methods.is_empty() && is_declared(&it.name));
        relayed.flat_map(|it| it.methods.iter().map(String::as_str)).collect()
    }

    /// Returns true if the extension of this name is allowed.
    pub fn allows(&self, name: &str) -> bool {
        self.0.iter().any(|allowed| allowed.name == name)
    }

    /// Returns the allowed ones among declared `extensions`, with their settings; `None` if there are
    /// none.
    pub fn select(&self, declared: Option<&Json>) -> Option<Json> {
        let declared = declared.filter(|json| json.kind() == "object")?;
        let allowed = self.0.iter().filter_map(|AllowedExtension { name, .. }| {
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
        let declared = all
            .fold(Json::empty_object(), |all, it| all.with_member(&it.name, &settings(&it.name)));
        (!self.0.is_empty()).then_some(declared)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::{APPS_EXTENSION, AllowedExtensions, SKILLS_EXTENSION, catalog_method_name};

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
    fn methods_are_those_of_allowed_extensions_that_the_server_declares() {
        let of = |name: &str, methods: &[&str]| {
            (name.to_owned(), methods.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
        };
        let allowed = AllowedExtensions::from_methods([
            of("com.example/a", &["a/x", "a/y"]),
            of("com.example/b", &["b/x"]),
        ]);
        let declared = Json::encode(&json!({"com.example/a": {}, "com.example/b": 1}));
        assert_eq!(allowed.relayed_methods(Some(&declared)), ["a/x", "a/y"]);
        assert_eq!(allowed.relayed_methods(None), Vec::<&str>::new());
        assert_eq!(catalog_method_name("a/x/y"), "mcp.a.x.y");
    }

    #[test]
    fn a_shared_connection_declares_all_that_is_allowed() {
        let declared = AllowedExtensions::default().declaration().unwrap().to_value();
        let expected = json!({APPS_EXTENSION: {"mimeTypes": ["text/html;profile=mcp-app"]}, SKILLS_EXTENSION: {}});
        assert_eq!(declared, expected);
        assert_eq!(AllowedExtensions::from_names([]).declaration(), None);
    }
}
