//! Times to the first contentful paint of pages, in Chromium that `cargo xtask provision` installs.

use std::collections::BTreeMap;
use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::browser_session::BrowserSession;

/// Loads of each page.
pub(super) const LOADS: usize = 20;

/// Times of the loads of each page, in milliseconds, sorted.
pub(super) type PaintTimes = BTreeMap<String, Vec<f64>>;

/// Measures pages of a session; `None` without Chromium or the installed programs.
pub(super) fn measure_paints(
    session: &BrowserSession,
    paths: &[&str],
) -> Result<Option<PaintTimes>, String> {
    let Some(mut node) = browser_command() else { return Ok(None) };
    let origin = format!("http://{}", session.address);
    let input = json!({"origin": origin, "cookie": session.cookie, "paths": paths, "loads": LOADS});
    let failed = |error: std::io::Error| format!("the browser: {error}");
    let mut child = node.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.to_string().as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(format!("the browser ended with {}", output.status));
    }
    let mut times: PaintTimes =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("the browser: {error}"))?;
    for all in times.values_mut() {
        all.sort_by(f64::total_cmp);
    }
    Ok(Some(times))
}

/// The script with Node and Chromium, if both are there.
fn browser_command() -> Option<Command> {
    let installed = PathBuf::from(env::var_os("TOOLKEEP_REAL")?);
    let path = env::var_os("PATH")?;
    let chromium = env::split_paths(&path).map(|folder| folder.join("chromium"));
    let chromium = chromium.into_iter().find(|file| file.is_file())?;
    let node = Some(installed.join("bin/node")).filter(|file| file.is_file())?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/first_paint.mjs");
    let mut command = Command::new(node);
    command.arg(script).arg(installed.join("npm-browser/node_modules")).arg(chromium);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Some(command)
}
