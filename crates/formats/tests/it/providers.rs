//! One catalog, one document per provider: the list as it is sent, and all that was lost on the way.

use std::fmt::Write as _;
use std::path::Path;

use formats::{AliasMap, ProviderFormat, join_tools, render_tool};
use serde_json::Value;
use tool::{Json, Tool, ToolName, ToolTraits};

fn catalog() -> Vec<(String, Tool)> {
    let all: Vec<Value> = serde_json::from_str(include_str!("golden/catalog.json")).unwrap();
    let tool = |(index, received): (usize, Value)| {
        let name = received["name"].as_str().unwrap().to_owned();
        let tool = Tool {
            // Not all of the names are ones that a source may offer: the aliases take any.
            name: ToolName::new(format!("t{index}")).unwrap(),
            title: None,
            description: received["description"].as_str().unwrap().to_owned(),
            input_schema: Json::encode(&received["inputSchema"]),
            output_schema: None,
            traits: ToolTraits::default(),
            raw_definition: Json::empty_object(),
        };
        (name, tool)
    };
    all.into_iter().enumerate().map(tool).collect()
}

fn document(format: ProviderFormat) -> String {
    let all = catalog();
    let names = AliasMap::with_safe_aliases(all.iter().map(|(name, _)| name));
    let rendered: Vec<_> = all
        .iter()
        .map(|(name, tool)| (name, render_tool(format, tool, names.alias_of(name).unwrap())))
        .collect();
    let list = join_tools(format, rendered.iter().filter_map(|(_, tool)| tool.json.as_ref()));
    let mut text = serde_json::to_string_pretty(&list.to_value()).unwrap() + "\n";
    for (name, tool) in &rendered {
        for loss in &tool.losses {
            let (change, place, keyword) = (loss.change.as_str(), &loss.pointer, &loss.keyword);
            writeln!(text, "{name}: {change} {place} {keyword}: {}", loss.reason).unwrap();
        }
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether to write the documents anew")]
fn golden_catalog_at_every_provider() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
    for format in ProviderFormat::ALL {
        let file = folder.join(format!("catalog.{format}.txt"));
        let written = document(*format);
        if std::env::var("TOOLKEEP_BLESS").is_ok_and(|bless| bless == "1") {
            std::fs::write(&file, &written).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == written,
            "{} is stale; `cargo xtask generate` writes it anew",
            file.display()
        );
    }
}
