//! The context of every command: global flags, configuration, and the connection to a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use egress::PlaintextKey;
use tokio_util::sync::CancellationToken;
use tool::Secret;

use super::background::{Background, BackgroundDoor, Client as Presence, Wanted, occupied};
use super::client::Client;
use super::data::{DataDir, FirstKey, Held, Server};
use super::door::{Door, HttpDoor};
use super::failure::{Exit, Failure};
use super::session::{Kind, Session};
use super::ui::Output;
use super::wiring::{Start, Wiring};
use config::{Environment, Folder, Location, Reading, Setting};

/// Timeout for a starting server, or for another command that holds the data directory.
const WAIT: Duration = Duration::from_secs(10);
/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(50);

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Common {
    /// How answers are written.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub output: Output,
    /// How log lines are written, on standard error: text or json [default: json with `-o json` and `-o yaml`, else text].
    #[arg(long, global = true, env = "TOOLKEEP_LOG_FORMAT", value_enum, value_name = "FORM")]
    pub(crate) log_format: Option<LogFormat>,
    /// The configuration file [default: toolkeep.yaml in the current folder, else
    /// $XDG_CONFIG_HOME/toolkeep/toolkeep.yaml, else ~/.config/toolkeep/toolkeep.yaml].
    #[arg(long, global = true, env = "TOOLKEEP_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory [default: $XDG_DATA_HOME/toolkeep, else ~/.local/share/toolkeep].
    #[arg(long, global = true, env = "TOOLKEEP_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The server to speak to, such as http://127.0.0.1:8080 [default: the one that holds the data
    /// directory; where none does, the command does the work itself].
    #[arg(long, global = true, env = "TOOLKEEP_URL", value_name = "URL")]
    url: Option<String>,
    /// The key to send [default: owner.key of the data directory]. Better set the variable: flags can
    /// be seen by other users.
    #[arg(long, global = true, env = "TOOLKEEP_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// How long a command waits for sources that have not answered yet, such as `500ms` or `30s`, where it runs
    /// without a server or right after the start of one [default: 500ms for a list, 35s for the source of
    /// a tool that is named].
    #[arg(long, global = true, env = "TOOLKEEP_SOURCE_TIMEOUT", value_name = "TIME", value_parser = config::duration)]
    source_timeout: Option<Duration>,
    /// Send the key over plain http beyond this machine as well. Everyone on the way can read it.
    #[arg(long, global = true, env = "TOOLKEEP_INSECURE", value_parser = FalseyValueParser::new())]
    insecure: bool,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One object a line, for programs.
    Json,
}

/// The global flags with the current directory and environment of the process.
#[expect(missing_debug_implementations, reason = "what it is wired with has none")]
pub struct Context<'a> {
    /// The flags that every command accepts.
    pub common: Common,
    folder: PathBuf,
    location: Location,
    /// Read once, so that the configuration is resolved from the same values that run.
    pub environment: Arc<Environment>,
    /// Starts servers in this process.
    pub wiring: &'a dyn Wiring,
}

impl<'a> Context<'a> {
    /// Creates the context from the flags and this process's directory and environment.
    ///
    /// # Errors
    /// Returns an error if the current directory no longer exists.
    pub fn new(common: Common, kind: Folder, wiring: &'a dyn Wiring) -> Result<Self, Failure> {
        let folder = std::env::current_dir().map_err(|error| {
            Failure::new(Exit::Failed, format!("the current folder is not there: {error}"))
        })?;
        let environment = Arc::new(Environment::of_process());
        let location = Location::find(common.config.clone(), (&folder, kind), &environment);
        Ok(Self { common, folder, location, environment, wiring })
    }

    /// The absolute path of the configuration file.
    pub fn configuration(&self) -> Option<PathBuf> {
        let file = self.location.file.as_ref().map(|file| self.folder.join(file));
        file.map(|file| file.canonicalize().unwrap_or(file))
    }

    /// Whether a flag or a variable names the configuration file.
    pub fn is_configuration_named(&self) -> bool {
        self.location.is_named
    }

    /// The options from which the configuration is loaded.
    pub fn setting(&self, listen: Option<String>) -> Setting {
        Setting {
            file: self.location.file.clone(),
            listen,
            allowed_hosts: Vec::new(),
            behind_tls: false,
            data: self.common.data.clone(),
            folder: self.folder.clone(),
            environment: Arc::clone(&self.environment),
        }
    }

    /// The server URL and the key that were given, for a command that is not a client of that
    /// server.
    pub fn named(&self) -> (Option<String>, Option<Secret>) {
        (self.common.url.clone(), self.common.key.clone().map(Secret::new))
    }

    /// Whether keys may be sent over plain http beyond this machine.
    pub fn is_insecure(&self) -> bool {
        self.common.insecure
    }

    /// Resolves a path relative to the current directory.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// Connects to the named server, to the one that holds the data directory, or to one in this
    /// process.
    pub async fn connect(&self) -> Result<Session, Failure> {
        self.connect_as(FirstKey::Owner).await
    }

    /// Connects with another initial key as the default.
    pub async fn connect_as(&self, first: FirstKey) -> Result<Session, Failure> {
        let given = self.common.key.clone().map(Secret::new);
        match &self.common.url {
            Some(url) => {
                let own = self.own_server();
                let is_own = own.as_ref().is_some_and(|(_, own)| url.trim_end_matches('/') == own);
                let own_key = || own.filter(|_| is_own).and_then(|(data, _)| data.key(first).ok());
                let key = given.or_else(own_key);
                let door = self.door(url, key.is_some() && !is_own)?;
                Ok(self.session(Client::new(door, key), Kind::Named))
            }
            None => self.local(given, first).await,
        }
    }

