//! Spec 3's and spec 1's words on who may call what, line by line.

use identity::{Delegation, Narrowing, NewKey, Principal};
use serde_json::json;
use tool::{Effects, Level, Safety, Scope, Traits};

use super::{admit, called, enter, hidden, key, patterns, with_roles};
use crate::{Decision, Layer, Permissions, Policy, Reason, Rules, ScopeRule, Word};

/// A tool as spec 3's file has it: a category, a permission, and nothing said of effects.
fn tool(category: &str, scope: Option<Scope>) -> Traits {
    Traits {
        categories: vec![category.to_owned()],
        scopes: scope.into_iter().collect(),
        ..Traits::default()
    }
}

fn reads(traits: Traits) -> Traits {
    Traits { effects: Effects::read_only(), ..traits }
}

fn narrowed(who: &Principal, read_only: bool, no_web: bool, task: Option<&str>) -> Principal {
    let task_type = task.map(str::to_owned);
    who.narrowed(&Narrowing { read_only, no_web, task_type })
}

fn sees(policy: &Policy, who: &Principal, name: &str, traits: &Traits) -> bool {
    hidden(&admit(policy, who, "s", name, traits)).is_none()
}

fn words(list: &[&str]) -> Vec<Word> {
    list.iter().map(|text| Word { text: (*text).to_owned(), at: crate::At::default() }).collect()
}

fn permissions(own: Permissions) -> Layer {
    Layer { permissions: Some(own), ..Layer::default() }
}

/// The two roles that the spec's program gives permissions to.
fn roles() -> Rules {
    let frontdoor = Permissions {
        web_access: true,
        allowed_categories: words(&["web", "file", "data"]),
        ..Permissions::default()
    };
    let worker = Permissions {
        allowed_categories: words(&["file", "data"]),
        forbidden_tools: patterns(&["write_file"]),
        ..Permissions::default()
    };
    let roles = [("frontdoor", frontdoor), ("worker", worker)];
    let roles = roles.map(|(name, own)| (name.to_owned(), permissions(own)));
    Rules { roles: roles.into(), ..Rules::default() }
}

#[test]
fn can_use_tool_with_read_only_and_no_web_as_spec_3_has_it() {
    let free = Layer::default;
    let roles = [("worker".to_owned(), free()), ("frontdoor".to_owned(), free())];
    let policy = Policy::new(Rules { roles: roles.into(), ..Rules::default() }).unwrap();
    let (worker, frontdoor) = (with_roles(&["worker"]), with_roles(&["frontdoor"]));
    let (write, fetch) = (tool("file", Some(Scope::Filesystem)), tool("web", Some(Scope::Network)));
    assert!(sees(&policy, &worker, "write_file", &write));
    assert!(!sees(&policy, &narrowed(&worker, true, false, None), "write_file", &write));
    assert!(sees(&policy, &frontdoor, "web_fetch", &fetch));
    assert!(!sees(&policy, &narrowed(&frontdoor, false, true, None), "web_fetch", &fetch));
    // The names alone are enough, whatever the traits say.
    let silent = reads(Traits::default());
    assert!(!sees(&policy, &narrowed(&worker, true, false, None), "run_shell", &silent));
    assert!(!sees(&policy, &narrowed(&worker, false, true, None), "web_search", &silent));
}

#[test]
fn read_only_takes_every_tool_with_effects_and_no_web_every_tool_that_reaches_the_network() {
    let (policy, ann) = (Policy::default(), enter(key(Level::Owner)));
    // The spec's program lets these through, since its groups are names.
    let careful = narrowed(&ann, true, false, None);
    for (name, traits) in [
        ("python_eval", tool("code", Some(Scope::Compute))),
        ("http_post", tool("web", Some(Scope::Network))),
        ("archive_extract", tool("system", Some(Scope::Filesystem))),
        ("write_json", tool("data", None)),
    ] {
        assert!(!sees(&policy, &careful, name, &traits), "{name}");
        assert!(sees(&policy, &careful, name, &reads(traits)), "{name}");
    }
    let offline = narrowed(&ann, false, true, None);
    for (name, traits) in [
        ("http_get", tool("web", None)),
        ("ocr_extract", tool("specialized", Some(Scope::Network))),
        (
            "mail",
            Traits {
                effects: Effects::Declared(vec![tool::Effect::NetworkAccess]),
                ..Traits::default()
            },
        ),
    ] {
        assert!(!sees(&policy, &offline, name, &traits), "{name}");
    }
    assert!(sees(&policy, &offline, "json_query", &tool("data", None)));
}

