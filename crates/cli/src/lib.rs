//! The command line: one file per command, all output through [`cli_core::printer`], all exit codes
//! in [`cli_core::command_error::ExitStatus`]. It is a REST client of a server and makes no
//! decisions.

mod approval;
mod completions;
mod config;
pub mod data_formats;
mod doctor;
mod error;
mod help;
pub mod initial_keys;
mod key;
mod mcp;
mod model;
mod module;
mod name_suggestions;
mod org;
mod persona;
mod pin;
mod plugin;
mod policy;
mod program;
mod record;
mod reference;
mod role;
mod sandbox_tiers;
mod serve;
mod source;
mod status;
mod stop;
pub mod store;
mod tool;
mod toolset;
mod top;
mod ui;
mod upgrade;
mod user;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

pub use reference::render_reference;

use ::config::CommandOrigin;
use cli_core::command_context::{CommandContext, GlobalArgs};
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::server_launcher::ServerLauncher;
use cli_node::NodeCommand;

/// Tool registry and execution gateway for AI agents.
#[derive(Debug, Parser)]
#[command(name = "toolkeep", version, max_term_width = 100)]
#[command(after_help = after())]
struct Cli {
    #[command(flatten)]
    common: GlobalArgs,
    #[command(subcommand)]
    command: RootCommand,
}

/// The text below the main help: examples and exit codes.
fn after() -> String {
    let exits = ExitStatus::ALL.map(|(exit, meaning)| format!("  {}  {meaning}", exit.code()));
    format!(
        "\
Examples:
  toolkeep serve                          start a server on 127.0.0.1:8080
  toolkeep tool list                      list the tools
  toolkeep tool call calculator expression='6*7'

Exit codes:
{}

Output is coloured on a terminal only. NO_COLOR turns the colours off.",
        exits.join("\n")
    )
}

#[derive(Debug, Subcommand)]
enum RootCommand {
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    Stop(stop::StopArgs),
    Status(status::StatusArgs),
    Ui(ui::UiArgs),
    Top(top::TopArgs),
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    #[command(subcommand)]
    Source(source::SourceCommand),
    #[command(subcommand)]
    Toolset(toolset::ToolsetCommand),
    #[command(subcommand)]
    Pin(pin::PinCommand),
    #[command(subcommand)]
    Module(module::ModuleCommand),
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    #[command(subcommand)]
    Model(model::ModelCommand),
    #[command(subcommand)]
    Persona(persona::PersonaCommand),
    #[command(subcommand)]
    Role(role::RoleCommand),
    #[command(subcommand)]
    Org(org::OrgCommand),
    #[command(subcommand)]
    User(user::UserCommand),
    Node(NodeCommand),
    #[command(subcommand)]
    Approval(approval::ApprovalCommand),
    #[command(subcommand)]
    Program(program::ProgramCommand),
    #[command(subcommand)]
    Record(record::RecordCommand),
    #[command(subcommand)]
    Key(key::KeyCommand),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    #[command(subcommand)]
    Store(store::StoreCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Doctor(doctor::DoctorArgs),
    Upgrade(upgrade::UpgradeArgs),
    Version(version::VersionArgs),
    Error(error::ErrorArgs),
    Completions(completions::CompletionsArgs),
}

/// Runs the command line `args`, the program's name first.
pub fn main(launcher: &dyn ServerLauncher, args: impl Iterator<Item = OsString>) -> ExitCode {
    // A server is idle most of the time, with many threads that use little memory.
    let _as_ever = host::memory::set_huge_pages(false);
    // The first installed provider is used, and this is the first.
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let args: Vec<_> = args.collect();
    let line = match Cli::try_parse_from(&args) {
        Ok(line) => line,
        Err(error) => {
            let mut error = help::fold_global_options(error, &args);
            name_suggestions::suggest_full_command(&mut error);
            return print_clap_error(&error);
        }
    };
    let mut ui = Printer::new(line.common.output);
    let ended = run_command(line, launcher, &mut ui);
    let exit = ended.unwrap_or_else(|failure| {
        ui.print_error(&failure);
        failure.exit_status()
    });
    exit.into()
}

/// Prints clap's own output: help, version, or a usage error.
fn print_clap_error(error: &clap::Error) -> ExitCode {
    let exit = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitStatus::Success,
        _ => ExitStatus::UsageError,
    };
    // A closed pipe does not make help an error.
    let _unread = help::print(error);
    exit.into()
}

fn run_command(
    line: Cli,
    wiring: &dyn ServerLauncher,
    ui: &mut Printer,
) -> Result<ExitStatus, CommandError> {
    let Cli { common, command } = line;
    // `toolkeep mcp` is run by a program, possibly in any directory.
    let is_program = matches!(&command, RootCommand::Mcp(_));
    let origin = if is_program { CommandOrigin::Program } else { CommandOrigin::Person };
    let context = CommandContext::new(common, origin, wiring)?;
    let is_long_running = matches!(&command, RootCommand::Serve(_))
        || matches!(&command, RootCommand::Node(command) if command.is_long_running());
    let background = matches!(&command, RootCommand::Serve(serve) if serve.is_background());
    let log = context.global_args.data.as_deref().filter(|_| background);
    cli_core::logging::init_logging((is_long_running, log), &context);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        CommandError::new(ExitStatus::Failed, format!("the runtime does not start: {error}"))
    })?;
    runtime.block_on(async {
        match command {
            RootCommand::Serve(command) => command.run(&context, ui).await,
            RootCommand::Mcp(command) => command.run(&context, ui).await,
            RootCommand::Stop(command) => command.run(&context, ui).await,
            RootCommand::Status(command) => command.run(&context, ui).await,
            RootCommand::Ui(command) => command.run(&context, ui).await,
            RootCommand::Top(command) => command.run(&context, ui).await,
            RootCommand::Tool(command) => command.run(&context, ui).await,
            RootCommand::Source(command) => command.run(&context, ui).await,
            RootCommand::Toolset(command) => command.run(&context, ui).await,
            RootCommand::Pin(command) => command.run(&context, ui).await,
            RootCommand::Module(command) => command.run(&context, ui).await,
            RootCommand::Plugin(command) => command.run(&context, ui).await,
            RootCommand::Model(command) => command.run(&context, ui).await,
            RootCommand::Persona(command) => command.run(&context, ui).await,
            RootCommand::Role(command) => command.run(&context, ui).await,
            RootCommand::Org(command) => command.run(&context, ui).await,
            RootCommand::User(command) => command.run(&context, ui).await,
            RootCommand::Node(command) => command.run(&context, ui).await,
            RootCommand::Approval(command) => command.run(&context, ui).await,
            RootCommand::Program(command) => command.run(&context, ui).await,
            RootCommand::Record(command) => command.run(&context, ui).await,
            RootCommand::Key(command) => command.run(&context, ui).await,
            RootCommand::Policy(command) => command.run(&context, ui).await,
            RootCommand::Store(command) => command.run(&context, ui).await,
            RootCommand::Config(command) => command.run(&context, ui).await,
            RootCommand::Doctor(command) => command.run(&context, ui).await,
            RootCommand::Upgrade(command) => command.run(&context, ui).await,
            RootCommand::Version(command) => command.run(&context, ui).await,
            RootCommand::Error(command) => command.run(ui),
            RootCommand::Completions(command) => command.run(ui),
        }
    })
}

#[cfg(test)]
mod tests;
