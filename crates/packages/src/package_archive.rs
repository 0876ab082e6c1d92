//! Package archive: a zip with `spec.json`, `tool.zip`, which holds the code, and `tool.md`.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rooted_fs::rooted_dir::{AccessMode, RootedDir, WriteMode};
use serde_json::{Map, Value, json};
use tool::display_text::truncate_and_escape_debug;
use tool::tool_packages::ToolPackageError;
use tool::{Json, JsonLimits};

use crate::disk_usage;
use crate::package_entry::{self, MANUAL_FIELD, RUNTIME_FIELD};

/// Maximum unpacked size of a package, in bytes.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;
/// Maximum size of a package's manual, in bytes. It becomes a field.
const MAX_MANUAL_BYTES: usize = 48 << 10;
/// Files that a package must contain.
const REQUIRED_FILES: [&str; 3] = ["spec.json", "tool.zip", "tool.md"];
/// Folder of the unpacked code.
const CODE_DIR: &str = "tool";

/// An unpacked package in its own folder. Dropping it removes the folder, unless it was committed.
#[derive(Debug)]
pub(crate) struct UnpackedPackage {
    /// Name of its folder below the packages folder.
    pub(crate) dir_name: String,
    pub(crate) fields: Map<String, Value>,
    /// Size on disk, in bytes.
    pub(crate) disk_bytes: u64,
    unpack_dir: PathBuf,
    is_committed: bool,
}

impl UnpackedPackage {
    /// Keeps the unpacked folder, which is otherwise removed on drop.
    pub(crate) fn commit(mut self) {
        self.is_committed = true;
    }
}

impl Drop for UnpackedPackage {
    fn drop(&mut self) {
        if !self.is_committed {
            remove_package_dir(&self.unpack_dir);
        }
    }
}

/// Removes the folder of an unpacked package.
pub(crate) fn remove_package_dir(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::debug!(path = %path.display(), %error, "cannot remove an unpacked package");
    }
}

/// Unpacks a package below `packages_dir`. Blocks.
pub(crate) fn unpack_package(
    packages_dir: &Path,
    package: &Bytes,
) -> Result<UnpackedPackage, ToolPackageError> {
    let unavailable = |error: std::io::Error| {
        ToolPackageError::Unavailable(format!("the folder for packages: {error}"))
    };
    let name = uuid::Uuid::new_v4().simple().to_string();
    let path = packages_dir.join(&name);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(packages_dir).map_err(unavailable)?;
    fs::DirBuilder::new().mode(0o700).create(&path).map_err(unavailable)?;
    let mut unpacked = UnpackedPackage {
        dir_name: name,
        fields: Map::new(),
        disk_bytes: 0,
        unpack_dir: path,
        is_committed: false,
    };
    let invalid = ToolPackageError::Invalid;
    unpacked.fields = extract_and_validate(&unpacked.unpack_dir, package).map_err(invalid)?;
    unpacked.disk_bytes = disk_usage::measure_dir(&unpacked.unpack_dir).map_err(unavailable)?;
    Ok(unpacked)
}

/// Unpacks the archives and returns the fields of the entry.
fn extract_and_validate(path: &Path, package: &Bytes) -> Result<Map<String, Value>, String> {
    let message = |error: rooted_fs::rooted_dir::FileAccessError| error.to_string();
    let root = RootedDir::open_root(path, AccessMode::ReadWrite).map_err(message)?;
    root.write_file("package.zip", package, WriteMode::CreateNew).map_err(message)?;
    let outer = Path::new("package");
    let names =
        archive_reader::unpack_all(&root, Path::new("package.zip"), outer, MAX_UNPACKED_BYTES)
            .map_err(|why| format!("the package: {why}"))?;
    if let Some(missing) =
        REQUIRED_FILES.iter().find(|part| !names.iter().any(|name| name == *part))
    {
        return Err(format!("the package has no `{missing}`"));
    }
    let spec =
        root.read_file(outer.join("spec.json"), package_entry::MAX_ENTRY_BYTES).map_err(message)?;
    let spec =
        Json::parse(spec, JsonLimits::DEFINITION).map_err(|why| format!("`spec.json`: {why}"))?;
    let mut fields =
        package_entry::parse_fields(&spec).map_err(|why| format!("`spec.json`: {why}"))?;
    let manual = root.read_file(outer.join("tool.md"), MAX_MANUAL_BYTES).map_err(message)?;
    let manual = String::from_utf8(manual).map_err(|_| "`tool.md` is not UTF-8".to_owned())?;
    fields.entry(MANUAL_FIELD).or_insert_with(|| json!(manual));
    let code = archive_reader::unpack_all(
        &root,
        &outer.join("tool.zip"),
        Path::new(CODE_DIR),
        MAX_UNPACKED_BYTES,
    )
    .map_err(|why| format!("`tool.zip`: {why}"))?;
    check_code_layout(
        fields.get(RUNTIME_FIELD).and_then(Value::as_str).unwrap_or_default(),
        &code,
    )?;
    // Already unpacked; removed to free disk space.
    for done in ["package.zip", "package/tool.zip"] {
        root.remove_file(done).map_err(message)?;
    }
    Ok(fields)
}

/// Checks that the code has the layout of its runtime. An unnamed runtime is not checked.
fn check_code_layout(runtime: &str, code: &[String]) -> Result<(), String> {
    match runtime {
        "python" if !code.iter().any(|name| name == "code/function.py") => {
            Err("`tool.zip` has no `code/function.py`, which a Python tool needs".to_owned())
        }
        "binary" if code.iter().filter(|name| name.starts_with("code/")).count() != 1 => {
            Err("`tool.zip` must have exactly one file in `code/` for a binary tool".to_owned())
        }
        "" | "python" | "binary" => Ok(()),
        other => {
            let other = truncate_and_escape_debug(other, 40);
            Err(format!("`{RUNTIME_FIELD}` must be `python` or `binary`, not `{other}`"))
        }
    }
}
