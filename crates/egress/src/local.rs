//! Sockets of this machine.

use std::fmt;
use std::io;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// A connection to a socket of this machine that the operator names. Who may open its file is the file
/// system's to say.
///
/// # Errors
/// Where nobody listens there, or its file may not be opened.
pub async fn local(
    path: &Path,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug + use<>> {
    UnixStream::connect(path).await
}
