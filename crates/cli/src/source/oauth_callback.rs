//! The loopback listener that receives the browser's redirect of an OAuth login.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// The path of the callback address.
const CALLBACK_PATH: &str = "/callback";
/// Maximum bytes of a request head.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Timeout for a browser's request and for the response.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections: a browser opens more than it needs.
const MAX_CONNECTIONS: usize = 16;

/// A listener that waits for one callback.
pub(super) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

/// The callback request of a browser, which waits for a page.
pub(super) struct CallbackRequest {
    /// The path as received: that of the address or below it.
    pub(super) path: String,
    /// The query as received.
    pub(super) query: String,
    stream: TcpStream,
}

impl CallbackListener {
    /// Listens on this port; 0 selects a free one.
    pub(super) async fn bind_loopback(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the callback URL of this listener.
    pub(super) fn callback_url(&self) -> String {
        format!("http://127.0.0.1:{}{CALLBACK_PATH}", self.port)
    }

    /// Accepts the next callback; other requests get 404.
    pub(super) async fn accept_callback(&self) -> io::Result<CallbackRequest> {
        let (found, mut brought) = mpsc::channel(MAX_CONNECTIONS);
        let tasks = TaskTracker::new();
        loop {
            tokio::select! {
                Some(brought) = brought.recv() => return Ok(brought),
                accepted = self.listener.accept(), if tasks.len() < MAX_CONNECTIONS => {
                    let (stream, _) = accepted?;
                    let found = found.clone();
                    drop(tasks.spawn(async move {
                        if let Ok(Some(brought)) = timeout(BROWSER_TIMEOUT, read_request(stream)).await {
                            drop(found.send(brought).await);
                        }
                    }));
                }
            }
        }
    }
}

async fn read_request(mut stream: TcpStream) -> Option<CallbackRequest> {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(part.get(..count)?);
        if head.len() > MAX_HEAD_BYTES {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let line = head.lines().next()?;
    let target = line.strip_prefix("GET ").and_then(|rest| rest.split_once(' ')).map(|(it, _)| it);
    let parts = target.and_then(|target| target.split_once('?'));
    let below = |path: &str| {
        path.strip_prefix(CALLBACK_PATH).is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    if let Some((path, query)) = parts.filter(|(path, _)| below(path)) {
        return Some(CallbackRequest { path: path.to_owned(), query: query.to_owned(), stream });
    }
    write_page(&mut stream, "404 Not Found", "Not found.").await;
    None
}

impl CallbackRequest {
    /// Responds with a page of one sentence.
    pub(super) async fn respond(mut self, is_success: bool, text: &str) {
        let status = if is_success { "200 OK" } else { "400 Bad Request" };
        drop(timeout(BROWSER_TIMEOUT, write_page(&mut self.stream, status, text)).await);
    }
}

async fn write_page(stream: &mut TcpStream, status: &str, text: &str) {
    let page = format!("<!doctype html><meta charset=utf-8><title>Toolkeep</title><p>{text}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         content-security-policy: default-src 'none'\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\nconnection: close\r\n\r\n",
        page.len()
    );
    // The terminal shows the result to a user whose browser disconnected.
    drop(stream.write_all(format!("{head}{page}").as_bytes()).await);
    drop(stream.shutdown().await);
}

#[cfg(test)]
mod tests {
    use super::CallbackListener;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[expect(clippy::disallowed_methods, reason = "a browser, not a part of Toolkeep")]
    async fn browser(back: &CallbackListener, text: &str) -> tokio::net::TcpStream {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", back.port)).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn the_answer_is_found_among_what_browsers_ask() {
        let back = CallbackListener::bind_loopback(0).await.unwrap();
        assert_eq!(back.callback_url(), format!("http://127.0.0.1:{}/callback", back.port));
        let _silent = browser(&back, "").await;
        let mut other = browser(&back, "GET /favicon.ico HTTP/1.1\r\n\r\n").await;
        let _post = browser(&back, "POST /callback?code=no HTTP/1.1\r\n\r\n").await;
        let _longer = browser(&back, "GET /callbackx?code=no HTTP/1.1\r\n\r\n").await;
        let mut wanted =
            browser(&back, "GET /callback/x?code=a%20b&state=c HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let brought = back.accept_callback().await.unwrap();
        assert_eq!((&*brought.path, &*brought.query), ("/callback/x", "code=a%20b&state=c"));
        brought.respond(true, "Done.").await;
        let mut page = String::new();
        wanted.read_to_string(&mut page).await.unwrap();
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("<p>Done.</p>\n"),
            "{page}"
        );
        let mut page = String::new();
        other.read_to_string(&mut page).await.unwrap();
        assert!(page.starts_with("HTTP/1.1 404"), "{page}");
    }
}
