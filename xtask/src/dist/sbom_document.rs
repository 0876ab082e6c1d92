//! Software bill of materials in the form of CycloneDX 1.6, and the licence texts beside it.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::dependency_graph::RegistryCrate;
use super::package_set::{PackageSet, hex_sha256};
use super::zip_archive::civil_date;

/// Name of the document.
pub(crate) const SBOM_FILE: &str = "toolkeep.cdx.json";

/// Name of the licence texts.
pub(crate) const LICENSE_FILE: &str = "THIRD-PARTY-LICENSES.txt";

/// Writes the document and the licence texts.
pub(crate) fn write_files(set: &PackageSet<'_>) -> Result<Vec<PathBuf>, String> {
    Ok(vec![
        set.write_package(SBOM_FILE, render_json(set)?.as_bytes())?,
        set.write_package(LICENSE_FILE, set.license_text.as_bytes())?,
    ])
}

/// Renders the document as JSON, with the crates sorted.
pub(crate) fn render_json(set: &PackageSet<'_>) -> Result<String, String> {
    let own_url = format!("pkg:cargo/toolkeep@{}", set.version);
    let graph = &set.dependencies;
    let components: Vec<Value> = graph.crates.iter().map(render_component).collect();
    let own_edge = json!({ "ref": own_url, "dependsOn": graph.direct });
    let edges = graph.edges.iter().map(|(from, to)| json!({ "ref": from, "dependsOn": to }));
    let dependencies: Vec<Value> = std::iter::once(own_edge).chain(edges).collect();
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial_number(&json!([own_url, components, dependencies])),
        "version": 1,
        "metadata": {
            "timestamp": iso_time(set.epoch_seconds),
            "component": {
                "type": "application", "bom-ref": own_url, "name": "toolkeep", "version": set.version,
                "purl": own_url, "licenses": [{ "license": { "id": "Apache-2.0" } }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    let text = serde_json::to_string_pretty(&document).map_err(|e| format!("the SBOM: {e}"))?;
    Ok(text + "\n")
}

fn render_component(found: &RegistryCrate) -> Value {
    let url = found.package_url();
    let mut component = json!({
        "type": "library", "bom-ref": url, "name": found.name, "version": found.version, "purl": url,
        "licenses": [{ "expression": found.license_expression() }],
    });
    if let (Some(fields), Some(checksum)) = (component.as_object_mut(), &found.checksum) {
        fields.insert("hashes".to_owned(), json!([{ "alg": "SHA-256", "content": checksum }]));
    }
    if let (Some(fields), Some(url)) = (component.as_object_mut(), &found.repository) {
        fields.insert("externalReferences".to_owned(), json!([{ "type": "vcs", "url": url }]));
    }
    component
}

/// Returns a UUID made from the content, so that equal documents have equal numbers.
fn serial_number(content: &Value) -> String {
    let digits = hex_sha256(content.to_string().as_bytes());
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    // Version 8 is for UUIDs made in an own way; variant 8 is the standard's.
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 15),
        part(15, 18),
        part(18, 30)
    )
}

fn iso_time(seconds: u64) -> String {
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{iso_time, serial_number};

    #[test]
    fn times_and_numbers_follow_from_the_content() {
        assert_eq!(iso_time(1_700_000_000), "2023-11-14T22:13:20Z");
        let number = serial_number(&json!(["a"]));
        assert_eq!(number, serial_number(&json!(["a"])));
        assert_ne!(number, serial_number(&json!(["b"])));
        assert_eq!(number.len(), "urn:uuid:".len() + 36, "{number}");
    }
}
