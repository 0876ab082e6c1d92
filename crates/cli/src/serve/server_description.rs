//! The descriptor with which a server announces itself to other processes.

use std::net::{Ipv4Addr, SocketAddr};

use cli_core::background_server::ServerRequirements;
use cli_core::command_context::CommandContext;
use cli_core::data_dir::ServerDescriptor;
use config::LoadReport;

/// Creates the descriptor of a server with this configuration, without its address.
pub(super) fn describe_server(
    context: &CommandContext<'_>,
    report: &LoadReport,
    is_background: bool,
) -> ServerDescriptor {
    let ServerRequirements { configuration, variable_hashes: variables } =
        ServerRequirements::from_config(context.config_file(), report, &context.environment);
    ServerDescriptor {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        is_background,
        configuration,
        variable_hashes: variables,
        // A client accepts a server that a person started as it is.
        has_listed_sources: !is_background,
    }
}
