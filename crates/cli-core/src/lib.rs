//! Shared parts of the commands: the connection to a server, the output, errors and exit codes, and
//! the data directory.

pub mod background_server;
pub mod build_facts;
pub mod command_context;
pub mod command_error;
pub mod data_dir;
pub mod json_fields;
pub mod logging;
pub mod paged_list;
pub mod printer;
pub mod process_launcher;
pub mod rest_client;
pub mod server_connection;
pub mod server_launcher;
pub mod server_transport;
pub mod signals;
pub mod terminal_color;