#[test]
fn the_task_types_of_spec_3_take_the_network_away() {
    let (policy, ann) = (Policy::default(), enter(key(Level::Owner)));
    let fetch = tool("web", Some(Scope::Network));
    for task in ["math", "thinking", "instruction_precision"] {
        let ann = narrowed(&ann, false, false, Some(task));
        assert!(!sees(&policy, &ann, "web_fetch", &fetch), "{task}");
        assert!(sees(&policy, &ann, "calculate", &tool("math", None)), "{task}");
        assert!(policy.knows_task(task));
    }
    assert!(!policy.knows_task("mth"));
}

#[test]
fn the_chapters_layers_each_narrow() {
    let global = Layer { deny: patterns(&["raw_exec"]), ..Layer::default() };
    let worker = Layer { allow: Some(patterns(&["group:read"])), ..Layer::default() };
    let roles = [("worker".to_owned(), worker)];
    let policy = Policy::new(Rules { global, roles: roles.into(), ..Rules::default() }).unwrap();
    let (ann, worker) = (enter(key(Level::Owner)), with_roles(&["worker"]));
    let (reader, writer) = (reads(tool("file", None)), tool("file", None));
    // Global: nobody has `raw_exec`.
    assert!(
        !sees(&policy, &ann, "raw_exec", &reader) && !sees(&policy, &worker, "raw_exec", &reader)
    );
    // Role: workers get `group:read` only.
    assert!(
        sees(&policy, &worker, "read_file", &reader) && sees(&policy, &worker, "list_dir", &writer)
    );
    assert!(
        !sees(&policy, &worker, "edit_file", &writer) && sees(&policy, &ann, "edit_file", &writer)
    );
    // Task: `read_only` denies `group:write`.
    let task = narrowed(&worker, true, false, None);
    assert!(
        sees(&policy, &task, "read_file", &reader) && !sees(&policy, &task, "read_file", &writer)
    );
    // Delegation: an architect narrows a worker.
    let delegation = Delegation {
        by: "architect".to_owned(),
        allow: Some(vec!["group:data".to_owned()]),
        deny: vec!["search_files".to_owned()],
        ..Delegation::default()
    };
    let lent = enter(NewKey {
        roles: vec!["worker".to_owned()],
        delegations: vec![delegation],
        ..key(Level::User)
    });
    assert!(sees(&policy, &lent, "read_file", &reader));
    assert!(
        !sees(&policy, &lent, "list_dir", &reader)
            && !sees(&policy, &lent, "search_files", &reader)
    );
}

#[test]
fn tool_permissions_forbid_then_allow_by_name_then_by_category() {
    let both = Permissions {
        web_access: false,
        allowed_categories: words(&["data", "web"]),
        allowed_tools: patterns(&["web_search", "run_shell"]),
        forbidden_tools: patterns(&["run_shell", "json_query"]),
    };
    let roles = [("r".to_owned(), permissions(both))];
    let policy = Policy::new(Rules { roles: roles.into(), ..Rules::default() }).unwrap();
    let who = with_roles(&["r"]);
    let why = |name, traits: &Traits| hidden(&admit(&policy, &who, "s", name, traits));
    let (web, data, code) = (tool("web", None), tool("data", None), tool("code", None));
    // Forbidden wins over a category and over an explicit allow.
    assert_eq!(why("json_query", &data), Some(Reason::Forbidden));
    assert_eq!(why("run_shell", &code), Some(Reason::Forbidden));
    // An explicit allow goes past category and web access.
    assert_eq!(why("web_search", &web), None);
    // The category, and web access with it.
    assert_eq!(why("csv_to_json", &data), None);
    assert_eq!(why("fetch", &web), Some(Reason::WebAccess));
    assert_eq!(why("lint", &code), Some(Reason::RoleCategory));
}

#[test]
fn permissions_that_name_nothing_allow_nothing() {
    let roles =
        [("r".to_owned(), permissions(Permissions { web_access: true, ..Permissions::default() }))];
    let policy = Policy::new(Rules { roles: roles.into(), ..Rules::default() }).unwrap();
    assert!(!sees(&policy, &with_roles(&["r"]), "n", &tool("web", None)));
    assert!(!sees(&policy, &with_roles(&["r"]), "n", &Traits::default()));
}

