//! The context of every command: global flags, configuration, and the connection to a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use egress::PlaintextKeyError;
use tokio_util::sync::CancellationToken;
use tool::Secret;

use super::background_server::{
    BackgroundServer, BackgroundTransport, ClientLock as Presence, ServerRequirements,
    occupied_error,
};
use super::command_error::{CommandError, ExitStatus};
use super::data_dir::{DataDir, DataDirLock, FirstKey, ServerDescriptor};
use super::printer::OutputFormat;
use super::rest_client::RestClient;
use super::server_connection::{ConnectionKind, ServerConnection};
use super::server_launcher::{LaunchOptions, ServerLauncher};
use super::server_transport::{HttpTransport, ServerTransport};
use config::{CommandOrigin, Config, ConfigDiscovery, Environment, LoadOptions, LoadReport};

/// Timeout for a starting server, or for another command that holds the data directory.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Global options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Output format.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub output: OutputFormat,
    /// Format of log lines on standard error: text or json [default: json with `-o json` and `-o
    /// yaml`, else text].
    #[arg(long, global = true, env = "TOOLKEEP_LOG_FORMAT", value_enum, value_name = "FORM")]
    pub(crate) log_format: Option<LogFormat>,
    /// Configuration file [default: toolkeep.yaml in the current directory, else
    /// $XDG_CONFIG_HOME/toolkeep/toolkeep.yaml, else ~/.config/toolkeep/toolkeep.yaml].
    #[arg(long, global = true, env = "TOOLKEEP_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory [default: $XDG_DATA_HOME/toolkeep, else ~/.local/share/toolkeep].
    #[arg(long, global = true, env = "TOOLKEEP_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Server to connect to, such as http://127.0.0.1:8080 [default: the server that uses the data
    /// directory; without one, the command runs in this process].
    #[arg(long, global = true, env = "TOOLKEEP_URL", value_name = "URL")]
    url: Option<String>,
    /// API key to send [default: owner.key of the data directory]. Prefer the variable: other users
    /// can see command-line flags.
    #[arg(long, global = true, env = "TOOLKEEP_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// Time to wait for sources that have not answered yet, such as `500ms` or `30s`. Applies
    /// without a server or right after one has started [default: 500ms for lists, 35s for the
    /// source of a named tool].
    #[arg(long, global = true, env = "TOOLKEEP_SOURCE_TIMEOUT", value_name = "TIME", value_parser = config::parse_call_timeout)]
    source_timeout: Option<Duration>,
    /// Send the key over plain HTTP to other machines as well. Everyone on the network path can
    /// read it.
    #[arg(long, global = true, env = "TOOLKEEP_INSECURE", value_parser = FalseyValueParser::new())]
    insecure: bool,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line, for programs.
    Json,
}

/// The global flags with the current directory and environment of the process.
#[expect(missing_debug_implementations, reason = "what it is wired with has none")]
pub struct CommandContext<'a> {
    /// The flags that every command accepts.
    pub global_args: GlobalArgs,
    current_dir: PathBuf,
    location: ConfigDiscovery,
    /// Read once, so that the configuration is resolved from the same values that run.
    pub environment: Arc<Environment>,
    /// Starts servers in this process.
    pub launcher: &'a dyn ServerLauncher,
}

impl<'a> CommandContext<'a> {
    /// Creates the context from the flags and this process's directory and environment.
    ///
    /// # Errors
    /// Returns an error if the current directory no longer exists.
    pub fn new(
        args: GlobalArgs,
        origin: CommandOrigin,
        launcher: &'a dyn ServerLauncher,
    ) -> Result<Self, CommandError> {
        let folder = std::env::current_dir().map_err(|error| {
            CommandError::new(
                ExitStatus::Failed,
                format!("the current directory does not exist: {error}"),
            )
        })?;
        let environment = Arc::new(Environment::from_process());
        let location =
            ConfigDiscovery::find_file(args.config.clone(), (&folder, origin), &environment);
        Ok(Self { global_args: args, current_dir: folder, location, environment, launcher })
    }

    /// The absolute path of the configuration file.
    pub fn config_file(&self) -> Option<PathBuf> {
        let file = self.location.file.as_ref().map(|file| self.current_dir.join(file));
        file.map(|file| file.canonicalize().unwrap_or(file))
    }

    /// Whether a flag or a variable names the configuration file.
    pub fn is_config_file_named(&self) -> bool {
        self.location.is_named
    }

    /// The options from which the configuration is loaded.
    pub fn load_options(&self, listen: Option<String>) -> LoadOptions {
        LoadOptions {
            file: self.location.file.clone(),
            listen,
            allowed_hosts: Vec::new(),
            behind_tls: false,
            data_dir: self.global_args.data.clone(),
            current_dir: self.current_dir.clone(),
            environment: Arc::clone(&self.environment),
        }
    }

