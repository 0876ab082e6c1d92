//! Host for the code of tool files, which runs in plugin processes.

use std::path::Path;
use std::sync::Arc;

use plugins::{EntryPoint, LoadedCode, PluginRegistry, ToolFileCode};
use source_tool_files::{CodeEntryPoint, CodeHost, CodeTool, HostedCode};
use tool::{BoxFuture, Json, SourceName};

/// Hosts the code in the folder of one tool file.
#[derive(Debug)]
pub(crate) struct ToolFileCodeHost(ToolFileCode);

impl ToolFileCodeHost {
    /// Creates the host for code in the folder of the file at `path`.
    pub(crate) fn new(registry: &Arc<PluginRegistry>, name: &SourceName, path: &Path) -> Self {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self(registry.attach_code(name, folder.unwrap_or(Path::new("."))))
    }

    async fn host_code(&self, code: Vec<CodeTool>) -> HostedCode {
        let code: Vec<_> = code.into_iter().map(to_plugin_code).collect();
        let LoadedCode {
            revision,
            content_digest: content,
            executors: tools,
            rejected_problems: refused,
        } = self.0.load_code(&code).await;
        HostedCode {
            revision,
            content_digest: Json::encode(&content),
            executors: tools,
            problems: refused,
        }
    }
}

fn to_plugin_code(code: CodeTool) -> plugins::ToolCode {
    let CodeTool {
        tool_name: tool,
        entry_point: function,
        input_schema: input,
        scopes,
        writes_files: writes,
    } = code;
    let call = match function {
        CodeEntryPoint::Python { module, function } => EntryPoint::Function { module, function },
        CodeEntryPoint::Program { binary, command } => EntryPoint::Program { binary, command },
    };
    plugins::ToolCode {
        tool_name: tool,
        entry_point: call,
        input_schema: input,
        scopes,
        writes_files: writes,
    }
}

impl CodeHost for ToolFileCodeHost {
    fn load_code(&self, code: Vec<CodeTool>) -> BoxFuture<'_, HostedCode> {
        Box::pin(self.host_code(code))
    }

    fn wait_for_change(&self, seen: u64) -> BoxFuture<'_, u64> {
        Box::pin(self.0.wait_for_change(seen))
    }

    fn shut_down(&self) {
        self.0.close();
    }
}
