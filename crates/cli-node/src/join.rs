//! Implements `toolkeep node join`, which enrolls this machine as a node.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path as Folder, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use proto::tls::{self, NodeKey};
use rooted_fs::private_file;
use serde_json::{Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Join as a node: makes a key that never leaves this machine, and gets a certificate for it.
///
/// Wants the server's address (`--url`) and an invitation, or the node's own key where its certificate
/// is to be another one, in `TOOLKEEP_KEY`. The folder then holds `node.pem`, `node.key` and
/// `authority.pem`, for `TOOLKEEP_NODE_TLS` of the SDKs, and `registry.key`, for their `TOOLKEEP_KEY`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  TOOLKEEP_URL=http://127.0.0.1:8080 TOOLKEEP_KEY=tk_… toolkeep node join node-abc123")]
pub(crate) struct Join {
    /// The node's id, as it was invited.
    #[arg(value_name = "NODE")]
    node_id: String,
    /// The folder to write to; made where it is not there.
    #[arg(long, value_name = "DIR", default_value = "node")]
    dir: PathBuf,
}

impl Join {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let made = NodeKey::new().and_then(|key| {
            let (pem, proof) = (key.pem()?, key.prove(&self.node_id)?);
            Ok((pem, STANDARD.encode(key.public()), STANDARD.encode(proof)))
        });
        let (pem, public, proof) =
            made.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        // Before the invitation is consumed: an unwritable directory must cost nothing.
        make(&self.dir)?;
        let session = context.connect().await?;
        let path = Path::new("/v1/nodes", &[&self.node_id, "join"]);
        let body = json!({"public_key": public, "proof": proof});
        let answer = session.client.post(&path, &body).await;
        session.end().await?;
        let answer: Value = answer?;
        let text = |name: &str| value::text(&answer, name);
        write(&self.dir, tls::KEY, &pem)?;
        write(&self.dir, tls::CERTIFICATE, &text("certificate"))?;
        write(&self.dir, tls::AUTHORITY, &text("authority"))?;
        if answer.get("key").is_some() {
            write(&self.dir, tls::REGISTRY_KEY, &(text("key") + "\n"))?;
        }
        let told = json!({
            "node_id": self.node_id, "dir": self.dir, "name": text("name"), "until": text("until"),
        });
        ui.answer(&told, || {
            format!(
                "{} has joined; its certificate in {} holds until {}",
                self.node_id,
                self.dir.display(),
                text("until")
            )
        })?;
        Ok(Exit::Done)
    }
}

fn failed(path: &Folder, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("`{}`: {error}", path.display()))
}

fn make(folder: &Folder) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| failed(folder, &error))?;
    let probe = folder.join(".new");
    let _absent = fs::remove_file(&probe);
    private_file::create(&probe).map_err(|error| failed(&probe, &error))?;
    fs::remove_file(&probe).map_err(|error| failed(&probe, &error))
}

/// Writes a private file atomically, replacing an existing one.
fn write(folder: &Folder, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = private_file::replace(&path, text.as_bytes());
    written.map_err(|error| failed(&path, &error))
}
