//! The MCP fixture as a program: prints its URL as a line of JSON and serves until it is
//! terminated.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;

use testkit::mcp_fixture::{FixtureEra, FixtureOptions, serve_fixture};
use tokio::net::TcpListener;

const USAGE: &str = "mcp-fixture [--port N] [--era legacy|modern|both] [--page N]";

/// Parses the port and the options.
fn parse_options(args: &[String]) -> Option<(u16, FixtureOptions)> {
    let (mut port, mut options) = (0, FixtureOptions::default());
    for pair in args.chunks(2) {
        let [name, value] = pair else { return None };
        match (name.as_str(), value.as_str()) {
            ("--port", number) => port = number.parse().ok()?,
            ("--page", number) => options.page_size = number.parse().ok()?,
            ("--era", "legacy") => options.era = FixtureEra::Legacy,
            ("--era", "modern") => options.era = FixtureEra::Modern,
            ("--era", "both") => options.era = FixtureEra::Both,
            _ => return None,
        }
    }
    Some((port, options))
}

async fn run_fixture(port: u16, options: FixtureOptions) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
    let address = listener.local_addr()?;
    let mut out = io::stdout();
    writeln!(out, "{{\"url\":\"http://{address}/mcp\",\"port\":{}}}", address.port())?;
    out.flush()?;
    serve_fixture(listener, options).await;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((port, options)) = parse_options(&words) else {
        drop(writeln!(io::stderr(), "{USAGE}"));
        return ExitCode::from(2);
    };
    match run_fixture(port, options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "mcp-fixture: {error}"));
            ExitCode::FAILURE
        }
    }
}
