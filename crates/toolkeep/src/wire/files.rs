//! The folder that the built-in file tools use: `work` in the data directory.

use std::path::Path;
use std::sync::Arc;

use builtins::Files;
use guard::roots::{Access, Root};

/// Made where it is not there yet. Where it cannot be used, the file tools are not offered, and the log
/// says why.
pub(super) fn work(path: &Path) -> Option<Arc<Files>> {
    let made = std::fs::create_dir_all(path).map_err(|error| error.to_string());
    let opened = made.and_then(|()| {
        let path = path.canonicalize().map_err(|error| error.to_string())?;
        let root = Root::open(&path, Access::ReadWrite).map_err(|error| error.to_string())?;
        Ok((path, root))
    });
    match opened {
        Ok(root) => Some(Arc::new(Files::new(vec![root]))),
        Err(error) => {
            tracing::warn!(folder = %path.display(), %error, "no tools for files are offered");
            None
        }
    }
}
