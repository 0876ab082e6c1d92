use identity::{KeyId, KeyRing, NewKey, Persona, Principal, Right};
use testkit::executor::echo;
use tool::plugin::{PluginFault, PluginState, PluginTool, Plugins, Reloaded};
use tool::{Boxed, Code, Json, Level, Problem, Wall};

use crate::tests::{bench, offer};

/// One plugin, with a tool for users and one for administrators.
#[derive(Debug)]
struct One;

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
            name: "p".to_owned(),
            source: "s".to_owned(),
            folder: "/srv/p".to_owned(),
            kind: None,
            version: None,
            description: "d".to_owned(),
            enabled: true,
            content: None,
            tools: vec![tool("open"), tool("admins")],
            problems: vec![Problem::new("/srv/p", "is odd")],
        }]
    }
    fn changes(&self) -> Boxed<'_, Vec<String>> {
        Box::pin(async { vec!["p".to_owned()] })
    }
    fn reload<'a>(&'a self, only: Option<&'a str>) -> Boxed<'a, Result<Reloaded, PluginFault>> {
        let missing = only.filter(|name| *name != "p");
        let missing = missing.map(|name| PluginFault::Missing(name.to_owned()));
        // `gone` was removed from the folder before.
        let names = || ["p", "gone"].map(str::to_owned).to_vec();
        let done = Reloaded { reloaded: names(), failed: names() };
        Box::pin(async { missing.map_or(Ok(done), Err) })
    }
    fn settings(&self, name: &str) -> Result<Json, PluginFault> {
        Err(PluginFault::Missing(name.to_owned()))
    }
    fn set_settings<'a>(
        &'a self,
        name: &'a str,
        _: &'a Json,
    ) -> Boxed<'a, Result<Json, PluginFault>> {
        Box::pin(async { self.settings(name) })
    }
}

fn principal(change: impl FnOnce(&mut NewKey)) -> Principal {
    let mut key = NewKey::user(KeyId::random([1; 6]), "ann");
    change(&mut key);
    let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
    KeyRing::new([record]).verify(Some(secret.open()), Wall(1)).unwrap()
}

#[tokio::test]
async fn who_may_not_have_a_plugin_or_a_tool_of_it_does_not_see_it() {
    let tool = |name: &str, level: Level| {
        let mut tool = testkit::tool(name, "d", &serde_json::json!({"type": "object"}));
        tool.traits.level = level;
        offer(tool, echo())
    };
    let bench = bench(vec![tool("p.open", Level::Guest), tool("p.admins", Level::Admin)]);
    let seen = |who: &Principal| bench.gateway.visible_plugins(who, &One);
    let names =
        |state: &PluginState| state.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
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
    assert_eq!(reload(principal(|_| {}), None).await, Err(Code::Forbidden));
    assert_eq!(reload(principal(|_| {}), Some("x")).await, Err(Code::Forbidden));
    assert_eq!(reload(may(), None).await, Ok(()));
    assert_eq!(reload(may(), Some("x")).await, Err(Code::NotFound));
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
    assert_eq!(reload(&other, Some("p")).await, Err(Code::NotFound));
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
