use identity::{KeyId, KeyRing, NewKey, Persona, Principal, Right};
use testkit::executor::echo_executor;
use tool::plugin_admin::{PluginAdmin, PluginError, PluginStatus, PluginTool, ReloadReport};
use tool::{BoxFuture, ErrorCode, Json, PermissionLevel, Problem, WallTime};

use crate::tests::{bench, offer};

/// One plugin, with a tool for users and one for administrators.
#[derive(Debug)]
struct One;

impl PluginAdmin for One {
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
            name: "p".to_owned(),
            source: "s".to_owned(),
            folder: "/srv/p".to_owned(),
            kind: None,
            version: None,
            description: "d".to_owned(),
            is_enabled: true,
            content_digest: None,
            settings_schema: Json::empty_object(),
            tools: vec![tool("open"), tool("admins")],
            problems: vec![Problem::new("/srv/p", "is odd")],
        }]
    }
    fn list_changed(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { vec!["p".to_owned()] })
    }
    fn reload_changed<'a>(
        &'a self,
        only: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ReloadReport, PluginError>> {
        let missing = only.filter(|name| *name != "p");
        let missing = missing.map(|name| PluginError::NotFound(name.to_owned()));
        // `gone` was removed from the folder before.
        let names = || ["p", "gone"].map(str::to_owned).to_vec();
        let done = ReloadReport { reloaded: names(), failed: names() };
        Box::pin(async { missing.map_or(Ok(done), Err) })
    }
    fn plugin_settings(&self, name: &str) -> Result<Json, PluginError> {
        Err(PluginError::NotFound(name.to_owned()))
    }
    fn update_settings<'a>(
        &'a self,
        name: &'a str,
        _: &'a Json,
    ) -> BoxFuture<'a, Result<Json, PluginError>> {
        Box::pin(async { self.plugin_settings(name) })
    }
}

fn principal(change: impl FnOnce(&mut NewKey)) -> Principal {
    let mut key = NewKey::for_user(KeyId::random([1; 6]), "ann");
    change(&mut key);
    let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
    KeyRing::new([record]).verify_key(Some(secret.expose()), WallTime(1)).unwrap()
}

#[tokio::test]
async fn who_may_not_have_a_plugin_or_a_tool_of_it_does_not_see_it() {
    let tool = |name: &str, level: PermissionLevel| {
        let mut tool = testkit::read_only_tool(name, "d", &serde_json::json!({"type": "object"}));
        tool.traits.min_level = level;
        offer(tool, echo_executor())
    };
    let bench = bench(vec![
        tool("p.open", PermissionLevel::Guest),
        tool("p.admins", PermissionLevel::Admin),
    ]);
    let seen = |who: &Principal| bench.gateway.visible_plugins(who, &One);
    let names =
        |state: &PluginStatus| state.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    let user = seen(&principal(|_| {}));
    assert_eq!(
        (names(&user[0]), user[0].folder.as_str(), user[0].problems.len()),
        (vec!["open".to_owned()], "", 0)
    );
    // A key whose persona has none of its sources.
    let none = |key: &mut NewKey| {
        key.persona = Some(Persona { name: "none".to_owned(), allowed_modules: Some([].into()) });
    };
    assert_eq!(seen(&principal(none)), []);
    // The control: who may reload sees all of it.
    let all = seen(&principal(|key| key.rights = [Right::SourcesRefresh].into()));
    assert_eq!(
        (names(&all[0]).len(), all[0].folder.as_str(), all[0].problems.len()),
        (2, "/srv/p", 1)
    );
}

#[tokio::test]
async fn reloading_wants_the_right() {
    let bench = bench(Vec::new());
    let reload = async |who: Principal, only| {
        let done = bench.gateway.reload_plugins(&who, &One, only).await;
        done.map(|_| ()).map_err(|failure| failure.code)
    };
    let may = || principal(|key| key.rights = [Right::SourcesRefresh].into());
    assert_eq!(reload(principal(|_| {}), None).await, Err(ErrorCode::Forbidden));
    assert_eq!(reload(principal(|_| {}), Some("x")).await, Err(ErrorCode::Forbidden));
    assert_eq!(reload(may(), None).await, Ok(()));
    assert_eq!(reload(may(), Some("x")).await, Err(ErrorCode::NotFound));
}

/// What the persona hides is neither scanned by its name nor named in an answer.
#[tokio::test]
async fn reloading_and_changes_name_no_plugin_that_the_persona_hides() {
    let bench = bench(Vec::new());
    let reloads = |modules: Option<&[&str]>| {
        let modules = modules.map(|all| all.iter().map(|it| (*it).to_owned()).collect());
        principal(|key| {
            key.rights = [Right::SourcesRefresh].into();
            key.persona =
                modules.map(|all| Persona { name: "own".to_owned(), allowed_modules: Some(all) });
        })
    };
    let reload = async |who: &Principal, only| {
        let done = bench.gateway.reload_plugins(who, &One, only).await;
        done.map(|done| (done.reloaded, done.failed)).map_err(|failure| failure.code)
    };
    let changed = async |who: &Principal| bench.gateway.changed_plugins(who, &One).await;
    let other = reloads(Some(&["other"]));
    assert_eq!(reload(&other, Some("p")).await, Err(ErrorCode::NotFound));
    assert_eq!(reload(&other, None).await, Ok((Vec::new(), Vec::new())));
    assert_eq!(changed(&other).await, Vec::<String>::new());
    assert_eq!(changed(&principal(|_| {})).await, Vec::<String>::new(), "without the right");
    // The control: a persona that has the source, and a key without a persona.
    let own = reloads(Some(&["s"]));
    let p = vec!["p".to_owned()];
    for only in [None, Some("p")] {
        assert_eq!(reload(&own, only).await, Ok((p.clone(), p.clone())), "{only:?}");
    }
    assert_eq!(changed(&own).await, p);
    let both = vec!["p".to_owned(), "gone".to_owned()];
    assert_eq!(reload(&reloads(None), None).await, Ok((both.clone(), both)));
    assert_eq!(changed(&reloads(None)).await, p);
}
