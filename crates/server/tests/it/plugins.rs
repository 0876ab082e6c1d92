//! `/v1/plugins` with the right, with the wrong and without a key. The plugins themselves are another
//! crate's.

use std::sync::Arc;

use serde_json::{Value, json};
use tool::plugin::{PluginFault, PluginState, PluginTool, Plugins, Reloaded};
use tool::{Boxed, Json, Level, Problem};

use crate::support::{Server, Setup, tools};

/// One plugin, whose settings are what was written last.
#[derive(Debug, Default)]
pub(crate) struct One(std::sync::Mutex<Option<Value>>);

impl One {
    fn now(&self) -> Json {
        Json::of(&self.0.lock().unwrap().clone().unwrap_or(json!({})))
    }
}

impl Plugins for One {
    fn plugins(&self) -> Vec<PluginState> {
        let tool = |name: &str| PluginTool {
            name: name.to_owned(),
            description: "d".to_owned(),
            category: "data".to_owned(),
            enabled: true,
            parameters: Json::empty(),
            why: None,
        };
        vec![PluginState {
            name: "notes".to_owned(),
            source: "s".to_owned(),
            folder: "/srv/notes".to_owned(),
            kind: Some("python"),
            version: Some("1".to_owned()),
            description: "d".to_owned(),
            enabled: true,
            content: None,
            tools: vec![tool("append"), tool("hidden")],
            problems: vec![Problem::new("/srv/notes/manifest.json", "is odd")],
        }]
    }
    fn changes(&self) -> Boxed<'_, Vec<String>> {
        Box::pin(async { vec!["notes".to_owned()] })
    }
    fn reload<'a>(&'a self, only: Option<&'a str>) -> Boxed<'a, Result<Reloaded, PluginFault>> {
        Box::pin(async move {
            match only {
                Some(name) if name != "notes" => Err(PluginFault::Missing(name.to_owned())),
                _ => Ok(Reloaded { reloaded: vec!["notes".to_owned()], failed: Vec::new() }),
            }
        })
    }
    fn settings(&self, _: &str) -> Result<Json, PluginFault> {
        Ok(self.now())
    }
    fn set_settings<'a>(
        &'a self,
        _: &'a str,
        changes: &'a Json,
    ) -> Boxed<'a, Result<Json, PluginFault>> {
        *self.0.lock().unwrap() = Some(changes.value());
        Box::pin(std::future::ready(Ok(self.now())))
    }
}

async fn server() -> Server {
    let plugins: Option<Arc<dyn Plugins>> = Some(Arc::new(One::default()));
    Server::with(Setup { offers: tools::standard(), plugins, ..Setup::default() }).await
}

#[tokio::test]
async fn plugins_are_seen_by_all_and_what_is_wrong_by_those_who_may_mend_it() {
    let server = server().await;
    let seen = server.owner().await.get("/v1/plugins").await.good();
    let plugin = &seen["plugins"][0];
    assert_eq!(
        (&plugin["folder"], plugin["tools"].as_array().unwrap().len()),
        (&json!("/srv/notes"), 2)
    );
    assert_eq!(
        (&plugin["problems"][0]["message"], &seen["changed"]),
        (&json!("is odd"), &json!(["notes"]))
    );
    let seen = server.agent("ann", Level::User).await.get("/v1/plugins").await.good();
    let plugin = &seen["plugins"][0];
    assert_eq!((&plugin["folder"], &plugin["problems"]), (&Value::Null, &json!([])));
    assert_eq!(
        plugin["tools"].as_array().unwrap().len(),
        1,
        "a tool outside the view is not there"
    );
    assert_eq!(server.anyone().get("/v1/plugins").await.status, 401);
}

#[tokio::test]
async fn reloading_and_setting_want_the_right() {
    let server = server().await;
    let (owner, user) = (server.owner().await, server.agent("ann", Level::User).await);
    let done = owner.post("/v1/plugins/reload", &json!({})).await.good();
    assert_eq!(done["reloaded"], json!(["notes"]));
    assert_eq!(owner.post("/v1/plugins/reload", &json!({"plugin": "x"})).await.status, 404);
    let off = json!({"enabled": false});
    let set = owner.post("/v1/plugins/notes/settings", &off).await.good();
    assert_eq!(set["settings"], off);
    assert_eq!(owner.get("/v1/plugins/notes/settings").await.good()["settings"], off);
    for (path, body) in [("/v1/plugins/reload", &json!({})), ("/v1/plugins/notes/settings", &off)] {
        assert_eq!(user.post(path, body).await.status, 403, "{path}");
        assert_eq!(server.anyone().post(path, body).await.status, 401, "{path}");
    }
    assert_eq!(user.get("/v1/plugins/notes/settings").await.status, 403);
}

#[tokio::test]
async fn settings_may_hold_secrets_and_no_agent_reads_them() {
    let server = server().await;
    let right = [identity::Right::SourcesRefresh];
    let agent = server.client(|key| key.rights = right.into()).await;
    // The control: the right lets it reload, and a person read.
    agent.post("/v1/plugins/reload", &json!({})).await.good();
    server.owner().await.get("/v1/plugins/notes/settings").await.good();
    let (status, code, _) = agent.get("/v1/plugins/notes/settings").await.error();
    assert_eq!((status, code.as_str()), (403, "forbidden"));
}
