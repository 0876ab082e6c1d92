//! The Redis cache, over connections that the egress guard opens.
//!
//! No operation waits long: one second for a connection, half a second for a response. After a
//! timeout the connection is dropped and none is tried for a second, so that a hanging Redis costs
//! its callers next to nothing, and a recovered one is used at once.

mod bus;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo as _,
    RedisConnectionInfo, RedisError,
};
use bytes::Bytes;
use egress::{Egress, Origin};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::{Boxed, Cache, Clock, Mono, Secret, StoreError};

/// Timeout of a connection, including its handshake.
const CONNECT: Duration = Duration::from_secs(1);
/// Timeout of a response.
const ANSWER: Duration = Duration::from_millis(500);
/// Delay after a failure before the next connection attempt.
const REST: Duration = Duration::from_secs(1);

type Answer<T> = Result<T, RedisError>;

/// Caches values in a Redis server.
pub struct RedisCache {
    egress: Egress,
    origin: Origin,
    login: RedisConnectionInfo,
    link: Mutex<Link>,
    tasks: TaskTracker,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Link {
    open: Option<Open>,
    failed: Option<Mono>,
}

/// An open connection; its driver task ends with the last copy.
#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    _driver: Arc<Driver>,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RedisCache {
    /// Creates a cache at `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, or `rediss://` for
    /// TLS. Connects lazily.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the URL is invalid; it is not shown.
    pub fn new(url: &Secret, egress: Egress, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let unfit = || StoreError::Unavailable("the URL of the Redis cannot be used".to_owned());
        let tls = url.open().starts_with("rediss://");
        // The library parses the URL and never dials: TLS is that of `egress`.
        let plain = url.open().replacen("rediss://", "redis://", 1);
        let info = plain.as_str().into_connection_info().map_err(|_| unfit())?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err(unfit()) };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let scheme = if tls { "https" } else { "http" };
        let origin = Origin::parse(&format!("{scheme}://{host}:{port}")).map_err(|_| unfit())?;
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        let (link, tasks) = (Mutex::default(), TaskTracker::new());
        Ok(Self { egress, origin, login, link, tasks, clock })
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open connection, or opens one.
    async fn open(&self) -> Result<Open, StoreError> {
        {
            let link = self.link();
            if let Some(open) = &link.open {
                return Ok(open.clone());
            }
            if link.failed.is_some_and(|failed| self.clock.mono().since(failed) < REST) {
                return Err(StoreError::Unavailable("Redis does not answer".to_owned()));
            }
        }
        let open = match timeout(CONNECT, self.dial()).await {
            Ok(Ok(open)) => open,
            Ok(Err(error)) => return Err(self.failed(&error)),
            Err(_) => return Err(self.failed(&"no connection within 1 s")),
        };
        *self.link() = Link { open: Some(open.clone()), failed: None };
        Ok(open)
    }

    async fn dial(&self) -> Result<Open, String> {
        let stream = self.egress.stream(&self.origin, CONNECT).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER));
        let made = MultiplexedConnection::new_with_config(&self.login, stream, config).await;
        let (connection, driver) = made.map_err(|error| error.to_string())?;
        let driver = Arc::new(Driver(self.tasks.spawn(driver).abort_handle()));
        Ok(Open { connection, _driver: driver })
    }

    fn failed(&self, error: &dyn fmt::Display) -> StoreError {
        *self.link() = Link { open: None, failed: Some(self.clock.mono()) };
        StoreError::Unavailable(format!("Redis: {error}"))
    }

    /// Sends one command. An error reply of Redis leaves the connection open.
    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<Answer<T>, StoreError> {
        let mut open = self.open().await?;
        self.judged(command.query_async(&mut open.connection).await)
    }

    fn judged<T>(&self, answer: Answer<T>) -> Result<Answer<T>, StoreError> {
        let lost = |error: &RedisError| {
            let unread = error.kind() == ErrorKind::Parse;
            error.is_io_error() || error.is_timeout() || error.is_connection_dropped() || unread
        };
        match answer {
            Err(error) if lost(&error) => Err(self.failed(&error)),
            answer => Ok(answer),
        }
    }

    async fn read(&self, key: &str, most: usize) -> Result<Option<Bytes>, StoreError> {
        // Reads one byte more than the limit, so that a larger value is detected and not read
        // completely.
        let command = ::redis::cmd("GETRANGE").arg(key).arg(0).arg(most).take();
        match self.ask::<Vec<u8>>(&command).await? {
            Ok(value) if value.is_empty() || value.len() > most => Ok(None),
            Ok(value) => Ok(Some(value.into())),
            // Another program uses the key with another type.
            Err(error) if error.code() == Some("WRONGTYPE") => Ok(None),
            Err(error) => Err(told(&error)),
        }
    }

    async fn all(&self, keys: &[&str]) -> Result<bool, StoreError> {
        let command = ::redis::cmd("EXISTS").arg(keys).take();
        let found = self.ask::<usize>(&command).await?.map_err(|error| told(&error))?;
        Ok(found == keys.len())
    }

    async fn write(&self, pairs: &[(&str, Bytes)], life: Duration) -> Result<(), StoreError> {
        let mut pipe = ::redis::pipe();
        pipe.atomic();
        for (key, value) in pairs {
            pipe.cmd("SET").arg(key).arg(value.as_ref()).arg("EX").arg(life.as_secs()).ignore();
        }
        let mut open = self.open().await?;
        let answer = self.judged(pipe.query_async::<()>(&mut open.connection).await)?;
        answer.map_err(|error| told(&error))
    }
}

/// Converts an error reply: wrong password, memory full, still loading.
fn told(error: &RedisError) -> StoreError {
    StoreError::Unavailable(format!("Redis: {error}"))
}

impl fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCache").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Cache for RedisCache {
    fn get<'a>(
        &'a self,
        key: &'a str,
        most: usize,
    ) -> Boxed<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(self.read(key, most))
    }

    fn has<'a>(&'a self, keys: &'a [&'a str]) -> Boxed<'a, Result<bool, StoreError>> {
        Box::pin(self.all(keys))
    }

    fn put<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        life: Duration,
    ) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(self.write(pairs, life))
    }
}