    /// Loads the configuration. Entries with errors are omitted.
    ///
    /// # Errors
    /// Returns the errors of a configuration that is not usable at all.
    pub fn load_config(&self) -> Result<Config, CommandError> {
        let report = config::load_config(&self.load_options(None));
        report.config.ok_or_else(|| CommandError::from_config_errors(report.errors))
    }

    /// Returns the data directory that the configuration selects.
    ///
    /// # Errors
    /// Returns the errors of a configuration that is not usable at all.
    pub fn load_data_dir(&self) -> Result<DataDir, CommandError> {
        Ok(DataDir::new(self.load_config()?.data_dir))
    }

    /// The server URL and the key that were given, for a command that is not a client of that
    /// server.
    pub fn server_and_key(&self) -> (Option<String>, Option<Secret>) {
        (self.global_args.url.clone(), self.global_args.key.clone().map(Secret::new))
    }

    /// Whether keys may be sent over plain http beyond this machine.
    pub fn is_insecure(&self) -> bool {
        self.global_args.insecure
    }

    /// Resolves a path relative to the current directory.
    pub fn absolute_path(&self, path: &Path) -> PathBuf {
        self.current_dir.join(path)
    }

    /// Connects to the named server, to the one that holds the data directory, or to one in this
    /// process.
    pub async fn connect(&self) -> Result<ServerConnection, CommandError> {
        self.connect_with(FirstKey::Owner).await
    }

    /// Connects with another initial key as the default.
    pub async fn connect_with(
        &self,
        default_key: FirstKey,
    ) -> Result<ServerConnection, CommandError> {
        let given = self.global_args.key.clone().map(Secret::new);
        match &self.global_args.url {
            Some(url) => {
                let own = self.local_server();
                let is_own = own.as_ref().is_some_and(|(_, own)| url.trim_end_matches('/') == own);
                let own_key =
                    || own.filter(|_| is_own).and_then(|(data, _)| data.read_key(default_key).ok());
                let key = given.or_else(own_key);
                let door = self.http_transport(url, key.is_some() && !is_own)?;
                Ok(self.new_connection(RestClient::new(door, key), ConnectionKind::Named))
            }
            None => self.connect_local(given, default_key).await,
        }
    }

    /// Finds a running server without starting one: the named one, or the one that holds the data
    /// directory. Returns its address and a client that sends only the key that was given.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, or would get a key in plaintext.
    pub fn find_server(&self) -> Result<Option<(String, RestClient)>, CommandError> {
        let given = self.global_args.key.clone().map(Secret::new);
        let (url, is_foreign) = match &self.global_args.url {
            Some(url) => (url.clone(), given.is_some()),
            None => match self.local_server() {
                Some((data, url)) if data.find_running_server().is_some() => (url, false),
                _ => return Ok(None),
            },
        };
        let transport = self.http_transport(&url, is_foreign)?;
        Ok(Some((url, RestClient::new(transport, given))))
    }

    /// As [`find_server`](Self::find_server), for commands that need a server that runs already.
    ///
    /// # Errors
    /// Also if no server runs.
    pub fn require_server(&self) -> Result<(String, RestClient), CommandError> {
        self.find_server()?.ok_or_else(|| {
            let message = "no server is running in the data directory";
            CommandError::new(ExitStatus::ServerUnavailable, message)
                .with_help("start one with `toolkeep serve`, or name one with `--url`")
        })
    }

    fn new_connection(&self, client: RestClient, kind: ConnectionKind) -> ServerConnection {
        ServerConnection::new(client, kind, self.global_args.source_timeout)
    }

    /// The local data directory and the address of its server, if one runs. The initial keys are
    /// sent to no other server.
    fn local_server(&self) -> Option<(DataDir, String)> {
        let options = self.load_options(None);
        // A server keeps running if its configuration becomes invalid.
        let without_file = || config::load_config(&LoadOptions { file: None, ..options.clone() });
        let config = config::load_config(&options).config.or_else(|| without_file().config)?;
        let data = DataDir::new(config.data_dir);
        let url = data.read_server()?.local_url();
        Some((data, url))
    }

    /// Creates the transport to the server at `url`. `is_foreign` means that it
    /// is not the server of the local data directory.
    fn http_transport(
        &self,
        url: &str,
        is_foreign: bool,
    ) -> Result<Arc<dyn ServerTransport>, CommandError> {
        let door = HttpTransport::new(url).map_err(|error| {
            CommandError::new(ExitStatus::UsageError, error.to_string())
                .with_help("write it as `http://HOST:PORT`")
        })?;
        if is_foreign {
            door.origin()
                .check_key_transport(self.global_args.insecure)
                .map_err(plaintext_key_error)?;
        }
        Ok(door)
    }