#[test]
fn the_roles_of_spec_3s_program_see_what_they_saw() {
    let policy = Policy::new(roles()).unwrap();
    let (front, worker) = (with_roles(&["frontdoor"]), with_roles(&["worker"]));
    let seen = |who, name, category| sees(&policy, who, name, &tool(category, None));
    assert!(seen(&front, "web_search", "web") && !seen(&worker, "web_search", "web"));
    assert!(seen(&front, "json_query", "data") && seen(&worker, "json_query", "data"));
    assert!(seen(&front, "write_file", "file") && !seen(&worker, "write_file", "file"));
    assert!(!seen(&front, "run_shell", "code") && !seen(&worker, "calculate", "math"));
    // A role without permissions: the program denied it on one path and let it do all on the other.
    assert!(!seen(&with_roles(&["toolrunner"]), "json_query", "data"));
}

#[test]
fn what_failed_open_in_spec_3s_program_is_closed() {
    let ann = enter(key(Level::Owner));
    let hides = |layer: Layer| match Policy::new(Rules { global: layer, ..Rules::default() }) {
        Ok(policy) => !sees(&policy, &ann, "n", &Traits::default()),
        Err(_) => true,
    };
    // An allow list made only of unknown groups does not load; there it did not narrow.
    assert!(hides(Layer { allow: Some(patterns(&["group:nosuch"])), ..Layer::default() }));
    // A known group without members narrows to nothing.
    assert!(hides(Layer { allow: Some(patterns(&["group:math"])), ..Layer::default() }));
    // Denying all denies all; there it denied nothing.
    assert!(hides(Layer { deny: patterns(&["group:all"]), ..Layer::default() }));
    // An empty allow list is none; there it was all.
    assert!(hides(Layer { allow: Some(vec![]), ..Layer::default() }));
    // An empty chain allows all, and a later layer does not give back.
    assert!(!hides(Layer::default()));
    let roles = [("r".to_owned(), Layer { allow: Some(patterns(&["n"])), ..Layer::default() })];
    let global = Layer { deny: patterns(&["n"]), ..Layer::default() };
    let policy = Policy::new(Rules { global, roles: roles.into(), ..Rules::default() }).unwrap();
    assert!(!sees(&policy, &with_roles(&["r"]), "n", &Traits::default()));
}

#[test]
fn the_permissions_section_of_spec_3_is_enforced() {
    let said = |approval, paths: Option<&[&str]>| ScopeRule {
        requires_approval: Some(approval),
        allowed_paths: paths.map(|all| all.iter().map(|path| (*path).to_owned()).collect()),
    };
    let scopes = [
        (Scope::Network, said(false, None)),
        (Scope::Filesystem, said(true, Some(&["/mnt/raid0/llm/", "/tmp/"]))),
        (Scope::Shell, said(true, None)),
        (Scope::Compute, said(false, None)),
    ];
    let policy = Policy::new(Rules { scopes: scopes.into(), ..Rules::default() }).unwrap();
    let ann = enter(key(Level::Owner));
    let decided =
        |scope, args| called(&policy, &ann, ("n", &reads(tool("data", Some(scope)))), &args);
    assert_eq!(decided(Scope::Network, json!({})), Decision::Allow(Reason::Allowed));
    assert_eq!(decided(Scope::Compute, json!({})), Decision::Allow(Reason::Allowed));
    assert_eq!(decided(Scope::Shell, json!({})), Decision::Hold(Reason::ShellApproval));
    let inside = json!({ "path": "/tmp/a" });
    assert_eq!(decided(Scope::Filesystem, inside), Decision::Hold(Reason::FilesystemApproval));
    for outside in ["/etc/passwd", "/tmp", "/tmp/../etc/passwd", "notes.txt"] {
        let decision = decided(Scope::Filesystem, json!({ "path": outside }));
        assert_eq!(decision, Decision::Deny(Reason::Path), "{outside}");
    }
    assert_eq!(decided(Scope::Filesystem, json!({})), Decision::Deny(Reason::NoPath));
}

