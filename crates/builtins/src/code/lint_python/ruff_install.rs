//! Installs ruff from the Python package index: one version, pinned by its SHA-256 digest.

use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use egress::{EgressClient, UrlTrust};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::web::{DownloadLimits, WebEndpoint};

/// Limits of the index page and of the file.
const INDEX_LIMITS: DownloadLimits =
    DownloadLimits { timeout: Duration::from_mins(1), max_bytes: 64 << 20 };
const WHEEL_LIMITS: DownloadLimits =
    DownloadLimits { timeout: Duration::from_mins(10), max_bytes: 64 << 20 };
/// Largest program, in bytes.
const MAX_PROGRAM_BYTES: u64 = 256 << 20;
/// The public index.
const PUBLIC_INDEX: &str = "https://pypi.org/simple";
/// Accepted media types: the JSON index (PEP 691) and the older HTML index (PEP 503).
const INDEX_MEDIA_TYPES: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.1";

const RUFF_VERSION: &str = "0.17.6";

/// File of [`RUFF_VERSION`] for one architecture and C library.
struct PinnedFile {
    arch: &'static str,
    libc: &'static str,
    /// Platform tag in the name of the file.
    platform: &'static str,
    sha256: &'static str,
}

const PINNED_FILES: [PinnedFile; 4] = [
    PinnedFile {
        arch: "x86_64",
        libc: "gnu",
        platform: "manylinux_2_17_x86_64.manylinux2014_x86_64",
        sha256: "aa3b08254a732acba246891089a152c47c5733dc36b8ecb76ce8602f8326e5e4",
    },
    PinnedFile {
        arch: "aarch64",
        libc: "gnu",
        platform: "manylinux_2_17_aarch64.manylinux2014_aarch64",
        sha256: "435241c61af5909a022f76219d3d1bf24730dc1bf0acabb5ddf4b569ab3cbb30",
    },
    PinnedFile {
        arch: "x86_64",
        libc: "musl",
        platform: "musllinux_1_2_x86_64",
        sha256: "3db61f5015600543a581b07fa7f6f64afa0eeedefe16034cadd88c4074087582",
    },
    PinnedFile {
        arch: "aarch64",
        libc: "musl",
        platform: "musllinux_1_2_aarch64",
        sha256: "fb589e032806bb942e4fb526f30b80a1a64112147ed9f1d38cc3de2e255b6f45",
    },
];

/// A pinned package: one file of an index by name and digest, and one program in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedPackage {
    /// Name of the project.
    pub project: String,
    /// Version of the project.
    pub version: String,
    /// The name of the file.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// Path of the program within the file.
    pub member: String,
}

impl PinnedPackage {
    /// Returns the pinned ruff for this machine; `None` for an unknown platform.
    pub fn pinned_ruff() -> Option<Self> {
        let library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
        let fits = |it: &&PinnedFile| it.arch == std::env::consts::ARCH && it.libc == library;
        let PinnedFile { platform, sha256, .. } = PINNED_FILES.iter().find(fits)?;
        Some(Self {
            project: "ruff".to_owned(),
            version: RUFF_VERSION.to_owned(),
            file: format!("ruff-{RUFF_VERSION}-py3-none-{platform}.whl"),
            sha256: (*sha256).to_owned(),
            member: format!("ruff-{RUFF_VERSION}.data/scripts/ruff"),
        })
    }

    /// Verifies the digest of the file and extracts the program.
    fn verify_and_extract(&self, wheel: &[u8]) -> Result<Vec<u8>, String> {
        let digest = HEXLOWER.encode(&Sha256::digest(wheel));
        if digest != self.sha256 {
            let Self { file, sha256, .. } = self;
            return Err(format!(
                "`{file}` has the SHA-256 {digest}, expected {sha256}; it was not installed"
            ));
        }
        let unread = |error: zip::result::ZipError| format!("`{}`: {error}", self.file);
        let mut archive = zip::ZipArchive::new(Cursor::new(wheel)).map_err(unread)?;
        let member = archive.by_name(&self.member).map_err(unread)?;
        let mut program = Vec::new();
        let read = member.take(MAX_PROGRAM_BYTES).read_to_end(&mut program);
        read.map_err(|error| format!("`{}`: {error}", self.file))?;
        Ok(program)
    }
}

