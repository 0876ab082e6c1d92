//! Writes a call for a shell, for MCP and for Python, to be copied.

use tool::Json;

use crate::html::{Element, element, text_element};

/// A call and the address of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSnippets<'a> {
    /// Address that the browser uses, such as `http://127.0.0.1:7332`.
    pub(crate) address: &'a str,
    pub(crate) tool: &'a str,
    /// Arguments as JSON text.
    pub(crate) arguments: &'a str,
}

impl CallSnippets<'_> {
    /// Renders the call for curl, the command line, MCP and Python.
    pub(crate) fn render(self) -> Element {
        let parts = [
            ("curl", self.curl()),
            ("Command line", self.command_line()),
            ("MCP", self.mcp_message()),
            ("Python", self.python()),
        ];
        let part = |(title, text): (&str, String)| {
            let block = text_element("pre", &text).attr("tabindex", "0");
            [text_element("h3", title), block]
        };
        let summary = text_element("summary", "The same call elsewhere");
        let hint = text_element("p", "The key is in the variable TOOLKEEP_KEY.").class("hint");
        element("details").child(summary).child(hint).children(parts.into_iter().flat_map(part))
    }

    /// The arguments without invisible characters, equal for parsers.
    fn visible_arguments(self) -> String {
        json::escape_invisible_as_json(self.arguments).unwrap_or_else(|| self.arguments.to_owned())
    }

    fn body(self) -> String {
        format!(
            "{{\"tool\":{},\"arguments\":{}}}",
            json_string(self.tool),
            self.visible_arguments()
        )
    }

    fn curl(self) -> String {
        format!(
            "curl -s {}/v1/calls \\\n  -H \"Authorization: Bearer $TOOLKEEP_KEY\" \\\n  \
             -H 'Content-Type: application/json' \\\n  -d {}",
            self.address,
            quote_shell(&self.body())
        )
    }

    fn command_line(self) -> String {
        format!(
            "toolkeep tool call {} --url {} --arguments {}",
            quote_shell(self.tool),
            self.address,
            quote_shell(&self.visible_arguments())
        )
    }

    /// The message of MCP, for `POST /mcp`.
    fn mcp_message(self) -> String {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":{},\"arguments\":{}}}}}",
            json_string(self.tool),
            self.visible_arguments()
        )
    }

    fn python(self) -> String {
        format!(
            "import os, urllib.request\n\n\
             request = urllib.request.Request(\n    \"{}/v1/calls\",\n    data={}.encode(),\n    \
             headers={{\n        \"Authorization\": \"Bearer \" + os.environ[\"TOOLKEEP_KEY\"],\n        \
             \"Content-Type\": \"application/json\",\n    }},\n)\n\
             print(urllib.request.urlopen(request).read().decode())",
            self.address,
            // A string of JSON is one of Python with the same value.
            json_string(&self.body())
        )
    }
}

/// Writes a text as a string of JSON, invisible characters as escapes.
fn json_string(text: &str) -> String {
    let string = Json::encode(text).as_str().to_owned();
    json::escape_invisible_as_json(&string).unwrap_or(string)
}

/// Quotes a word for a POSIX shell.
fn quote_shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{CallSnippets, quote_shell};

    const CALL: CallSnippets<'_> = CallSnippets {
        address: "http://127.0.0.1:7332",
        tool: "files.rm",
        arguments: "{\"path\":\"it's $HOME `id` \\\"\u{202e}\"}",
    };

    #[test]
    fn no_text_leaves_its_quotes() {
        assert_eq!(quote_shell("a'b"), "'a'\\''b'");
        let command = CALL.command_line();
        assert!(command.starts_with("toolkeep tool call 'files.rm' --url http://127.0.0.1:7332"));
        assert!(
            command.ends_with(r#"--arguments '{"path":"it'\''s $HOME `id` \"\u202e"}'"#),
            "{command}"
        );
        assert!(CALL.curl().contains(r"it'\''s $HOME"));
        assert!(!CALL.mcp_message().contains('\u{202e}'));
    }

    #[test]
    fn python_reads_the_body_back() {
        let text = CALL.python();
        let literal = text.split("data=").nth(1).unwrap().split(".encode()").next().unwrap();
        let body: String = serde_json::from_str(literal).unwrap();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["arguments"]["path"], "it's $HOME `id` \"\u{202e}");
    }
}
