//! The descriptor with which a server announces itself to other processes.

use std::net::{Ipv4Addr, SocketAddr};

use cli_core::background::Wanted;
use cli_core::context::Context;
use cli_core::data::Server;
use config::Reading;

/// Creates the descriptor of a server with this configuration, without its address.
pub(super) fn server(context: &Context<'_>, reading: &Reading, background: bool) -> Server {
    let Wanted { configuration, variables } =
        Wanted::of(context.configuration(), reading, &context.environment);
    Server {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        background,
        configuration,
        variables,
        // A client accepts a server that a person started as it is.
        listed: !background,
    }
}
