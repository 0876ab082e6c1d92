//! Access rules of the research registry and the safety-level library, line by line.

use identity::{KeyDelegation, NewKey, Principal, RequestRestrictions};
use serde_json::json;
use tool::{AccessScope, PermissionLevel, SafetyLevel, SideEffects, ToolTraits};

use super::{admit, called, enter, hidden, key, patterns, with_roles};
use crate::{
    DecisionReason, LocatedName, Policy, PolicyDecision, PolicyDocument, PolicyLayer, ScopeRule,
    ToolPermissions,
};

/// A tool as the research registry's file has it: a category, a permission, and nothing said of
/// effects.
fn tool(category: &str, scope: Option<AccessScope>) -> ToolTraits {
    ToolTraits {
        categories: vec![category.to_owned()],
        scopes: scope.into_iter().collect(),
        ..ToolTraits::default()
    }
}

fn reads(traits: ToolTraits) -> ToolTraits {
    ToolTraits { effects: SideEffects::read_only(), ..traits }
}

fn narrowed(who: &Principal, read_only: bool, no_web: bool, task: Option<&str>) -> Principal {
    let task_type = task.map(str::to_owned);
    who.with_restrictions(&RequestRestrictions {
        is_read_only: read_only,
        denies_network: no_web,
        task_type,
        ..RequestRestrictions::default()
    })
}

fn sees(policy: &Policy, who: &Principal, name: &str, traits: &ToolTraits) -> bool {
    hidden(&admit(policy, who, "s", name, traits)).is_none()
}

fn words(list: &[&str]) -> Vec<LocatedName> {
    list.iter()
        .map(|text| LocatedName {
            text: (*text).to_owned(),
            position: crate::FilePosition::default(),
        })
        .collect()
}

fn permissions(own: ToolPermissions) -> PolicyLayer {
    PolicyLayer { permissions: Some(own), ..PolicyLayer::default() }
}

/// The two roles that the research registry's program gives permissions to.
fn roles() -> PolicyDocument {
    let frontdoor = ToolPermissions {
        allows_web: true,
        allowed_categories: words(&["web", "file", "data"]),
        ..ToolPermissions::default()
    };
    let worker = ToolPermissions {
        allowed_categories: words(&["file", "data"]),
        forbidden_tools: patterns(&["write_file"]),
        ..ToolPermissions::default()
    };
    let roles = [("frontdoor", frontdoor), ("worker", worker)];
    let roles = roles.map(|(name, own)| (name.to_owned(), permissions(own)));
    PolicyDocument { roles: roles.into(), ..PolicyDocument::default() }
}

#[test]
fn can_use_tool_with_read_only_and_no_web_follows_the_research_registry() {
    let free = PolicyLayer::default;
    let roles = [("worker".to_owned(), free()), ("frontdoor".to_owned(), free())];
    let policy =
        Policy::new(PolicyDocument { roles: roles.into(), ..PolicyDocument::default() }).unwrap();
    let (worker, frontdoor) = (with_roles(&["worker"]), with_roles(&["frontdoor"]));
    let (write, fetch) =
        (tool("file", Some(AccessScope::Filesystem)), tool("web", Some(AccessScope::Network)));
    assert!(sees(&policy, &worker, "write_file", &write));
    assert!(!sees(&policy, &narrowed(&worker, true, false, None), "write_file", &write));
    assert!(sees(&policy, &frontdoor, "web_fetch", &fetch));
    assert!(!sees(&policy, &narrowed(&frontdoor, false, true, None), "web_fetch", &fetch));
    // The names alone are enough, whatever the traits say.
    let silent = reads(ToolTraits::default());
    assert!(!sees(&policy, &narrowed(&worker, true, false, None), "run_shell", &silent));
    assert!(!sees(&policy, &narrowed(&worker, false, true, None), "web_search", &silent));
}

#[test]
fn read_only_takes_every_tool_with_effects_and_no_web_every_tool_that_reaches_the_network() {
    let (policy, ann) = (Policy::default(), enter(key(PermissionLevel::Owner)));
    // The research registry's program lets these through, since its groups are names.
    let careful = narrowed(&ann, true, false, None);
    for (name, traits) in [
        ("python_eval", tool("code", Some(AccessScope::Compute))),
        ("http_post", tool("web", Some(AccessScope::Network))),
        ("archive_extract", tool("system", Some(AccessScope::Filesystem))),
        ("write_json", tool("data", None)),
    ] {
        assert!(!sees(&policy, &careful, name, &traits), "{name}");
        assert!(sees(&policy, &careful, name, &reads(traits)), "{name}");
    }
    let offline = narrowed(&ann, false, true, None);
    for (name, traits) in [
        ("http_get", tool("web", None)),
        ("ocr_extract", tool("specialized", Some(AccessScope::Network))),
        (
            "mail",
            ToolTraits {
                effects: SideEffects::Declared(vec![tool::SideEffect::NetworkAccess]),
                ..ToolTraits::default()
            },
        ),
    ] {
        assert!(!sees(&policy, &offline, name, &traits), "{name}");
    }
    assert!(sees(&policy, &offline, "json_query", &tool("data", None)));
}

