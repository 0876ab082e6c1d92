//! A TCP listener with a limit of concurrent connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pause after a failed accept. The likely reason is that no file descriptors are left, and without a pause the loop would be busy.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Accepts connections while there are permits. Further ones wait in the kernel's accept queue.
#[derive(Debug)]
pub struct BoundedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

/// A connection that [`BoundedListener`] accepted.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The socket. It sends small messages at once (`TCP_NODELAY`).
    pub stream: TcpStream,
    /// Address of the other side.
    pub peer: SocketAddr,
    /// Counts towards the limit until it is dropped.
    pub permit: OwnedSemaphorePermit,
}

impl BoundedListener {
    /// Listens with at most `max_connections` at a time.
    #[must_use]
    pub fn new(listener: TcpListener, max_connections: usize) -> Self {
        Self::with_permits(listener, Arc::new(Semaphore::new(max_connections)))
    }

    /// Listens with a limit that several listeners may share. Nothing is accepted once the semaphore is closed.
    #[must_use]
    pub fn with_permits(listener: TcpListener, permits: Arc<Semaphore>) -> Self {
        Self { listener, permits }
    }

    /// Waits for a permit and then for a connection. A failed accept is logged and tried again. No connection is lost if the future is dropped.
    pub async fn accept_connection(&self) -> AcceptedConnection {
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return std::future::pending().await;
        };
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // It fails for a connection that has already ended, and whoever reads from it finds out.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
                    }
                    return AcceptedConnection { stream, peer, permit };
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
}

/// Moves a socket to the runtime of the current thread, which from then on wakes the tasks that use it.
///
/// # Errors
/// The system refuses the registration.
pub fn register_with_current_runtime(stream: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.into_std()?)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the clients of a test dial it themselves")]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpStream};

    use super::BoundedListener;

    #[tokio::test]
    async fn a_connection_beyond_the_limit_waits_for_a_permit() {
        for (limit, is_second_accepted) in [(2, true), (1, false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let listener = BoundedListener::new(listener, limit);
            let clients = tokio::join!(TcpStream::connect(address), TcpStream::connect(address));
            let first = listener.accept_connection().await;
            assert!(first.stream.nodelay().unwrap());
            let second = listener.accept_connection();
            tokio::pin!(second);
            if !is_second_accepted {
                let wait = tokio::time::timeout(Duration::from_millis(50), second.as_mut());
                assert!(wait.await.is_err(), "accepted beyond the limit");
            }
            let first_peer = first.peer;
            if !is_second_accepted {
                drop(first.permit);
            }
            assert_ne!(second.await.peer, first_peer);
            drop(clients);
        }
    }
}
