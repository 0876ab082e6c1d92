//! Connections to Unix domain sockets that the operator configured.

use std::fmt;
use std::io;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// Connects to a Unix domain socket that the operator configured. The file system decides who may
/// open it.
///
/// # Errors
/// Fails if no process listens there, or if the file may not be opened.
pub async fn connect_unix_socket(
    path: &Path,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug + use<>> {
    UnixStream::connect(path).await
}
