//! The web console in Chromium: the flow of approvals by keyboard alone and without a script,
//! accessibility, width, and requests to nobody else.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::installed_programs::installed_file;

use crate::approvals::ApprovalServer;
use crate::support::tools;

/// Texts that would act if a page took them as markup.
const HOSTILE: &str = "<img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}\u{200b}\
    <a href=javascript:alert(3)>x</a> <iframe src=//evil.example></iframe>";

/// Runs the script with a key, and returns what it found.
fn run_script(address: &str, key: &str, pictures: &Path) -> Value {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let chromium = std::env::split_paths(&path).map(|folder| folder.join("chromium"));
    let chromium = chromium.into_iter().find(|path| path.is_file());
    let chromium = chromium.expect("Chromium, which `cargo xtask provision` installs as root");
    #[expect(clippy::disallowed_methods, reason = "a test starts programs")]
    let mut node = Command::new(installed_file("bin/node"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real/console.mjs");
    node.arg(script).arg(installed_file("npm-browser/node_modules")).arg(chromium);
    node.args([address]).arg(pictures).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = node.stderr(Stdio::piped()).spawn().unwrap();
    node.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
    let ended = node.wait_with_output().unwrap();
    let (output, errors) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{output}\n{errors}");
    serde_json::from_str(&output).unwrap()
}

async fn prepared_server() -> ApprovalServer {
    let bench = ApprovalServer::new().await;
    let hostile = tools::tool_with("hostile", |tool| {
        (tool.description, tool.title) = (HOSTILE.to_owned(), Some(HOSTILE.to_owned()));
        tool.input_schema = tool::Json::encode(&json!({"type": "object", "properties": {
            HOSTILE: {"type": "string", "description": HOSTILE, "default": HOSTILE}}}));
        tool.raw_definition = tool::Json::encode(HOSTILE);
    });
    let rm = tools::tool_with("rm", |tool| {
        tool.description = "Removes a file or folder.\nReturns the number of entries.".to_owned();
        tool.input_schema = tool::Json::encode(&json!({"type": "object", "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "File or folder, relative.", "maxLength": 4096},
                "options": {"type": "object", "properties": {
                    "recursive": {"type": "boolean", "default": false},
                    "depth": {"type": "integer", "minimum": 1, "maximum": 64}}}}}));
        tool.traits.safety = tool::SafetyLevel::Dangerous;
        tool.traits.effects = tool::SideEffects::Declared(vec![tool::SideEffect::ModifiesFiles]);
    });
    let mut offers = tools::many_offers(60);
    offers.extend(
        [hostile, rm].map(|it| tools::tool_offer(it, std::sync::Arc::clone(&bench.ran) as _)),
    );
    bench.server.replace_offers(offers).await;
    for (n, path) in
        ["build/cache", "notes/\u{202e}gpj.exe", HOSTILE, "old.log", "new.log"].iter().enumerate()
    {
        bench.pending_call(json!({"path": path, "options": {"recursive": n % 2 == 0}})).await;
    }
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_approves_by_keyboard_and_no_text_acts() {
    let bench = prepared_server().await;
    let address = format!("http://{}", bench.server.address);
    let bearer = bench.owner.bearer();
    let key = bearer.strip_prefix("Bearer ").unwrap().to_owned();
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console");
    std::fs::create_dir_all(&pictures).unwrap();
    let folder = pictures.clone();
    let found = tokio::task::spawn_blocking(move || run_script(&address, &key, &folder));
    let found = found.await.unwrap();
    println!("{found:#}\npictures in {}", pictures.display());
    for nothing in ["dialogs", "errors", "foreign", "violations", "wide"] {
        assert_eq!(found[nothing], json!([]), "{nothing}");
    }
    assert_eq!(
        found["steps"],
        json!({"crossOrigin": 403, "sameOrigin": 303, "focused": "Approve", "approved": true,
            "denied": "denied", "reason": true, "tool": "rm", "keys": "",
            "withoutScript": true, "signedOut": "/ui/sign-in"})
    );
    for (page, bytes) in found["bytes"].as_object().unwrap() {
        assert!(bytes.as_u64().unwrap() < 100_000, "{page}: {bytes} bytes");
    }
    assert_eq!(bench.ran.call_count(), 2);
    assert_eq!(std::fs::read_dir(pictures).unwrap().count(), 36);
}
