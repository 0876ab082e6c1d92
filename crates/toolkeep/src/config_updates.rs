//! Configuration updates of a running server: applied atomically, with warnings for keys that need
//! a restart.

use std::sync::Arc;

use tokio::sync::watch;
use tool::Problem;

use super::{App, issuer_connection, pending_approvals, source_factory, unmatched_names};
use config::{Config, ConfigError, ConfigErrors, ConfigPosition, ConfigUpdate};

/// Applies each configuration update atomically; runs until the server stops.
pub(crate) async fn apply_updates(
    app: &App,
    mut updates: watch::Receiver<ConfigUpdate>,
    had_policy: &mut bool,
) {
    let first = Arc::clone(&updates.borrow());
    while updates.changed().await.is_ok() {
        let latest = Arc::clone(&updates.borrow_and_update());
        match latest.as_ref() {
            // A half-written file may be a valid one without its policy.
            Ok(config) if *had_policy && !config.has_policy_section => {
                reject_config(app, &ConfigErrors::single(missing_policy_error(config)));
            }
            Ok(config) => {
                *had_policy = config.has_policy_section;
                apply_config(app, first.as_ref().as_ref().ok(), config).await;
            }
            Err(faults) => reject_config(app, faults),
        }
    }
    std::future::pending::<()>().await;
}

fn reject_config(app: &App, faults: &ConfigErrors) {
    tracing::warn!("configuration rejected; the last valid configuration stays active:\n{faults}");
    app.source_factory.config_report.set_errors(faults);
    app.source_factory.config_report.publish_source(&app.intake);
}

async fn apply_config(app: &App, first: Option<&Config>, config: &Config) {
    for note in &config.notes.0 {
        tracing::info!("{note}");
    }
    let restart = restart_problems(first, config);
    app.source_factory.config_report.set_active(config, &ConfigErrors::default(), restart);
    app.credentials.replace_credentials(source_factory::source_credentials(config));
    app.manifest_storage.apply_config(config);
    app.record_maintenance.set_mirror(config.checkpoint_mirror.clone());
    app.record_maintenance.set_retention(config.retention);
    pending_approvals::apply_config(config, app);
    app.state.set_trusted_issuers(issuer_connection::trusted_issuers(config, &app.source_factory));
    app.keys.set_ended_key_retention(config.server.ended_key_retention);
    let guests = config.default_guest_modules.clone();
    if let Err(error) = app.keys.set_guest_sources(guests).await {
        tracing::error!(%error, "cannot reload the personas");
    }
    app.source_factory.node_cluster.apply_config(&config.nodes);
    app.source_factory.plugin_sources.apply_config(config);
    let sources = app.source_factory.build_sources(config);
    // Sources and policy change in one step, so that no tool is checked against the other version's
    // rules.
    app.intake.replace_sources_and_policy(sources, &config.policy).await;
    app.intake.set_configured_toolsets(toolset_definitions(config));
    // Logged once the new policy is active, so that readers can rely on it.
    tracing::info!("configuration applied");
    unmatched_names::refresh_report(&app.source_factory.config_report, &app.intake).await;
}

fn missing_policy_error(config: &Config) -> ConfigError {
    let file = config.file.clone().unwrap_or_default();
    let message = "the `policy` section was removed from the file";
    ConfigError::new(&file, ConfigPosition::START, message)
        .with_help("write `policy: {}` for an empty policy")
}

/// Returns a problem for each changed key that takes effect only after a restart, and logs it. The
/// problems belong to the source `configuration`.
fn restart_problems(first: Option<&Config>, now: &Config) -> Vec<Problem> {
    let Some(first) = first else { return Vec::new() };
    let mongodb =
        |config: &Config| config.nodes.mongodb_url.as_ref().map(|url| url.expose().to_owned());
    let differ = [
        ("listen", first.listen_address != now.listen_address),
        ("data", first.data_dir != now.data_dir),
        ("server", first.server != now.server),
        ("limits", first.limits != now.limits),
        ("nodes.mongodb", mongodb(first) != mongodb(now)),
        ("nodes.kubernetes", first.nodes.kubernetes != now.nodes.kubernetes),
        ("nodes.authority_file", first.nodes.authority_file != now.nodes.authority_file),
        ("plugins.settings_dir", first.plugins.settings_dir != now.plugins.settings_dir),
        ("plugins.python_path", first.plugins.python_path != now.plugins.python_path),
        ("records.file", first.segment_bytes != now.segment_bytes),
        ("tool_packages", first.tool_packages != now.tool_packages),
    ];
    let file = now.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let problem = |(key, _): (&'static str, bool)| {
        tracing::warn!(key, "restart the server to apply this change");
        let message = format!("`{key}` was changed; the server still runs with the previous value");
        Problem::new(file.as_str(), message).with_help("restart the server, or undo the change")
    };
    differ.into_iter().filter(|(_, differs)| *differs).map(problem).collect()
}

/// The toolsets of the configuration.
pub(super) fn toolset_definitions(config: &Config) -> Vec<policy::ToolsetDefinition> {
    config.toolsets.iter().map(|toolset| toolset.definition.clone()).collect()
}
