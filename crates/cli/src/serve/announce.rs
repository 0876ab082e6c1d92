//! What a server tells other processes of itself.

use std::net::{Ipv4Addr, SocketAddr};

use cli_core::background::Wanted;
use cli_core::context::Context;
use cli_core::data::Server;
use config::Reading;

/// A server with this configuration, whose address is not known yet.
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
        // Whoever joins a server that a person started takes it as it is.
        listed: !background,
    }
}