#[test]
fn the_research_registry_task_types_take_the_network_away() {
    let (policy, ann) = (Policy::default(), enter(key(PermissionLevel::Owner)));
    let fetch = tool("web", Some(AccessScope::Network));
    for task in ["math", "thinking", "instruction_precision"] {
        let ann = narrowed(&ann, false, false, Some(task));
        assert!(!sees(&policy, &ann, "web_fetch", &fetch), "{task}");
        assert!(sees(&policy, &ann, "calculate", &tool("math", None)), "{task}");
        assert!(policy.is_known_task_type(task));
    }
    assert!(!policy.is_known_task_type("mth"));
}

#[test]
fn the_chapters_layers_each_narrow() {
    let global = PolicyLayer { deny: patterns(&["raw_exec"]), ..PolicyLayer::default() };
    let worker = PolicyLayer { allow: Some(patterns(&["group:read"])), ..PolicyLayer::default() };
    let roles = [("worker".to_owned(), worker)];
    let policy =
        Policy::new(PolicyDocument { global, roles: roles.into(), ..PolicyDocument::default() })
            .unwrap();
    let (ann, worker) = (enter(key(PermissionLevel::Owner)), with_roles(&["worker"]));
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
    let delegation = KeyDelegation {
        delegated_by: "architect".to_owned(),
        allowed_tools: Some(vec!["group:data".to_owned()]),
        denied_tools: vec!["search_files".to_owned()],
        ..KeyDelegation::default()
    };
    let lent = enter(NewKey {
        roles: vec!["worker".to_owned()],
        delegations: vec![delegation],
        ..key(PermissionLevel::User)
    });
    assert!(sees(&policy, &lent, "read_file", &reader));
    assert!(
        !sees(&policy, &lent, "list_dir", &reader)
            && !sees(&policy, &lent, "search_files", &reader)
    );
}

#[test]
fn tool_permissions_forbid_then_allow_by_name_then_by_category() {
    let both = ToolPermissions {
        allows_web: false,
        allowed_categories: words(&["data", "web"]),
        allowed_tools: patterns(&["web_search", "run_shell"]),
        forbidden_tools: patterns(&["run_shell", "json_query"]),
    };
    let roles = [("r".to_owned(), permissions(both))];
    let policy =
        Policy::new(PolicyDocument { roles: roles.into(), ..PolicyDocument::default() }).unwrap();
    let who = with_roles(&["r"]);
    let why = |name, traits: &ToolTraits| hidden(&admit(&policy, &who, "s", name, traits));
    let (web, data, code) = (tool("web", None), tool("data", None), tool("code", None));
    // Forbidden wins over a category and over an explicit allow.
    assert_eq!(why("json_query", &data), Some(DecisionReason::Forbidden));
    assert_eq!(why("run_shell", &code), Some(DecisionReason::Forbidden));
    // An explicit allow goes past category and web access.
    assert_eq!(why("web_search", &web), None);
    // The category, and web access with it.
    assert_eq!(why("csv_to_json", &data), None);
    assert_eq!(why("fetch", &web), Some(DecisionReason::WebAccess));
    assert_eq!(why("lint", &code), Some(DecisionReason::RoleCategory));
}

#[test]
fn permissions_that_name_nothing_allow_nothing() {
    let roles = [(
        "r".to_owned(),
        permissions(ToolPermissions { allows_web: true, ..ToolPermissions::default() }),
    )];
    let policy =
        Policy::new(PolicyDocument { roles: roles.into(), ..PolicyDocument::default() }).unwrap();
    assert!(!sees(&policy, &with_roles(&["r"]), "n", &tool("web", None)));
    assert!(!sees(&policy, &with_roles(&["r"]), "n", &ToolTraits::default()));
}

