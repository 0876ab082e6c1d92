//! A package: a zip with `spec.json`, `tool.zip` and `tool.md`, of which the second holds the code.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rooted_fs::roots::{Access, Put, Root};
use serde_json::{Map, Value, json};
use tool::catalogue::CatalogueFault;
use tool::{Json, Limits};

use crate::disk_usage;
use crate::entry::{self, MANUAL, RUNTIME};

/// Bytes of all that comes out of a package.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of the manual in it: it becomes a field.
const MANUAL_BYTES: usize = 48 << 10;
/// What must be in it.
const PARTS: [&str; 3] = ["spec.json", "tool.zip", "tool.md"];
/// Where the code comes out.
const CODE: &str = "tool";

/// A package that came out into a folder of its own; the folder goes with this, unless it is kept.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// Where it stands, below the home of all.
    pub(crate) name: String,
    pub(crate) said: Map<String, Value>,
    /// What it takes on the disk.
    pub(crate) bytes: u64,
    path: PathBuf,
    kept: bool,
}

impl Unpacked {
    /// It stays.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        if !self.kept {
            remove(&self.path);
        }
    }
}

/// Removes what came out of one.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::debug!(path = %path.display(), %error, "what came out of a package stays");
    }
}

/// Unpacks it below `home`. Blocks.
pub(crate) fn unpack(home: &Path, package: &Bytes) -> Result<Unpacked, CatalogueFault> {
    let unavailable = |error: std::io::Error| {
        CatalogueFault::Unavailable(format!("the folder for packages: {error}"))
    };
    let name = uuid::Uuid::new_v4().simple().to_string();
    let path = home.join(&name);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(unavailable)?;
    fs::DirBuilder::new().mode(0o700).create(&path).map_err(unavailable)?;
    let mut unpacked = Unpacked { name, said: Map::new(), bytes: 0, path, kept: false };
    let unfit = CatalogueFault::Unfit;
    unpacked.said = parts(&unpacked.path, package).map_err(unfit)?;
    unpacked.bytes = disk_usage::measure(&unpacked.path).map_err(unavailable)?;
    Ok(unpacked)
}

/// What its entry says, once all of it is out.
fn parts(path: &Path, package: &Bytes) -> Result<Map<String, Value>, String> {
    let told = |error: rooted_fs::roots::RootError| error.to_string();
    let root = Root::open(path, Access::ReadWrite).map_err(told)?;
    root.write("package.zip", package, Put::New).map_err(told)?;
    let outer = Path::new("package");
    let names = archive_reader::unpack(&root, Path::new("package.zip"), outer, MOST_BYTES)
        .map_err(|why| format!("the package: {why}"))?;
    if let Some(missing) = PARTS.iter().find(|part| !names.iter().any(|name| name == *part)) {
        return Err(format!("the package has no `{missing}`"));
    }
    let spec = root.read(outer.join("spec.json"), entry::MOST_BYTES).map_err(told)?;
    let spec =
        Json::check(spec, Limits::DEFINITION).map_err(|why| format!("`spec.json`: {why}"))?;
    let mut said = entry::said(&spec).map_err(|why| format!("`spec.json`: {why}"))?;
    let manual = root.read(outer.join("tool.md"), MANUAL_BYTES).map_err(told)?;
    let manual = String::from_utf8(manual).map_err(|_| "`tool.md` is no UTF-8".to_owned())?;
    said.entry(MANUAL).or_insert_with(|| json!(manual));
    let code = archive_reader::unpack(&root, &outer.join("tool.zip"), Path::new(CODE), MOST_BYTES)
        .map_err(|why| format!("`tool.zip`: {why}"))?;
    fits(said.get(RUNTIME).and_then(Value::as_str).unwrap_or_default(), &code)?;
    // Out of it by now: only room.
    for done in ["package.zip", "package/tool.zip"] {
        root.remove(done).map_err(told)?;
    }
    Ok(said)
}

/// Whether the code is where its runtime looks for it; of a runtime that is not named nothing is known.
fn fits(runtime: &str, code: &[String]) -> Result<(), String> {
    match runtime {
        "python" if !code.iter().any(|name| name == "code/function.py") => {
            Err("`tool.zip` has no `code/function.py`, which a tool in Python is".to_owned())
        }
        "binary" if code.iter().filter(|name| name.starts_with("code/")).count() != 1 => {
            Err("`tool.zip` has not one file in `code/`, which a binary tool is".to_owned())
        }
        "" | "python" | "binary" => Ok(()),
        other => {
            let other: String = other.chars().take(40).flat_map(char::escape_debug).collect();
            Err(format!("`{RUNTIME}` is `{other}`, and neither `python` nor `binary`"))
        }
    }
}
