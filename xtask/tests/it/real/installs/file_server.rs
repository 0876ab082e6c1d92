//! A file server on loopback, in place of a release page or a package registry.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the content of a path of the URL, or nothing where it has none.
type FileLookup = dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync;

/// Serves files until the test process ends.
pub(crate) struct FileServer {
    /// Address without a path.
    pub(crate) url: String,
}

impl FileServer {
    /// Serves the files of a folder.
    pub(crate) fn of_folder(folder: PathBuf) -> Self {
        let is_plain = |path: &str| !path.split('/').any(|part| part == "..");
        Self::start(Arc::new(move |path| {
            is_plain(path).then(|| fs::read(folder.join(path)).ok()).flatten()
        }))
    }

    /// Serves what `lookup` returns for a path without its leading `/`, decoded.
    pub(crate) fn start(lookup: Arc<FileLookup>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let lookup = Arc::clone(&lookup);
                std::thread::spawn(move || drop(answer(&stream.unwrap(), &*lookup)));
            }
        });
        Self { url }
    }
}

/// Answers one request and closes the connection.
fn answer(mut stream: &TcpStream, lookup: &FileLookup) -> std::io::Result<()> {
    let mut head = BufReader::new(stream).lines();
    let first = head.next().transpose()?.unwrap_or_default();
    while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or("/").trim_start_matches('/');
    let path = path.split('?').next().unwrap_or_default();
    let found = lookup(&path.replace("%2f", "/").replace("%2F", "/").replace("%40", "@"));
    let (status, content) = found.map_or(("404 Not Found", Vec::new()), |it| ("200 OK", it));
    let length = content.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    if !first.starts_with("HEAD ") {
        stream.write_all(&content)?;
    }
    stream.flush()
}