/// The same section in a file of tools is that file's word on its own: it adds to the operator's, and takes
/// nothing back.
#[test]
fn a_files_own_permissions_only_add_to_the_operators() {
    let (ann, rules) = (enter(key(Level::Owner)), Rules::default());
    let scoped = |approval, paths: Option<&[&str]>| {
        let allowed_paths = paths.map(|all| all.iter().map(|path| (*path).to_owned()).collect());
        Traits { approval, allowed_paths, ..reads(tool("data", Some(Scope::Filesystem))) }
    };
    let mut folders = ScopeRule { requires_approval: Some(true), allowed_paths: None };
    folders.allowed_paths = Some(vec!["/srv/".to_owned()]);
    let operators = Rules { scopes: [(Scope::Filesystem, folders)].into(), ..Rules::default() };
    let (plain, ruled) = (Policy::new(rules).unwrap(), Policy::new(operators).unwrap());
    let decided = |policy: &Policy, traits: &Traits, path: &str| {
        called(policy, &ann, ("n", traits), &json!({ "path": path }))
    };
    let (free, closed) = (scoped(false, None), scoped(true, Some(&["/srv/own/", "/tmp/"])));
    assert_eq!(decided(&plain, &free, "/etc/a"), Decision::Allow(Reason::Allowed));
    assert_eq!(decided(&plain, &closed, "/etc/a"), Decision::Deny(Reason::Path));
    assert_eq!(decided(&plain, &closed, "/tmp/a"), Decision::Hold(Reason::SourceApproval));
    // Beneath a folder of each: the operator's `/srv/` and the file's own.
    assert_eq!(decided(&ruled, &closed, "/tmp/a"), Decision::Deny(Reason::Path));
    assert_eq!(decided(&ruled, &closed, "/srv/a"), Decision::Deny(Reason::Path));
    assert_eq!(decided(&ruled, &closed, "/srv/own/a"), Decision::Hold(Reason::SourceApproval));
    assert_eq!(decided(&ruled, &free, "/srv/a"), Decision::Hold(Reason::FilesystemApproval));
}

#[test]
fn the_filters_of_spec_1_keep_what_is_at_or_below_the_limit_and_in_a_category() {
    let ann = enter(key(Level::Owner));
    let kept = |limit, categories: Option<&[&str]>, safety, own: &[&str]| {
        let layer =
            Layer { safety_limit: limit, categories: categories.map(words), ..Layer::default() };
        let policy = Policy::new(Rules { global: layer, ..Rules::default() }).unwrap();
        let categories = own.iter().map(|word| (*word).to_owned()).collect();
        sees(&policy, &ann, "n", &Traits { safety, categories, ..Traits::default() })
    };
    for limit in Safety::ALL {
        for safety in Safety::ALL {
            assert_eq!(kept(Some(*limit), None, *safety, &[]), safety <= limit);
        }
    }
    let two: Option<&[&str]> = Some(&["introspection", "xref"]);
    assert!(kept(None, two, Safety::Safe, &["xref", "execution"]));
    assert!(!kept(None, two, Safety::Safe, &["execution"]));
    assert!(!kept(None, two, Safety::Safe, &[]));
    // Both: and.
    assert!(!kept(Some(Safety::Safe), two, Safety::Cautious, &["xref"]));
    assert!(kept(Some(Safety::Cautious), two, Safety::Cautious, &["xref"]));
    assert!(!kept(None, Some(&[]), Safety::Safe, &["xref"]));
    // Nothing said: all.
    assert!(kept(None, None, Safety::Dangerous, &[]));
}

#[test]
fn group_read_is_what_reads_files_and_data_and_nothing_that_computes_or_reaches_the_network() {
    let worker = Layer { allow: Some(patterns(&["group:read"])), ..Layer::default() };
    let roles = [("worker".to_owned(), worker)];
    let policy = Policy::new(Rules { roles: roles.into(), ..Rules::default() }).unwrap();
    let worker = with_roles(&["worker"]);
    for (name, category, scope, has) in [
        ("list_directory", "system", Some(Scope::Filesystem), true),
        ("notes.search", "specialized", None, true),
        ("http_get", "web", Some(Scope::Network), false),
        ("web_search", "web", Some(Scope::Network), false),
        ("python_eval", "code", Some(Scope::Compute), false),
        ("plot_braille", "data", Some(Scope::Compute), false),
        // The spec's own names are in the group whatever else they are.
        ("web_fetch", "web", Some(Scope::Network), true),
    ] {
        assert_eq!(sees(&policy, &worker, name, &reads(tool(category, scope))), has, "{name}");
    }
    // One of the spec's names that declares to reach the network and nothing else reads.
    let effects = Effects::Declared(vec![tool::Effect::NetworkAccess]);
    let fetch = Traits { effects, ..tool("web", Some(Scope::Network)) };
    let task = narrowed(&worker, true, false, None);
    assert!(sees(&policy, &task, "web_fetch", &fetch));
    // Positive controls: what says nothing of its effects, or has others, does not.
    assert!(!sees(&policy, &task, "web_fetch", &tool("web", Some(Scope::Network))));
    let both = vec![tool::Effect::NetworkAccess, tool::Effect::ModifiesFiles];
    let writes = Traits { effects: Effects::Declared(both), ..fetch.clone() };
    assert!(!sees(&policy, &task, "web_fetch", &writes));
    assert!(!sees(&policy, &task, "http_post", &fetch));
}

