//! Tests of the Makefile's targets for the module API: each works or names its replacement.

use std::path::Path;

use crate::real_support::{CommandOutput, test_command};

/// Every verb of the module API's own Makefile.
const VERBS: &str = "up down restart status setup migrate infra infra-down build build-core \
    build-module build-worker restart-core restart-module restart-portal restart-bots logs logs-core \
    logs-module logs-portal logs-bots create-owner list-users clear-history list-personas \
    list-modules refresh-tools shell psql redis-cli test test-cov test-install clean clean-volumes \
    help";

/// Runs `make` with the repository's Makefile in an empty folder, with these settings.
fn make(settings: &str, words: &[&str]) -> CommandOutput {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("modules.mk"), settings).unwrap();
    let makefile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Makefile");
    let mut make = test_command("make");
    make.arg("-f").arg(makefile).args(["TOOLKEEP=echo toolkeep", "CARGO=echo cargo"]);
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    CommandOutput::run_command(make.args(words).current_dir(folder.path()))
}

const SETTINGS: &str = "\
CORE_LOGS = echo module_discovered
INFRA = echo started the infrastructure
INFRA_DOWN = echo stopped the infrastructure
WORKER_BUILD = echo built the worker
PORTAL_RESTART = echo restarted the portal
PORTAL_LOGS = echo the portal said
BOTS_RESTART = echo restarted the bots
BOTS_LOGS = echo the bots said
BUILD_research = echo built research
RESTART_research = echo restarted research
LOGS_research = echo research said
";

#[test]
fn every_verb_of_the_module_api_does_something_or_says_what_replaces_it() {
    for verb in VERBS.split_whitespace().filter(|verb| *verb != "redis-cli") {
        let said = make(SETTINGS, &[verb, "M=research"]).expect_success();
        assert!(said.lines().count() > 0, "{verb}");
    }
    let redis = make(SETTINGS, &["-n", "redis-cli"]).expect_success();
    assert_eq!(redis, "redis-cli -u redis://127.0.0.1:6379\n");
    let none = make("", &["no-such-verb"]);
    assert_ne!(none.code, Some(0), "a verb that is not there would have passed");
}

#[test]
fn the_verbs_of_the_server_are_commands_of_toolkeep() {
    for (verb, line) in [
        ("list-modules", "toolkeep module list"),
        ("refresh-tools", "toolkeep module refresh"),
        ("list-users", "toolkeep user list"),
        ("list-personas", "toolkeep persona list"),
        ("status", "toolkeep source list"),
        ("up", "toolkeep serve"),
        ("test", "cargo xtask test"),
    ] {
        let said = make("", &[verb]).expect_success();
        assert!(said.ends_with(&format!("{line}\n")), "{verb}: {said}");
    }
}

#[test]
fn a_module_is_driven_by_the_commands_configured_for_it() {
    let restarted = make(SETTINGS, &["restart-module", "M=research"]).expect_success();
    assert!(restarted.contains("\nrestarted research\n"), "{restarted}");
    assert!(restarted.ends_with("toolkeep module refresh\n"), "{restarted}");
    let none = make(SETTINGS, &["restart-module", "M=other"]);
    assert_ne!(none.code, Some(0));
    let told = "no command for 'restart-module': set RESTART_other in modules.mk, for example \
                'RESTART_other = docker compose restart other'";
    assert!(none.err.contains(told), "{}", none.err);
    let which = make(SETTINGS, &["logs-module"]);
    assert!(which.err.contains("say which module: make logs-module M=NAME"), "{}", which.err);
    let core = make(SETTINGS, &["logs-core"]).expect_success();
    assert!(core.ends_with("module_discovered\n"), "{core}");
    let none = make("", &["logs-core"]);
    assert!(none.err.contains("set CORE_LOGS in modules.mk"), "{}", none.err);
}

#[test]
fn help_names_every_verb() {
    let help = make("", &["help"]).expect_success();
    let named: Vec<_> = help.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for verb in VERBS.split_whitespace() {
        assert!(named.contains(&verb), "{verb} is missing in\n{help}");
    }
}
