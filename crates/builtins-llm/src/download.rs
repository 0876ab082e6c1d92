//! Downloads a pinned model from a public hub, or from a mirror with the same layout.
//!
//! Each file is pinned by its SHA-256. An interrupted download is resumed by the next one; a
//! complete file with another checksum is removed. Nothing is installed before all files are
//! present and the model has passed its test.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use builtins::SandboxProvider;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use egress::{EgressClient, EgressResponse, Origin, RedirectPolicy, RequestLimits, UrlTrust};
use http::header::{self, HeaderValue};
use http::{Request, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::embedding_model::{InstalledModel, check_sandbox_available, install_files};

/// Bytes of a file that are hashed at a time.
const PIECE: usize = 64 << 10;
/// The public hub.
const HUB: &str = "https://huggingface.co";
/// Folder of unfinished downloads, below the models folder.
const PARTS: &str = ".download";
const WAIT: Duration = Duration::from_mins(1);

/// One file of a pinned model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedFile {
    /// Path in the repository.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Model at one revision of a hub's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedModel {
    /// Repository, `ORG/NAME`.
    pub repository: String,
    /// Commit.
    pub revision: String,
    /// Weights in ONNX format.
    pub weights: PinnedFile,
    /// `tokenizer.json`.
    pub tokenizer: PinnedFile,
}

impl PinnedModel {
    /// all-MiniLM-L6-v2 (Apache-2.0) with int8 weights, 384 dimensions. `docs/design/language-models.md` describes
    /// where the checksums come from.
    pub fn all_minilm() -> Self {
        let file = |path: &str, size, sha256: &str| PinnedFile {
            path: path.to_owned(),
            size,
            sha256: sha256.to_owned(),
        };
        Self {
            repository: "Xenova/all-MiniLM-L6-v2".to_owned(),
            revision: "751bff37182d3f1213fa05d7196b954e230abad9".to_owned(),
            weights: file(
                "onnx/model_quantized.onnx",
                22_972_370,
                "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
            ),
            tokenizer: file(
                "tokenizer.json",
                711_661,
                "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
            ),
        }
    }

    /// Returns the repository's name without the organisation.
    fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }
}

/// Progress of a download.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Path of the file in the repository.
    pub file: &'a str,
    /// Bytes received so far.
    pub received: u64,
    /// Size of the whole file in bytes.
    pub size: u64,
}

/// Hub that models are downloaded from.
#[derive(Debug)]
pub struct Hub {
    egress: EgressClient,
    base: String,
    class: UrlTrust,
}

impl Hub {
    /// Creates a client of the public hub, or of the operator's `mirror`, which has the same paths
    /// and may be in any network. Redirects to another origin are followed to public addresses
    /// only.
    ///
    /// # Errors
    /// Describes the reason if the mirror's address is invalid.
    pub fn new(egress: EgressClient, mirror: Option<&str>) -> Result<Self, String> {
        let Some(mirror) = mirror else {
            return Ok(Self { egress, base: HUB.to_owned(), class: UrlTrust::CallArgument });
        };
        let origin = Origin::parse(mirror).map_err(|error| error.to_string())?;
        if mirror.contains(['?', '#']) {
            return Err(format!("`{mirror}` has a query or a fragment; remove it"));
        }
        let base = mirror.trim_end_matches('/').to_owned();
        Ok(Self { egress, base, class: UrlTrust::Configured { origin } })
    }

