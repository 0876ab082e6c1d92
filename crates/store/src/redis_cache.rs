//! The Redis cache, over connections that the egress guard opens.
//!
//! No operation waits long: one second for a connection, half a second for a response. After a
//! timeout the connection is dropped and none is tried for a second, so that a hanging Redis costs
//! its callers next to nothing, and a recovered one is used at once.

mod message_bus;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo as _,
    RedisConnectionInfo, RedisError,
};
use bytes::Bytes;
use egress::{EgressClient, Origin};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::{BoxFuture, Cache, Clock, MonotonicTime, Secret, StoreError};

/// Timeout of a connection, including its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Delay after a failure before the next connection attempt.
const RECONNECT_BACKOFF: Duration = Duration::from_secs(1);

type RedisResult<T> = Result<T, RedisError>;

/// Caches values in a Redis server.
pub struct RedisCache {
    egress: EgressClient,
    origin: Origin,
    login: RedisConnectionInfo,
    slot: Mutex<ConnectionSlot>,
    tasks: TaskTracker,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct ConnectionSlot {
    connection: Option<RedisConnection>,
    failed_at: Option<MonotonicTime>,
}

/// An open connection; its driver task ends with the last copy.
#[derive(Clone)]
struct RedisConnection {
    connection: MultiplexedConnection,
    _driver: Arc<AbortOnDrop>,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
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
    pub fn new(
        url: &Secret,
        egress: EgressClient,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let unfit = || StoreError::Unavailable("invalid Redis URL".to_owned());
        let tls = url.expose().starts_with("rediss://");
        // The library parses the URL and never dials: TLS is that of `egress`.
        let plain = url.expose().replacen("rediss://", "redis://", 1);
        let info = plain.as_str().into_connection_info().map_err(|_| unfit())?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err(unfit()) };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let scheme = if tls { "https" } else { "http" };
        let origin = Origin::parse(&format!("{scheme}://{host}:{port}")).map_err(|_| unfit())?;
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        let (link, tasks) = (Mutex::default(), TaskTracker::new());
        Ok(Self { egress, origin, login, slot: link, tasks, clock })
    }

    fn lock_slot(&self) -> MutexGuard<'_, ConnectionSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open connection, or opens one.
    async fn connect(&self) -> Result<RedisConnection, StoreError> {
        {
            let link = self.lock_slot();
            if let Some(open) = &link.connection {
                return Ok(open.clone());
            }
            if link.failed_at.is_some_and(|failed| {
                self.clock.monotonic_now().saturating_duration_since(failed) < RECONNECT_BACKOFF
            }) {
                return Err(StoreError::Unavailable("Redis is unavailable".to_owned()));
            }
        }
        let dial = async {
            let stream = self.open_stream().await?;
            self.start_connection(stream, RESPONSE_TIMEOUT).await
        };
        let open = limit_dial_time(dial).await.map_err(|error| self.mark_failed(&error))?;
        *self.lock_slot() = ConnectionSlot { connection: Some(open.clone()), failed_at: None };
        Ok(open)
    }

    async fn open_stream(
        &self,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, String> {
        let stream = self.egress.connect_stream(&self.origin, CONNECT_TIMEOUT).await;
        stream.map_err(|error| error.to_string())
    }

    /// Logs in over an open stream, and starts the driver of the connection.
    async fn start_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        response_timeout: Duration,
    ) -> Result<RedisConnection, String> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(response_timeout));
        let made = MultiplexedConnection::new_with_config(&self.login, stream, config).await;
        let (connection, driver) = made.map_err(|error| error.to_string())?;
        let driver = Arc::new(AbortOnDrop(self.tasks.spawn(driver).abort_handle()));
        Ok(RedisConnection { connection, _driver: driver })
    }

    fn mark_failed(&self, error: &dyn fmt::Display) -> StoreError {
        *self.lock_slot() =
            ConnectionSlot { connection: None, failed_at: Some(self.clock.monotonic_now()) };
        StoreError::Unavailable(format!("Redis: {error}"))
    }

    /// Sends one command. An error reply of Redis leaves the connection open.
    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<RedisResult<T>, StoreError> {
        let mut open = self.connect().await?;
        self.drop_on_io_error(command.query_async(&mut open.connection).await)
    }

    fn drop_on_io_error<T>(&self, answer: RedisResult<T>) -> Result<RedisResult<T>, StoreError> {
        let lost = |error: &RedisError| {
            let unread = error.kind() == ErrorKind::Parse;
            error.is_io_error() || error.is_timeout() || error.is_connection_dropped() || unread
        };
        match answer {
            Err(error) if lost(&error) => Err(self.mark_failed(&error)),
            answer => Ok(answer),
        }
    }

    async fn read_value(&self, key: &str, most: usize) -> Result<Option<Bytes>, StoreError> {
        // Reads one byte more than the limit, so that a larger value is detected and not read
        // completely.
        let command = ::redis::cmd("GETRANGE").arg(key).arg(0).arg(most).take();
        match self.query::<Vec<u8>>(&command).await? {
            Ok(value) if value.is_empty() || value.len() > most => Ok(None),
            Ok(value) => Ok(Some(value.into())),
            // Another program uses the key with another type.
            Err(error) if error.code() == Some("WRONGTYPE") => Ok(None),
            Err(error) => Err(to_store_error(&error)),
        }
    }

    async fn all_exist(&self, keys: &[&str]) -> Result<bool, StoreError> {
        let command = ::redis::cmd("EXISTS").arg(keys).take();
        let found = self.query::<usize>(&command).await?.map_err(|error| to_store_error(&error))?;
        Ok(found == keys.len())
    }

    async fn write_all(&self, pairs: &[(&str, Bytes)], life: Duration) -> Result<(), StoreError> {
        let mut pipe = ::redis::pipe();
        pipe.atomic();
        for (key, value) in pairs {
            pipe.cmd("SET").arg(key).arg(value.as_ref()).arg("EX").arg(life.as_secs()).ignore();
        }
        let mut open = self.connect().await?;
        let answer = self.drop_on_io_error(pipe.query_async::<()>(&mut open.connection).await)?;
        answer.map_err(|error| to_store_error(&error))
    }
}

/// Waits for a connection, and reports if it takes too long.
async fn limit_dial_time(
    dial: impl Future<Output = Result<RedisConnection, String>>,
) -> Result<RedisConnection, String> {
    let late = |_| Err("no connection within 1 s".to_owned());
    timeout(CONNECT_TIMEOUT, dial).await.unwrap_or_else(late)
}

/// Converts an error reply: wrong password, memory full, still loading.
fn to_store_error(error: &RedisError) -> StoreError {
    StoreError::Unavailable(format!("Redis: {error}"))
}

impl fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCache").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Cache for RedisCache {
    fn get_cached<'a>(
        &'a self,
        key: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(self.read_value(key, most))
    }

    fn contains_all<'a>(&'a self, keys: &'a [&'a str]) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.all_exist(keys))
    }

    fn put_all<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        life: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.write_all(pairs, life))
    }
}