#[test]
fn the_research_registry_roles_see_what_they_saw() {
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
fn what_failed_open_in_the_research_registry_is_closed() {
    let ann = enter(key(PermissionLevel::Owner));
    let hides = |layer: PolicyLayer| match Policy::new(PolicyDocument {
        global: layer,
        ..PolicyDocument::default()
    }) {
        Ok(policy) => !sees(&policy, &ann, "n", &ToolTraits::default()),
        Err(_) => true,
    };
    // An allow list made only of unknown groups does not load; there it did not narrow.
    assert!(hides(PolicyLayer {
        allow: Some(patterns(&["group:nosuch"])),
        ..PolicyLayer::default()
    }));
    // A known group without members narrows to nothing.
    assert!(hides(PolicyLayer {
        allow: Some(patterns(&["group:math"])),
        ..PolicyLayer::default()
    }));
    // Denying all denies all; there it denied nothing.
    assert!(hides(PolicyLayer { deny: patterns(&["group:all"]), ..PolicyLayer::default() }));
    // An empty allow list is none; there it was all.
    assert!(hides(PolicyLayer { allow: Some(vec![]), ..PolicyLayer::default() }));
    // An empty chain allows all, and a later layer does not give back.
    assert!(!hides(PolicyLayer::default()));
    let roles =
        [("r".to_owned(), PolicyLayer { allow: Some(patterns(&["n"])), ..PolicyLayer::default() })];
    let global = PolicyLayer { deny: patterns(&["n"]), ..PolicyLayer::default() };
    let policy =
        Policy::new(PolicyDocument { global, roles: roles.into(), ..PolicyDocument::default() })
            .unwrap();
    assert!(!sees(&policy, &with_roles(&["r"]), "n", &ToolTraits::default()));
}

#[test]
fn the_research_registry_permissions_section_is_enforced() {
    let said = |approval, paths: Option<&[&str]>| ScopeRule {
        requires_approval: Some(approval),
        allowed_paths: paths.map(|all| all.iter().map(|path| (*path).to_owned()).collect()),
    };
    let scopes = [
        (AccessScope::Network, said(false, None)),
        (AccessScope::Filesystem, said(true, Some(&["/mnt/raid0/llm/", "/tmp/"]))),
        (AccessScope::Shell, said(true, None)),
        (AccessScope::Compute, said(false, None)),
    ];
    let policy =
        Policy::new(PolicyDocument { scopes: scopes.into(), ..PolicyDocument::default() }).unwrap();
    let ann = enter(key(PermissionLevel::Owner));
    let decided =
        |scope, args| called(&policy, &ann, ("n", &reads(tool("data", Some(scope)))), &args);
    assert_eq!(
        decided(AccessScope::Network, json!({})),
        PolicyDecision::Allow(DecisionReason::Allowed)
    );
    assert_eq!(
        decided(AccessScope::Compute, json!({})),
        PolicyDecision::Allow(DecisionReason::Allowed)
    );
    assert_eq!(
        decided(AccessScope::Shell, json!({})),
        PolicyDecision::RequireApproval(DecisionReason::ShellApproval)
    );
    let inside = json!({ "path": "/tmp/a" });
    assert_eq!(
        decided(AccessScope::Filesystem, inside),
        PolicyDecision::RequireApproval(DecisionReason::FilesystemApproval)
    );
    for outside in ["/etc/passwd", "/tmp", "/tmp/../etc/passwd", "notes.txt"] {
        let decision = decided(AccessScope::Filesystem, json!({ "path": outside }));
        assert_eq!(decision, PolicyDecision::Deny(DecisionReason::Path), "{outside}");
    }
    assert_eq!(
        decided(AccessScope::Filesystem, json!({})),
        PolicyDecision::Deny(DecisionReason::NoPath)
    );
}

/// The same section in a file of tools is that file's word on its own: it adds to the operator's, and takes
/// nothing back.
#[test]
fn a_files_own_permissions_only_add_to_the_operators() {
    let (ann, rules) = (enter(key(PermissionLevel::Owner)), PolicyDocument::default());
    let scoped = |approval, paths: Option<&[&str]>| {
        let allowed_paths = paths.map(|all| all.iter().map(|path| (*path).to_owned()).collect());
        ToolTraits {
            requires_approval: approval,
            allowed_paths,
            ..reads(tool("data", Some(AccessScope::Filesystem)))
        }
    };
    let mut folders = ScopeRule { requires_approval: Some(true), allowed_paths: None };
    folders.allowed_paths = Some(vec!["/srv/".to_owned()]);
    let operators = PolicyDocument {
        scopes: [(AccessScope::Filesystem, folders)].into(),
        ..PolicyDocument::default()
    };
    let (plain, ruled) = (Policy::new(rules).unwrap(), Policy::new(operators).unwrap());
    let decided = |policy: &Policy, traits: &ToolTraits, path: &str| {
        called(policy, &ann, ("n", traits), &json!({ "path": path }))
    };
    let (free, closed) = (scoped(false, None), scoped(true, Some(&["/srv/own/", "/tmp/"])));
    assert_eq!(decided(&plain, &free, "/etc/a"), PolicyDecision::Allow(DecisionReason::Allowed));
    assert_eq!(decided(&plain, &closed, "/etc/a"), PolicyDecision::Deny(DecisionReason::Path));
    assert_eq!(
        decided(&plain, &closed, "/tmp/a"),
        PolicyDecision::RequireApproval(DecisionReason::SourceApproval)
    );
    // Beneath a folder of each: the operator's `/srv/` and the file's own.
    assert_eq!(decided(&ruled, &closed, "/tmp/a"), PolicyDecision::Deny(DecisionReason::Path));
    assert_eq!(decided(&ruled, &closed, "/srv/a"), PolicyDecision::Deny(DecisionReason::Path));
    assert_eq!(
        decided(&ruled, &closed, "/srv/own/a"),
        PolicyDecision::RequireApproval(DecisionReason::SourceApproval)
    );
    assert_eq!(
        decided(&ruled, &free, "/srv/a"),
        PolicyDecision::RequireApproval(DecisionReason::FilesystemApproval)
    );
}

#[test]
fn the_safety_level_filters_keep_what_is_at_or_below_the_limit_and_in_a_category() {
    let ann = enter(key(PermissionLevel::Owner));
    let kept = |limit, categories: Option<&[&str]>, safety, own: &[&str]| {
        let layer = PolicyLayer {
            safety_limit: limit,
            categories: categories.map(words),
            ..PolicyLayer::default()
        };
        let policy =
            Policy::new(PolicyDocument { global: layer, ..PolicyDocument::default() }).unwrap();
        let categories = own.iter().map(|word| (*word).to_owned()).collect();
        sees(&policy, &ann, "n", &ToolTraits { safety, categories, ..ToolTraits::default() })
    };
    for limit in SafetyLevel::ALL {
        for safety in SafetyLevel::ALL {
            assert_eq!(kept(Some(*limit), None, *safety, &[]), safety <= limit);
        }
    }
    let two: Option<&[&str]> = Some(&["introspection", "xref"]);
    assert!(kept(None, two, SafetyLevel::Safe, &["xref", "execution"]));
    assert!(!kept(None, two, SafetyLevel::Safe, &["execution"]));
    assert!(!kept(None, two, SafetyLevel::Safe, &[]));
    // Both: and.
    assert!(!kept(Some(SafetyLevel::Safe), two, SafetyLevel::Cautious, &["xref"]));
    assert!(kept(Some(SafetyLevel::Cautious), two, SafetyLevel::Cautious, &["xref"]));
    assert!(!kept(None, Some(&[]), SafetyLevel::Safe, &["xref"]));
    // Nothing said: all.
    assert!(kept(None, None, SafetyLevel::Dangerous, &[]));
}

#[test]
fn group_read_is_what_reads_files_and_data_and_nothing_that_computes_or_reaches_the_network() {
    let worker = PolicyLayer { allow: Some(patterns(&["group:read"])), ..PolicyLayer::default() };
    let roles = [("worker".to_owned(), worker)];
    let policy =
        Policy::new(PolicyDocument { roles: roles.into(), ..PolicyDocument::default() }).unwrap();
    let worker = with_roles(&["worker"]);
    for (name, category, scope, has) in [
        ("list_directory", "system", Some(AccessScope::Filesystem), true),
        ("notes.search", "specialized", None, true),
        ("http_get", "web", Some(AccessScope::Network), false),
        ("web_search", "web", Some(AccessScope::Network), false),
        ("python_eval", "code", Some(AccessScope::Compute), false),
        ("plot_braille", "data", Some(AccessScope::Compute), false),
        // The research registry's own names are in the group whatever else they are.
        ("web_fetch", "web", Some(AccessScope::Network), true),
    ] {
        assert_eq!(sees(&policy, &worker, name, &reads(tool(category, scope))), has, "{name}");
    }
    // One of the research registry's names that declares to reach the network and nothing else
    // reads.
    let effects = SideEffects::Declared(vec![tool::SideEffect::NetworkAccess]);
    let fetch = ToolTraits { effects, ..tool("web", Some(AccessScope::Network)) };
    let task = narrowed(&worker, true, false, None);
    assert!(sees(&policy, &task, "web_fetch", &fetch));
    // Positive controls: what says nothing of its effects, or has others, does not.
    assert!(!sees(&policy, &task, "web_fetch", &tool("web", Some(AccessScope::Network))));
    let both = vec![tool::SideEffect::NetworkAccess, tool::SideEffect::ModifiesFiles];
    let writes = ToolTraits { effects: SideEffects::Declared(both), ..fetch.clone() };
    assert!(!sees(&policy, &task, "web_fetch", &writes));
    assert!(!sees(&policy, &task, "http_post", &fetch));
}

#[test]
fn without_cascading_policy_who_has_no_role_has_nothing_but_the_owner_and_where_there_are_no_roles()
{
    let off = || {
        let mut off = crate::DisabledFeatures::default();
        off.disable_feature("cascading_tool_policy").unwrap();
        off
    };
    let (owner, user) = (enter(key(PermissionLevel::Owner)), enter(key(PermissionLevel::User)));
    let data = tool("data", None);
    let flat = Policy::new(PolicyDocument { disabled_features: off(), ..roles() }).unwrap();
    assert!(sees(&flat, &owner, "json_query", &data));
    assert_eq!(
        hidden(&admit(&flat, &user, "s", "json_query", &data)),
        Some(DecisionReason::NoRole)
    );
    assert!(sees(&flat, &with_roles(&["worker"]), "json_query", &data));
    assert!(!sees(&flat, &with_roles(&["toolrunner"]), "json_query", &data));
    // As the research registry has it by default, with nothing else said.
    let bare =
        Policy::new(PolicyDocument { disabled_features: off(), ..PolicyDocument::default() })
            .unwrap();
    assert!(sees(&bare, &owner, "json_query", &data) && sees(&bare, &user, "json_query", &data));
    // Positive control: with the flag on a user without a role has what no role takes away.
    assert!(sees(&Policy::new(roles()).unwrap(), &user, "json_query", &data));
}

#[test]
fn a_refusal_and_a_hold_name_the_path_the_folders_and_the_permission() {
    let ann = enter(key(PermissionLevel::Owner));
    let paths = vec!["/mnt/raid0/llm/".to_owned(), "/tmp/".to_owned()];
    let rule = ScopeRule { requires_approval: None, allowed_paths: Some(paths) };
    let rules = PolicyDocument {
        scopes: [(AccessScope::Filesystem, rule)].into(),
        ..PolicyDocument::default()
    };
    let policy = Policy::new(rules).unwrap();
    let said = |name: &str, traits: &ToolTraits, args: serde_json::Value| {
        super::explained(&policy, &ann, (name, traits), &args).reason_text.into_owned()
    };
    let file = reads(tool("system", Some(AccessScope::Filesystem)));
    assert_eq!(
        said("read_file", &file, json!({"path": "a.txt"})),
        "`a.txt` is not below /mnt/raid0/llm/ or /tmp/, the allowed paths; pass an absolute path"
    );
    assert_eq!(
        said("read_file", &file, json!({"path": "/etc/\u{1b}[2J"})),
        "`/etc/\\u{1b}[2J` is not below /mnt/raid0/llm/ or /tmp/, the allowed paths"
    );
    assert_eq!(
        said("git_status", &file, json!({})),
        "`git_status` was called without a path; pass a path below /mnt/raid0/llm/ or /tmp/"
    );
    let writes = tool("system", Some(AccessScope::Filesystem));
    assert_eq!(
        said("write_file", &writes, json!({"path": "/tmp/a"})),
        "the tool uses the permission `filesystem`, which needs an approval (`policy.permissions.filesystem.requires_approval`)"
    );
    // Where the tool's folder is known, a relative path and none are judged by it.
    let base = Some(vec!["/mnt/raid0/llm".to_owned()]);
    let known = ToolTraits { base_folders: base, ..file };
    for args in [json!({"path": "a.txt"}), json!({"path": "."}), json!({})] {
        let decision = called(&policy, &ann, ("read_file", &known), &args);
        assert_eq!(decision, PolicyDecision::Allow(DecisionReason::Allowed), "{args}");
    }
    let up = called(&policy, &ann, ("read_file", &known), &json!({"path": "../x"}));
    assert_eq!(up, PolicyDecision::Deny(DecisionReason::Path));
}
