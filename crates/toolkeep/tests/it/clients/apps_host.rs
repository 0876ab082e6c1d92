//! Test of user interfaces (`ui://`) through `/mcp` in a host made with the official bridge, in Chromium:
//! two servers that share the URI of their interfaces each show their own.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::installed_programs::{browser_script, installed_file};

use super::script;
use crate::real_support::test_command;
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

/// Packages of the servers and of the host.
const PACKAGES: &str = "npm-apps/node_modules";
/// The servers, which say their names.
const SERVERS: [&str; 2] = ["one", "two"];

/// Command line of a server.
fn server_words(name: &str) -> Vec<String> {
    let words = [installed_file("bin/node"), script("app_server.mjs"), installed_file(PACKAGES)];
    let words = words.map(|path| path.into_os_string().into_string().unwrap());
    words.into_iter().chain([name.to_owned()]).collect()
}

/// The digest of the page that a server has for its interface.
fn page_digest(name: &str) -> String {
    let words = server_words(name);
    let printed = test_command(&words[0]).args(&words[1..]).arg("print").output().unwrap();
    assert!(printed.status.success() && printed.stdout.len() > 100_000);
    data_encoding::HEXLOWER.encode(&Sha256::digest(&printed.stdout))
}

/// Runs the host, which shows the interfaces of these tools.
async fn shown_by_host(url: &str, key: &str, tools: &[&str]) -> Value {
    let mut host = browser_script(&script("app_host.mjs"));
    host.arg(installed_file(PACKAGES)).arg(url).args(tools).env("TOOLKEEP_KEY", key);
    host.stderr(std::process::Stdio::piped());
    let ended = tokio::task::spawn_blocking(move || host.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{out}\n{err}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_apps_shows_the_interface_of_each_server_and_its_calls_come_back() {
    let sources = SERVERS.map(|name| {
        let words = server_words(name);
        let mcp = json!({ "command": words[0], "args": words[1..] });
        json!({ "name": name, "mcp": mcp, "trust_annotations": true })
    });
    let home = Installation::new(&json!({ "version": 1, "sources": sources }).to_string());
    let server = start_server(&home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let url = format!("{}/mcp?names=native", server.url);
    let seen = shown_by_host(&url, key.trim(), &["one.show", "two.show"]).await;
    assert_eq!((&seen["errors"], &seen["foreign"]), (&json!([]), &json!([])), "{seen}");
    for name in SERVERS {
        let tool = &seen["tools"][format!("{name}.show")];
        let shown = json!({
            "title": name, "state": "connected to test host", "input": "Rome",
            "result": format!("{name}: sun in Rome"),
            "measured": format!("{name}: 21 degrees in Bath"),
        });
        assert_eq!(tool["shown"], shown, "{seen}");
        // Only the address differs from what the server has: both servers list it.
        let uri = format!("ui://{name}+weather/view.html");
        assert_eq!((&tool["uri"], &tool["contentUri"]), (&json!(uri), &json!(uri)), "{tool}");
        let meta = json!({ "ui": { "resourceUri": uri, "visibility": ["model", "app"] },
            "ui/resourceUri": uri });
        assert_eq!(tool["toolMeta"], meta, "{tool}");
        assert_eq!(tool["mimeType"], "text/html;profile=mcp-app");
        let content_meta =
            json!({ "ui": { "prefersBorder": true, "csp": { "connectDomains": [] } } });
        assert_eq!(tool["_meta"], content_meta, "{tool}");
        assert_eq!(tool["digest"], page_digest(name), "the page is the server's, byte for byte");
    }
    assert!(server.stop().await.success());
}