#[test]
fn without_cascading_policy_who_has_no_role_has_nothing_but_the_owner_and_where_there_are_no_roles()
{
    let off = || {
        let mut off = crate::Off::default();
        off.switch_off("cascading_tool_policy").unwrap();
        off
    };
    let (owner, user) = (enter(key(Level::Owner)), enter(key(Level::User)));
    let data = tool("data", None);
    let flat = Policy::new(Rules { off: off(), ..roles() }).unwrap();
    assert!(sees(&flat, &owner, "json_query", &data));
    assert_eq!(hidden(&admit(&flat, &user, "s", "json_query", &data)), Some(Reason::NoRole));
    assert!(sees(&flat, &with_roles(&["worker"]), "json_query", &data));
    assert!(!sees(&flat, &with_roles(&["toolrunner"]), "json_query", &data));
    // As the spec has it by default, with nothing else said.
    let bare = Policy::new(Rules { off: off(), ..Rules::default() }).unwrap();
    assert!(sees(&bare, &owner, "json_query", &data) && sees(&bare, &user, "json_query", &data));
    // Positive control: with the flag on a user without a role has what no role takes away.
    assert!(sees(&Policy::new(roles()).unwrap(), &user, "json_query", &data));
}

#[test]
fn a_refusal_and_a_hold_name_the_path_the_folders_and_the_permission() {
    let ann = enter(key(Level::Owner));
    let paths = vec!["/mnt/raid0/llm/".to_owned(), "/tmp/".to_owned()];
    let rule = ScopeRule { requires_approval: None, allowed_paths: Some(paths) };
    let rules = Rules { scopes: [(Scope::Filesystem, rule)].into(), ..Rules::default() };
    let policy = Policy::new(rules).unwrap();
    let said = |name: &str, traits: &Traits, args: serde_json::Value| {
        super::explained(&policy, &ann, (name, traits), &args).text.into_owned()
    };
    let file = reads(tool("system", Some(Scope::Filesystem)));
    assert_eq!(
        said("read_file", &file, json!({"path": "a.txt"})),
        "`a.txt` is not beneath /mnt/raid0/llm/ or /tmp/, the allowed paths; give a whole path"
    );
    assert_eq!(
        said("read_file", &file, json!({"path": "/etc/\u{1b}[2J"})),
        "`/etc/\\u{1b}[2J` is not beneath /mnt/raid0/llm/ or /tmp/, the allowed paths"
    );
    assert_eq!(
        said("git_status", &file, json!({})),
        "`git_status` was called without a path; give a path beneath /mnt/raid0/llm/ or /tmp/"
    );
    let writes = tool("system", Some(Scope::Filesystem));
    assert_eq!(
        said("write_file", &writes, json!({"path": "/tmp/a"})),
        "the tool uses the permission `filesystem`, which needs an approval (`policy.permissions.filesystem.requires_approval`)"
    );
    // Where the tool's folder is known, a relative path and none are judged by it.
    let base = Some(vec!["/mnt/raid0/llm".to_owned()]);
    let known = Traits { base_folders: base, ..file };
    for args in [json!({"path": "a.txt"}), json!({"path": "."}), json!({})] {
        let decision = called(&policy, &ann, ("read_file", &known), &args);
        assert_eq!(decision, Decision::Allow(Reason::Allowed), "{args}");
    }
    let up = called(&policy, &ann, ("read_file", &known), &json!({"path": "../x"}));
    assert_eq!(up, Decision::Deny(Reason::Path));
}