    /// Downloads `model`, tests it in a worker of `sandboxes` and installs it below `models_dir`.
    /// `progress` is called with each chunk that arrives.
    ///
    /// # Errors
    /// Names the file or address and the reason. The model that was installed before stays in
    /// place.
    pub async fn install(
        &self,
        model: &PinnedModel,
        (models_dir, sandboxes): (&Path, &Arc<SandboxProvider>),
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<InstalledModel, String> {
        // Do not download a model that could not be tested.
        check_sandbox_available(sandboxes).await?;
        let parts = models_dir.join(PARTS);
        let told = |error: io::Error| format!("{}: {error}", parts.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&parts).map_err(told)?;
        let mut files = Vec::new();
        for file in [&model.weights, &model.tokenizer] {
            let path = parts.join(format!("{}.part", file.sha256));
            self.download(model, file, &path, progress).await?;
            files.push(path);
        }
        let [weights, tokenizer] = files.as_slice() else {
            return Err("a file is missing".to_owned());
        };
        let source = format!("{}/{}/tree/{}", self.base, model.repository, model.revision);
        let named = (model.name(), Some(source));
        let installed = install_files((weights, tokenizer), named, models_dir, sandboxes).await?;
        fs::remove_dir_all(&parts).map_err(told)?;
        Ok(installed)
    }

    /// Completes the partial file `part`: resumes the download and verifies the checksum.
    async fn download(
        &self,
        model: &PinnedModel,
        file: &PinnedFile,
        part: &Path,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), String> {
        let PinnedModel { repository, revision, .. } = model;
        let url = format!("{}/{repository}/resolve/{revision}/{}", self.base, file.path);
        let there = fs::metadata(part).map_or(0, |it| it.len());
        if there != file.size {
            // A partial file that is longer than the file is invalid: start again.
            let from = if there < file.size { there } else { 0 };
            let (received, from) = self.open(&url, file, from).await?;
            let done = receive(received, from, file, part, progress).await?;
            if done > file.size {
                removed(part)?;
                return Err(format!("{url} has more than the expected {} bytes", file.size));
            }
            if done < file.size {
                let size = file.size;
                return Err(format!(
                    "{url} ended after {done} of {size} bytes; run the command again to continue"
                ));
            }
        }
        checked(file, &url, part).await
    }

    /// Opens the response for the file from byte `from`. Returns it with the byte at which it
    /// really begins.
    async fn open(
        &self,
        url: &str,
        file: &PinnedFile,
        from: u64,
    ) -> Result<(EgressResponse, u64), String> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() =
            self.egress.validate_url(&self.class, url).map_err(|it| it.to_string())?;
        let agent = concat!("Toolkeep/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(agent));
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        if from > 0 {
            let range = HeaderValue::try_from(format!("bytes={from}-"));
            request.headers_mut().insert(header::RANGE, range.map_err(|it| it.to_string())?);
        }
        let most = usize::try_from(file.size).unwrap_or(usize::MAX).saturating_add(1);
        let limits = RequestLimits {
            header_timeout: WAIT,
            body_idle_timeout: WAIT,
            max_body_bytes: most,
            ..RequestLimits::default()
        };
        let sent = self.egress.send_following_redirects(
            &self.class,
            request,
            limits,
            RedirectPolicy::default(),
        );
        let received = sent.await.map_err(|error| error.to_string())?;
        let continues = format!("bytes {from}-");
        let range = received.headers().get(header::CONTENT_RANGE).and_then(|it| it.to_str().ok());
        match received.status() {
            StatusCode::OK => Ok((received, 0)),
            StatusCode::PARTIAL_CONTENT if range.is_some_and(|it| it.starts_with(&continues)) => {
                Ok((received, from))
            }
            status => Err(format!("{url} returned status {}", status.as_u16())),
        }
    }
}

/// Writes the response to `part`, from byte `from` on. Returns the bytes in the file, at most one
/// more than the expected size.
async fn receive(
    received: EgressResponse,
    from: u64,
    file: &PinnedFile,
    part: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<u64, String> {
    let unwritten = |error: io::Error| format!("{}: {error}", part.display());
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(from == 0).append(from > 0).mode(0o600);
    let mut out = options.open(part).map_err(unwritten)?;
    let (mut body, mut done, size) = (received.into_body(), from, file.size);
    loop {
        progress(Progress { file: &file.path, received: done.min(size), size });
        let next = body.next_chunk().await.map_err(|error| {
            format!(
                "{error}; {done} of {size} bytes were downloaded, and the next run continues from \
                 there"
            )
        })?;
        let Some(bytes) = next else { break };
        out.write_all(&bytes).map_err(unwritten)?;
        done = done.saturating_add(bytes.len() as u64);
        if done > size {
            break;
        }
    }
    out.sync_all().map_err(unwritten)?;
    Ok(done)
}

/// Verifies the checksum of a file. Removes the file if it differs.
async fn checked(file: &PinnedFile, url: &str, part: &Path) -> Result<(), String> {
    let place = part.to_owned();
    let hashed = tokio::task::spawn_blocking(move || digest(&place)).await;
    let found = hashed.map_err(|_| "the check failed".to_owned())?;
    let found = found.map_err(|error| format!("{}: {error}", part.display()))?;
    if found == file.sha256 {
        return Ok(());
    }
    removed(part)?;
    Err(format!("{url} has the SHA-256 {found}, expected {}; it was not installed", file.sha256))
}

fn removed(part: &Path) -> Result<(), String> {
    fs::remove_file(part).map_err(|error| format!("{}: {error}", part.display()))
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = BufReader::with_capacity(PIECE, File::open(path)?);
    loop {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        let length = piece.len();
        file.consume(length);
    }
    Ok(HEXLOWER.encode(&hash.finalize()))
}