    fn session(&self, client: Client, kind: Kind) -> Session {
        Session::new(client, kind, self.common.source_timeout)
    }

    /// The local data directory and the address of its server, if one runs. The initial keys are
    /// sent to no other server.
    fn own_server(&self) -> Option<(DataDir, String)> {
        let data = DataDir::at(config::read(&self.setting(None)).config?.data);
        let url = data.server()?.url();
        Some((data, url))
    }

    /// Creates the transport to the server at `url`. A key is `abroad` if the server is not that of
    /// the local data directory.
    fn door(&self, url: &str, abroad: bool) -> Result<Arc<dyn Door>, Failure> {
        let door = HttpDoor::new(url).map_err(|error| {
            Failure::new(Exit::Usage, error.to_string()).fix("write it as `http://HOST:PORT`")
        })?;
        if abroad {
            door.origin().check_key(self.common.insecure).map_err(plaintext)?;
        }
        Ok(door)
    }

    async fn local(&self, given: Option<Secret>, first: FirstKey) -> Result<Session, Failure> {
        let setting = self.setting(None);
        let reading = config::read(&setting);
        let data = match &reading.config {
            Some(config) => DataDir::at(config.data.clone()),
            None => {
                self.beside_faults().ok_or_else(|| Failure::of_faults(reading.faults.clone()))?
            }
        };
        let Ok(found) = tokio::time::timeout(WAIT, find(&data)).await else {
            return Err(occupied(&data));
        };
        let (door, kind) = match found {
            Found::Server(server, presence) => {
                let door = self.door(&server.url(), false)?;
                (door, Kind::Joined { data: data.clone(), pid: server.pid, _presence: presence })
            }
            Found::Free(held) => self.start(held?, setting, reading).await?,
        };
        let key = match given {
            Some(key) => key,
            None => data.key(first)?,
        };
        Ok(self.session(Client::new(door, Some(key)), kind))
    }

    /// The default data directory if the found configuration has errors and a server runs there,
    /// which has the last valid configuration. A named configuration must be valid.
    fn beside_faults(&self) -> Option<DataDir> {
        let setting = Setting { file: None, ..self.setting(None) };
        let config = config::read(&setting).config.filter(|_| !self.location.is_named)?;
        let data = DataDir::at(config.data);
        data.running_server().map(|_| data)
    }

    /// Connects to the server that holds the data directory, or starts one in the background.
    /// Returns notes for the user, too.
    pub async fn connect_in_background(&self) -> Result<(Session, Vec<String>), Failure> {
        let given = self.common.key.clone().map(Secret::new);
        if self.common.url.is_some() {
            return Ok((self.connect_as(FirstKey::Agent).await?, Vec::new()));
        }
        let reading = config::read(&self.setting(None));
        let Some(config) = &reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data.clone());
        let wanted = Wanted::of(self.configuration(), &reading, &self.environment);
        let background = Background::new(data.clone(), wanted);
        let (door, server) = BackgroundDoor::connect(background).await?;
        let mut notes = door.notes(&server);
        if let Some(file) = &self.location.untrusted {
            notes.push(format!(
                "`{0}` is not read, since nobody has trusted it: `toolkeep config trust {0}`, or pass `--config`",
                file.display()
            ));
        }
        let key = match given {
            Some(key) => key,
            None => data.key(FirstKey::Agent)?,
        };
        let client = Client::new(door, Some(key));
        Ok((self.session(client, Kind::Named), notes))
    }

    /// Starts a server in this process, without a socket.
    async fn start(
        &self,
        held: Held,
        setting: Setting,
        reading: Reading,
    ) -> Result<(Arc<dyn Door>, Kind), Failure> {
        let stop = CancellationToken::new();
        let held = Arc::new(held);
        let start = Start::new(setting, reading, held, stop.clone())?;
        let running = self.wiring.start(start).await?;
        Ok((Arc::clone(&running.door), Kind::Own { stop, running: Box::new(running) }))
    }
}

/// The owner of a data directory's lock.
enum Found {
    Server(Server, Option<Presence>),
    /// The lock was free and is now held by this process.
    Free(Result<Held, Failure>),
}

/// Locks the directory or finds its server. Waits, because a starting server holds the lock before
/// it publishes its address.
async fn find(data: &DataDir) -> Found {
    loop {
        match data.hold() {
            Ok(Some(held)) => return Found::Free(Ok(held)),
            Err(failure) => return Found::Free(Err(failure)),
            Ok(None) => {}
        }
        if let Some(server) = data.server().filter(Server::is_alive) {
            let presence = Presence::join(data).ok().flatten();
            // An unused server is ending just now.
            if presence.is_some() || !server.background {
                return Found::Server(server, presence);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The error for a key that would be sent in plaintext.
#[expect(clippy::needless_pass_by_value, reason = "maps an error into another")]
pub fn plaintext(error: PlaintextKey) -> Failure {
    let fix = "use `https`, or `--insecure` (TOOLKEEP_INSECURE=1) where the network is trusted";
    Failure::new(Exit::Usage, error.to_string()).fix(fix)
}