    async fn connect_local(
        &self,
        given: Option<Secret>,
        default_key: FirstKey,
    ) -> Result<ServerConnection, CommandError> {
        let setting = self.load_options(None);
        let reading = config::load_config(&setting);
        let data = match &reading.config {
            Some(config) => DataDir::new(config.data_dir.clone()),
            None => self
                .data_dir_despite_errors()
                .ok_or_else(|| CommandError::from_config_errors(reading.errors.clone()))?,
        };
        let Ok(found) = tokio::time::timeout(CONNECT_TIMEOUT, lock_or_find_server(&data)).await
        else {
            return Err(occupied_error(&data));
        };
        let (door, kind) = match found {
            DataDirOwner::RunningServer(server, presence) => {
                let door = self.http_transport(&server.local_url(), false)?;
                (
                    door,
                    ConnectionKind::Joined {
                        data: data.clone(),
                        pid: server.pid,
                        _presence: presence,
                    },
                )
            }
            DataDirOwner::Acquired(held) => self.start_embedded(held?, setting, reading).await?,
        };
        let key = match given {
            Some(key) => key,
            None => data.read_key(default_key)?,
        };
        Ok(self.new_connection(RestClient::new(door, Some(key)), kind))
    }

    /// The default data directory if the found configuration has errors and a server runs there,
    /// which has the last valid configuration. A named configuration must be valid.
    fn data_dir_despite_errors(&self) -> Option<DataDir> {
        let setting = LoadOptions { file: None, ..self.load_options(None) };
        let config = config::load_config(&setting).config.filter(|_| !self.location.is_named)?;
        let data = DataDir::new(config.data_dir);
        data.find_running_server().map(|_| data)
    }

    /// Connects to the server that holds the data directory, or starts one in the background.
    /// Returns notes for the user, too.
    pub async fn connect_in_background(
        &self,
    ) -> Result<(ServerConnection, Vec<String>), CommandError> {
        let given = self.global_args.key.clone().map(Secret::new);
        if self.global_args.url.is_some() {
            return Ok((self.connect_with(FirstKey::Agent).await?, Vec::new()));
        }
        let reading = config::load_config(&self.load_options(None));
        let Some(config) = &reading.config else {
            return Err(CommandError::from_config_errors(reading.errors));
        };
        let data = DataDir::new(config.data_dir.clone());
        let wanted =
            ServerRequirements::from_config(self.config_file(), &reading, &self.environment);
        let background = BackgroundServer::new(data.clone(), wanted);
        let (door, server) = BackgroundTransport::connect(background).await?;
        let mut notes = door.describe_server(&server);
        if let Some(file) = &self.location.untrusted_file {
            notes.push(format!(
                "configuration `{0}` is ignored because it is not trusted: run `toolkeep config \
                 trust {0}`, or pass `--config`",
                file.display()
            ));
        }
        let key = match given {
            Some(key) => key,
            None => data.read_key(FirstKey::Agent)?,
        };
        let client = RestClient::new(door, Some(key));
        Ok((self.new_connection(client, ConnectionKind::Named), notes))
    }

    /// Starts a server in this process, without a socket.
    async fn start_embedded(
        &self,
        held: DataDirLock,
        setting: LoadOptions,
        reading: LoadReport,
    ) -> Result<(Arc<dyn ServerTransport>, ConnectionKind), CommandError> {
        let stop = CancellationToken::new();
        let held = Arc::new(held);
        let start = LaunchOptions::new(setting, reading, held, stop.clone())?;
        let running = self.launcher.launch_server(start).await?;
        Ok((
            Arc::clone(&running.transport),
            ConnectionKind::Embedded { stop, running: Box::new(running) },
        ))
    }
}

/// The owner of a data directory's lock.
enum DataDirOwner {
    RunningServer(ServerDescriptor, Option<Presence>),
    /// The lock was free and is now held by this process.
    Acquired(Result<DataDirLock, CommandError>),
}

/// Locks the directory or finds its server. Waits, because a starting server holds the lock before
/// it publishes its address.
async fn lock_or_find_server(data: &DataDir) -> DataDirOwner {
    loop {
        match data.try_lock() {
            Ok(Some(held)) => return DataDirOwner::Acquired(Ok(held)),
            Err(failure) => return DataDirOwner::Acquired(Err(failure)),
            Ok(None) => {}
        }
        if let Some(server) = data.read_server().filter(ServerDescriptor::is_alive) {
            let presence = Presence::join(data).ok().flatten();
            // An unused server is ending just now.
            if presence.is_some() || !server.is_background {
                return DataDirOwner::RunningServer(server, presence);
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The error for a key that would be sent in plaintext.
#[expect(clippy::needless_pass_by_value, reason = "maps an error into another")]
pub fn plaintext_key_error(error: PlaintextKeyError) -> CommandError {
    let fix = "use `https`, or pass `--insecure` (TOOLKEEP_INSECURE=1) if the network is trusted";
    CommandError::new(ExitStatus::UsageError, error.to_string()).with_help(fix)
}
