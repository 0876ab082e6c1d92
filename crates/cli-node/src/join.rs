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

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Join a server as a node: create a private key on this machine and obtain a certificate for it.
///
/// Requires the server's address (`--url`) and `TOOLKEEP_KEY`: an invitation key, or the node's own
/// key to renew its certificate. The private key never leaves this machine. Writes `node.pem`,
/// `node.key` and `authority.pem`, for `TOOLKEEP_NODE_TLS` of the SDKs, and `registry.key`, for
/// their `TOOLKEEP_KEY`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  TOOLKEEP_URL=http://127.0.0.1:8080 TOOLKEEP_KEY=tk_… toolkeep node join node-abc123")]
pub(crate) struct NodeJoinArgs {
    /// ID of the node, as in its invitation.
    #[arg(value_name = "NODE")]
    node_id: String,
    /// Directory to write to; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "node")]
    dir: PathBuf,
}

impl NodeJoinArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let made = NodeKey::generate().and_then(|key| {
            let (pem, proof) = (key.private_key_pem()?, key.sign_proof(&self.node_id)?);
            Ok((pem, STANDARD.encode(key.public_key()), STANDARD.encode(proof)))
        });
        let (pem, public, proof) =
            made.map_err(|error| CommandError::new(ExitStatus::Failed, error.to_string()))?;
        // Before the invitation is consumed: an unwritable directory must cost nothing.
        create_node_dir(&self.dir)?;
        let session = context.connect().await?;
        let path = RequestPath::from_segments("/v1/nodes", &[&self.node_id, "join"]);
        let body = json!({"public_key": public, "proof": proof});
        let answer = session.client.post_json(&path, &body).await;
        session.close().await?;
        let answer: Value = answer?;
        let text = |name: &str| json_fields::field_text(&answer, name);
        write_private_file(&self.dir, tls::PRIVATE_KEY_FILE, &pem)?;
        write_private_file(&self.dir, tls::CERTIFICATE_FILE, &text("certificate"))?;
        write_private_file(&self.dir, tls::AUTHORITY_FILE, &text("authority"))?;
        if answer.get("key").is_some() {
            write_private_file(&self.dir, tls::REGISTRY_KEY_FILE, &(text("key") + "\n"))?;
        }
        let message = json!({
            "node_id": self.node_id, "dir": self.dir, "name": text("name"), "until": text("until"),
        });
        ui.print_result(&message, || {
            format!(
                "{} has joined; its certificate in {} expires at {}",
                self.node_id,
                self.dir.display(),
                text("until")
            )
        })?;
        Ok(ExitStatus::Success)
    }
}

fn file_error(path: &Folder, error: &std::io::Error) -> CommandError {
    CommandError::new(ExitStatus::Failed, format!("`{}`: {error}", path.display()))
}

fn create_node_dir(folder: &Folder) -> Result<(), CommandError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| file_error(folder, &error))?;
    let probe = folder.join(".new");
    let _absent = fs::remove_file(&probe);
    private_file::create_private(&probe).map_err(|error| file_error(&probe, &error))?;
    fs::remove_file(&probe).map_err(|error| file_error(&probe, &error))
}

/// Writes a private file atomically, replacing an existing one.
fn write_private_file(folder: &Folder, name: &str, text: &str) -> Result<(), CommandError> {
    let path = folder.join(name);
    let written = private_file::replace_atomically(&path, text.as_bytes());
    written.map_err(|error| file_error(&path, &error))
}
