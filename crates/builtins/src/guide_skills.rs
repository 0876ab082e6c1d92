//! Toolkeep's own guides as skills of MCP (SEP-2640), which the built-in source offers.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tool::{
    BoxFuture, CallContext, CatalogItem, Digest, ErrorCode, ExecuteError, ExecutionState, Executor,
    Json, Offer, Outcome, OutcomeBody, RecordedCall, SideEffects, Skill, SkillFile, Tool, ToolName,
    ToolTraits,
};

/// Name of the extension of MCP for skills.
const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// Name under which the catalog has the method `resources/read`.
const READ_METHOD: &str = "mcp.resources.read";

/// A guide for agents: one skill with one file.
#[derive(Debug, Clone, Copy)]
pub struct Guide {
    /// Name of the skill: lower-case letters and hyphens.
    pub name: &'static str,
    /// When an agent should read it, in one line without quotation marks.
    pub description: &'static str,
    /// Text of the guide, in Markdown.
    pub text: &'static str,
}

impl Guide {
    fn uri(&self) -> String {
        format!("skill://toolkeep/{}/SKILL.md", self.name)
    }

    /// Returns the content of its file: the front matter that the format demands, and the text.
    fn content(&self) -> String {
        format!(
            "---\nname: {}\ndescription: \"{}\"\n---\n\n{}",
            self.name, self.description, self.text
        )
    }

    fn skill(&self) -> Skill {
        let content = self.content();
        let digest = Digest(Sha256::digest(content.as_bytes()).into());
        let (uri, size) = (self.uri(), u64::try_from(content.len()).unwrap_or(u64::MAX));
        let entry = json!({
            "uri": uri,
            "frontmatter": {"name": self.name, "description": self.description},
            "resources": [{"uri": uri, "digest": digest.to_string(), "size": size}],
        });
        let files = Some(vec![SkillFile { uri: uri.clone(), digest, size }]);
        Skill { uri, files, raw_definition: Json::encode(&entry) }
    }
}

/// Returns the offers of guides: a skill for each, and the method that reads their files.
pub(crate) fn guide_offers(guides: &[Guide]) -> Vec<Offer> {
    let Some(method) = describe_read() else { return Vec::new() };
    let reader: Arc<dyn Executor> = Arc::new(GuideReader(guides.to_vec()));
    let items = guides.iter().map(|guide| CatalogItem::Skill(guide.skill()));
    let items = items.chain(std::iter::once(CatalogItem::Method(Arc::new(method))));
    items.map(|item| Offer { item, executor: Arc::clone(&reader) }).collect()
}

/// Returns what a source with guides says of itself.
pub(crate) fn guide_capabilities() -> Json {
    Json::encode(&json!({"capabilities": {"resources": {}, "extensions": {SKILLS_EXTENSION: {}}}}))
}

fn describe_read() -> Option<Tool> {
    let (input, description) = (json!({"type": "object"}), "Reads a guide of Toolkeep.");
    let received = json!({"name": READ_METHOD, "description": description, "inputSchema": input});
    let name = ToolName::new(READ_METHOD).ok()?;
    let traits = ToolTraits {
        effects: SideEffects::read_only(),
        is_idempotent: true,
        ..ToolTraits::default()
    };
    let raw_definition = Json::encode(&received);
    Some(Tool { traits, raw_definition, ..Tool::new(name, description, Json::encode(&input)) })
}

/// Answers `resources/read` with the file of a guide.
#[derive(Debug)]
struct GuideReader(Vec<Guide>);

impl GuideReader {
    fn read_guide(&self, params: &Value) -> Result<Json, ExecuteError> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        let guide = self.0.iter().find(|guide| guide.uri() == uri).ok_or_else(|| {
            let message = "no guide has this URI; `skills/list` has them";
            ExecuteError::not_sent(ErrorCode::NotFound, message)
        })?;
        let content = json!({"uri": uri, "mimeType": "text/markdown", "text": guide.content()});
        Ok(Json::encode(&json!({"contents": [content]})))
    }
}

impl Executor for GuideReader {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _context: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let read = self.read_guide(call.call().arguments.as_value());
        let outcome = read.map(|json| Outcome { body: OutcomeBody::Mcp(json), is_error: false });
        Box::pin(std::future::ready(outcome.map(ExecutionState::Completed)))
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};
    use tool::{CatalogItem, Digest, Json};

    use super::{Guide, GuideReader, guide_offers};

    const GUIDES: [Guide; 2] = [
        Guide { name: "one", description: "First.", text: "# One\n" },
        Guide { name: "two", description: "Second.", text: "# Two\n" },
    ];

    #[test]
    fn a_file_has_the_size_and_the_digest_of_its_entry() {
        let offers = guide_offers(&GUIDES);
        let skills = offers.iter().filter_map(|offer| match &offer.item {
            CatalogItem::Skill(skill) => Some(skill),
            _ => None,
        });
        let skills: Vec<_> = skills.collect();
        assert_eq!((skills.len(), offers.len()), (2, 3), "and the method that reads them");
        let reader = GuideReader(GUIDES.to_vec());
        for skill in skills {
            let read = reader.read_guide(&serde_json::json!({"uri": skill.uri})).unwrap();
            let text: String =
                read.get("contents").unwrap().elements()[0].get("text").unwrap().decode().unwrap();
            let file = &skill.files.as_ref().unwrap()[0];
            assert_eq!(file.digest, Digest(Sha256::digest(text.as_bytes()).into()));
            assert_eq!(file.size, u64::try_from(text.len()).unwrap());
            assert!(text.starts_with("---\nname: ") && text.ends_with('\n'), "{text}");
            let entry: Json = skill.raw_definition.get("resources").unwrap().elements()[0].clone();
            assert_eq!(
                entry.get("digest").unwrap().decode::<String>().unwrap(),
                file.digest.to_string()
            );
        }
        let unknown = reader.read_guide(&serde_json::json!({"uri": "skill://toolkeep/x/SKILL.md"}));
        assert!(unknown.is_err());
    }
}
