//! A configuration that changes while the server runs: applied atomically, and what of it waits for a restart.

use std::sync::Arc;

use tokio::sync::watch;
use tool::Problem;

use super::{App, held, issuers, names, sources};
use config::{Config, Fault, Faults, Latest, Place};

/// Applies each new configuration atomically as it comes; never ends.
pub(crate) async fn follow(app: &App, mut news: watch::Receiver<Latest>, said: &mut bool) {
    let first = Arc::clone(&news.borrow());
    while news.changed().await.is_ok() {
        let latest = Arc::clone(&news.borrow_and_update());
        match latest.as_ref() {
            // Half a file may be a whole one without the rules.
            Ok(config) if *said && !config.policy_said => {
                refuse(app, &Faults::one(policy_is_gone(config)));
            }
            Ok(config) => {
                *said = config.policy_said;
                apply(app, first.as_ref().as_ref().ok(), config).await;
            }
            Err(faults) => refuse(app, faults),
        }
    }
    std::future::pending::<()>().await;
}

fn refuse(app: &App, faults: &Faults) {
    tracing::warn!("configuration not taken, the last good one stays:\n{faults}");
    app.workshop.report.set_faults(faults);
    app.workshop.report.publish(&app.intake);
}

async fn apply(app: &App, first: Option<&Config>, config: &Config) {
    for note in &config.notes.0 {
        tracing::info!("{note}");
    }
    let restart = waiting_for_restart(first, config);
    app.workshop.report.set_active(config, &Faults::default(), restart);
    app.credentials.set(sources::secrets(config));
    app.manifests.follow(config);
    app.seals.set_also(config.checkpoints_also.clone());
    app.seals.set_keep(config.keep);
    held::follow(config, app);
    app.doors.believe(issuers::trusted(config, &app.workshop.egress));
    let guests = config.default_guest_modules.clone();
    if let Err(error) = app.keys.set_guests(guests).await {
        tracing::error!(%error, "the personas are not read anew");
    }
    app.workshop.cluster.take(&config.nodes);
    app.workshop.plugged.take(config);
    let sources = app.workshop.build(config);
    // No tool of the old sources under the new rules, and none of the new under the old.
    app.intake.replace_with(sources, &config.policy).await;
    // Now its rules are in force, and who reads this may rely on them.
    tracing::info!("configuration taken");
    names::refresh(&app.workshop.report, &app.intake).await;
}

fn policy_is_gone(config: &Config) -> Fault {
    let file = config.file.clone().unwrap_or_default();
    let told = "the policy is gone from the file";
    Fault::new(&file, Place::TOP, told).fix("write `policy: {}` to have none")
}

/// The keys of a new configuration that count only after a restart: those that differ from the start's. Each is
/// logged, and a problem of the source `configuration`.
fn waiting_for_restart(first: Option<&Config>, now: &Config) -> Vec<Problem> {
    let Some(first) = first else { return Vec::new() };
    let mongodb = |config: &Config| config.nodes.mongodb.as_ref().map(|url| url.open().to_owned());
    let differ = [
        ("listen", first.listen != now.listen),
        ("data", first.data != now.data),
        ("server", first.server != now.server),
        ("limits", first.limits != now.limits),
        ("nodes.mongodb", mongodb(first) != mongodb(now)),
        ("nodes.kubernetes", first.nodes.kubernetes != now.nodes.kubernetes),
        ("nodes.authority_file", first.nodes.authority_file != now.nodes.authority_file),
        ("plugins.settings", first.plugins.settings != now.plugins.settings),
        ("plugins.python", first.plugins.python != now.plugins.python),
        ("records.file", first.record_file != now.record_file),
        ("tool_packages", first.tool_packages != now.tool_packages),
    ];
    let file = now.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let problem = |(key, _): (&'static str, bool)| {
        tracing::warn!(key, "this change counts after a restart of the server");
        let message =
            format!("`{key}` was changed, and the server runs with the value of its start");
        Problem::new(file.as_str(), message).fix("restart the server, or change it back")
    };
    differ.into_iter().filter(|(_, differs)| *differs).map(problem).collect()
}
