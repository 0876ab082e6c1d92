//! Code beside tool files, run as a plugin's is.

use std::path::Path;
use std::sync::Arc;

use plugins::{Attached, Beside, Call, Registry};
use source_tool_files::{Code, Function, Host, Hosted};
use tool::{Boxed, Json, SourceName};

/// The code of one tool file.
#[derive(Debug)]
pub(crate) struct FileCode(Beside);

impl FileCode {
    /// That which stands beside the file at `path`.
    pub(crate) fn new(registry: &Arc<Registry>, name: &SourceName, path: &Path) -> Self {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self(registry.beside(name, folder.unwrap_or(Path::new("."))))
    }

    async fn run(&self, code: Vec<Code>) -> Hosted {
        let code: Vec<_> = code.into_iter().map(read).collect();
        let Attached { revision, content, tools, refused } = self.0.take(&code).await;
        Hosted { revision, content: Json::of(&content), tools, problems: refused }
    }
}

fn read(code: Code) -> plugins::Code {
    let Code { tool, function, input, scopes, writes } = code;
    let call = match function {
        Function::Python { module, function } => Call::Function { module, function },
        Function::Program { binary, command } => Call::Program { binary, command },
    };
    plugins::Code { tool, call, input, scopes, writes }
}

impl Host for FileCode {
    fn host(&self, code: Vec<Code>) -> Boxed<'_, Hosted> {
        Box::pin(self.run(code))
    }

    fn changed(&self, seen: u64) -> Boxed<'_, u64> {
        Box::pin(self.0.changed(seen))
    }

    fn close(&self) {
        self.0.close();
    }
}
