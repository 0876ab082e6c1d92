//! Tests of `/v1/plugins` with the right, with a wrong and without a key, on stub plugins.

use std::sync::Arc;

use serde_json::{Value, json};
use tool::plugin_admin::{PluginAdmin, PluginError, PluginStatus, PluginTool, ReloadReport};
use tool::{BoxFuture, Json, PermissionLevel, Problem};

use crate::support::{FixtureServer, ServerSetup, tools};

/// One plugin, whose settings are what was written last.
#[derive(Debug, Default)]
pub(crate) struct StubPlugins(std::sync::Mutex<Option<Value>>);

impl StubPlugins {
    fn now(&self) -> Json {
        Json::encode(&self.0.lock().unwrap().clone().unwrap_or(json!({})))
    }
}

impl PluginAdmin for StubPlugins {
    fn list_plugins(&self) -> Vec<PluginStatus> {
        let tool = |name: &str| PluginTool {
            name: name.to_owned(),
            description: "d".to_owned(),
            category: "data".to_owned(),
            is_enabled: true,
            parameters: Json::empty_object(),
            disabled_reason: None,
        };
        vec![PluginStatus {
            name: "notes".to_owned(),
            source: "s".to_owned(),
            folder: "/srv/notes".to_owned(),
            kind: Some("python"),
            version: Some("1".to_owned()),
            description: "d".to_owned(),
            is_enabled: true,
            content_digest: None,
            settings_schema: Json::encode(&json!({"greeting": {"type": "string"}})),
            tools: vec![tool("append"), tool("hidden")],
            problems: vec![Problem::new("/srv/notes/manifest.json", "is odd")],
        }]
    }
    fn list_changed(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { vec!["notes".to_owned()] })
    }
    fn reload_changed<'a>(
        &'a self,
        only: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ReloadReport, PluginError>> {
        Box::pin(async move {
            match only {
                Some(name) if name != "notes" => Err(PluginError::NotFound(name.to_owned())),
                _ => Ok(ReloadReport { reloaded: vec!["notes".to_owned()], failed: Vec::new() }),
            }
        })
    }
    fn plugin_settings(&self, _: &str) -> Result<Json, PluginError> {
        Ok(self.now())
    }
    fn update_settings<'a>(
        &'a self,
        _: &'a str,
        changes: &'a Json,
    ) -> BoxFuture<'a, Result<Json, PluginError>> {
        *self.0.lock().unwrap() = Some(changes.to_value());
        Box::pin(std::future::ready(Ok(self.now())))
    }
}

async fn server() -> FixtureServer {
    let plugins: Option<Arc<dyn PluginAdmin>> = Some(Arc::new(StubPlugins::default()));
    FixtureServer::with_setup(ServerSetup {
        offers: tools::standard_offers(),
        plugins,
        ..ServerSetup::default()
    })
    .await
}

#[tokio::test]
async fn plugins_are_seen_by_all_and_what_is_wrong_by_those_who_may_mend_it() {
    let server = server().await;
    let seen = server.owner_client().await.get("/v1/plugins").await.expect_ok();
    let plugin = &seen["plugins"][0];
    assert_eq!(
        (&plugin["folder"], plugin["tools"].as_array().unwrap().len()),
        (&json!("/srv/notes"), 2)
    );
    assert_eq!(
        (&plugin["problems"][0]["message"], &seen["changed"]),
        (&json!("is odd"), &json!(["notes"]))
    );
    let seen = server
        .agent_client("ann", PermissionLevel::User)
        .await
        .get("/v1/plugins")
        .await
        .expect_ok();
    let plugin = &seen["plugins"][0];
    assert_eq!((&plugin["folder"], &plugin["problems"]), (&Value::Null, &json!([])));
    assert_eq!(
        plugin["tools"].as_array().unwrap().len(),
        1,
        "a tool outside the view is not there"
    );
    assert_eq!(server.keyless_client().get("/v1/plugins").await.status, 401);
}

#[tokio::test]
async fn reloading_and_setting_want_the_right() {
    let server = server().await;
    let (owner, user) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::User).await);
    let done = owner.post("/v1/plugins/reload", &json!({})).await.expect_ok();
    assert_eq!(done["reloaded"], json!(["notes"]));
    assert_eq!(owner.post("/v1/plugins/reload", &json!({"plugin": "x"})).await.status, 404);
    let off = json!({"enabled": false});
    let set = owner.post("/v1/plugins/notes/settings", &off).await.expect_ok();
    assert_eq!(set["settings"], off);
    assert_eq!(owner.get("/v1/plugins/notes/settings").await.expect_ok()["settings"], off);
    for (path, body) in [("/v1/plugins/reload", &json!({})), ("/v1/plugins/notes/settings", &off)] {
        assert_eq!(user.post(path, body).await.status, 403, "{path}");
        assert_eq!(server.keyless_client().post(path, body).await.status, 401, "{path}");
    }
    assert_eq!(user.get("/v1/plugins/notes/settings").await.status, 403);
}

#[tokio::test]
async fn settings_may_hold_secrets_and_no_agent_reads_them() {
    let server = server().await;
    let right = [identity::Right::SourcesRefresh];
    let agent = server.client_with(|key| key.rights = right.into()).await;
    // The control: the right lets it reload, and a person read.
    agent.post("/v1/plugins/reload", &json!({})).await.expect_ok();
    server.owner_client().await.get("/v1/plugins/notes/settings").await.expect_ok();
    let (status, code, _) = agent.get("/v1/plugins/notes/settings").await.error();
    assert_eq!((status, code.as_str()), (403, "forbidden"));
}