/// An installed program and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledProgram {
    /// Path of the program.
    pub program: PathBuf,
    /// URL of the downloaded file.
    pub url: String,
}

/// Downloads `package` from `index`, by default the public one, and installs its program into
/// `folder`. Files at another origin than the operator's index must be at public addresses.
///
/// # Errors
/// A message that names the index, the file or the folder, and what is wrong with it.
pub async fn install_package(
    egress: &EgressClient,
    index: Option<&str>,
    package: &PinnedPackage,
    folder: &Path,
) -> Result<InstalledProgram, String> {
    let PinnedPackage { project, file, .. } = package;
    let base = index.unwrap_or(PUBLIC_INDEX).trim_end_matches('/');
    let list = Url::parse(&format!("{base}/{project}/"))
        .map_err(|error| format!("`{base}` is not a valid index URL: {error}"))?;
    let own = index.map(WebEndpoint::operator_site).transpose()?;
    let of_index = own.unwrap_or_else(|| WebEndpoint::public_site(base));
    let listed =
        of_index.download_file(egress, list.as_str(), INDEX_MEDIA_TYPES, INDEX_LIMITS).await?;
    let url = find_file_url(&listed, &list, file)
        .ok_or_else(|| format!("the index at {list} does not have `{file}`"))?;
    let of_file = if url.origin() == list.origin() {
        of_index
    } else {
        WebEndpoint::with_class(url.as_str(), UrlTrust::UpstreamResponse)
    };
    let wheel = of_file.download_file(egress, url.as_str(), "*/*", WHEEL_LIMITS).await?;
    let (package, folder) = (package.clone(), folder.to_owned());
    let put = tokio::task::spawn_blocking(move || {
        let program = package.verify_and_extract(&wheel)?;
        install_atomically(&folder, &package.project, &program)
    });
    let program = put.await.map_err(|_| "the installation failed".to_owned())??;
    Ok(InstalledProgram { program, url: url.to_string() })
}

#[derive(Deserialize)]
struct PackageIndexPage {
    files: Vec<IndexFile>,
}

#[derive(Deserialize)]
struct IndexFile {
    filename: String,
    url: String,
}

/// Finds the URL of the file in an index page.
fn find_file_url(listed: &Bytes, list: &Url, file: &str) -> Option<Url> {
    if let Ok(PackageIndexPage { files }) = serde_json::from_slice(listed) {
        let found = files.into_iter().find(|it| it.filename == file)?;
        return list.join(&found.url).ok();
    }
    // The older format: an HTML page of links, each with the file's name.
    let page = std::str::from_utf8(listed).ok()?;
    let (before, _) = page.split_once(&format!(">{file}<"))?;
    let (_, link) = before.rsplit_once("href=\"")?;
    let link = link.split('"').next()?.replace("&amp;", "&");
    let mut url = list.join(&link).ok()?;
    url.set_fragment(None);
    Some(url)
}

/// Installs the program atomically; a running program is not overwritten.
fn install_atomically(folder: &Path, name: &str, program: &[u8]) -> Result<PathBuf, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut make = fs::DirBuilder::new();
    make.recursive(true).mode(0o700).create(folder).map_err(told)?;
    let (part, place) = (folder.join(format!(".{name}-{}", std::process::id())), folder.join(name));
    let write = || {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o755).open(&part)?;
        file.write_all(program)?;
        file.sync_all()?;
        fs::rename(&part, &place)?;
        fs::File::open(folder)?.sync_all()
    };
    let written = write();
    if written.is_err() {
        let _gone = fs::remove_file(&part);
    }
    written.map(|()| place).map_err(told)
}

#[cfg(test)]
mod tests;
