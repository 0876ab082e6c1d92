//! The command line: one file per command, all output through [`cli_core::ui::Ui`], all exit codes
//! in [`cli_core::failure::Exit`]. It is a REST client of a server and makes no decisions.

mod approval;
mod completions;
mod config;
mod doctor;
mod error;
pub mod first_keys;
mod key;
mod mcp;
mod model;
mod module;
mod near;
mod org;
mod persona;
mod pin;
mod plugin;
mod policy;
mod program;
mod record;
mod reference;
mod role;
mod serve;
mod source;
mod stop;
pub mod store;
mod tool;
mod user;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

pub use reference::reference;

use ::config::Folder;
use cli_core::context::{Common, Context};
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::wiring::Wiring;
use cli_node::Node;

/// Every tool an agent may use: in one registry, checked, on record.
#[derive(Debug, Parser)]
#[command(name = "toolkeep", version, max_term_width = 100)]
#[command(after_help = after())]
struct Line {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// The text below the main help: examples and exit codes.
fn after() -> String {
    let exits = Exit::ALL.map(|(exit, meaning)| format!("  {}  {meaning}", exit.number()));
    format!(
        "\
Examples:
  toolkeep serve                          start a server on 127.0.0.1:8080
  toolkeep tool list                      the tools there are
  toolkeep tool call calculator expression='6*7'

Exit codes:
{}

Nothing is coloured, with NO_COLOR or without.",
        exits.join("\n")
    )
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Mcp(mcp::Mcp),
    Stop(stop::Stop),
    #[command(subcommand)]
    Tool(tool::Tool),
    #[command(subcommand)]
    Source(source::Source),
    #[command(subcommand)]
    Pin(pin::Pin),
    #[command(subcommand)]
    Module(module::Module),
    #[command(subcommand)]
    Plugin(plugin::Plugin),
    #[command(subcommand)]
    Model(model::Model),
    #[command(subcommand)]
    Persona(persona::Persona),
    #[command(subcommand)]
    Role(role::Role),
    #[command(subcommand)]
    Org(org::Org),
    #[command(subcommand)]
    User(user::User),
    Node(Node),
    #[command(subcommand)]
    Approval(approval::Approval),
    #[command(subcommand)]
    Program(program::Program),
    #[command(subcommand)]
    Record(record::Record),
    #[command(subcommand)]
    Key(key::Key),
    #[command(subcommand)]
    Policy(policy::Policy),
    #[command(subcommand)]
    Store(store::Store),
    #[command(subcommand)]
    Config(config::Config),
    Doctor(doctor::Doctor),
    Error(error::Error),
    Completions(completions::Completions),
}

/// Runs the command line `args`, the program's name first.
pub fn main(wiring: &dyn Wiring, args: impl Iterator<Item = OsString>) -> ExitCode {
    // A server is idle most of the time, with many threads that use little memory.
    let _as_ever = host::memory::huge_pages(false);
    // The first installed provider is used, and this is the first.
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let line = match Line::try_parse_from(args) {
        Ok(line) => line,
        Err(mut error) => {
            near::misplaced(&mut error);
            return misread(&error);
        }
    };
    let mut ui = Ui::new(line.common.output);
    let ended = run(line, wiring, &mut ui);
    let exit = ended.unwrap_or_else(|failure| {
        ui.failure(&failure);
        failure.exit()
    });
    exit.into()
}

/// Prints clap's own output: help, version, or a usage error.
fn misread(error: &clap::Error) -> ExitCode {
    let exit = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
        _ => Exit::Usage,
    };
    // A closed pipe does not make help an error.
    let _unread = error.print();
    exit.into()
}

fn run(line: Line, wiring: &dyn Wiring, ui: &mut Ui) -> Result<Exit, Failure> {
    let Line { common, command } = line;
    // `toolkeep mcp` is run by a program, possibly in any directory.
    let given = matches!(&command, Command::Mcp(_));
    let folder = if given { Folder::Given } else { Folder::Chosen };
    let context = Context::new(common, folder, wiring)?;
    let stays = matches!(&command, Command::Serve(_))
        || matches!(&command, Command::Node(command) if command.stays());
    let background = matches!(&command, Command::Serve(serve) if serve.is_background());
    let log = context.common.data.as_deref().filter(|_| background);
    cli_core::logging::start((stays, log), &context);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(Exit::Failed, format!("the runtime does not start: {error}"))
    })?;
    runtime.block_on(async {
        match command {
            Command::Serve(command) => command.run(&context, ui).await,
            Command::Mcp(command) => command.run(&context, ui).await,
            Command::Stop(command) => command.run(&context, ui).await,
            Command::Tool(command) => command.run(&context, ui).await,
            Command::Source(command) => command.run(&context, ui).await,
            Command::Pin(command) => command.run(&context, ui).await,
            Command::Module(command) => command.run(&context, ui).await,
            Command::Plugin(command) => command.run(&context, ui).await,
            Command::Model(command) => command.run(&context, ui).await,
            Command::Persona(command) => command.run(&context, ui).await,
            Command::Role(command) => command.run(&context, ui).await,
            Command::Org(command) => command.run(&context, ui).await,
            Command::User(command) => command.run(&context, ui).await,
            Command::Node(command) => command.run(&context, ui).await,
            Command::Approval(command) => command.run(&context, ui).await,
            Command::Program(command) => command.run(&context, ui).await,
            Command::Record(command) => command.run(&context, ui).await,
            Command::Key(command) => command.run(&context, ui).await,
            Command::Policy(command) => command.run(&context, ui).await,
            Command::Store(command) => command.run(&context, ui).await,
            Command::Config(command) => command.run(&context, ui).await,
            Command::Doctor(command) => command.run(&context, ui).await,
            Command::Error(command) => command.run(ui),
            Command::Completions(command) => command.run(ui),
        }
    })
}

#[cfg(test)]
mod tests;
