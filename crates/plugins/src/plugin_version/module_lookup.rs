//! Lookup of the file of a dotted Python module name.

use crate::plugin_folder::FolderContent;

/// Finds the file of `module`, relative to the folder. Leading segments up to the folder name are
/// ignored: the research registry writes `src.tools.NAME` for the folder `NAME` itself. The result
/// is always inside of the folder.
pub(super) fn find_module_file(
    content: &FolderContent,
    module: &str,
    plugin: &str,
) -> Option<String> {
    let parts: Vec<&str> = module.split('.').collect();
    for from in 0..parts.len() {
        let path = parts.get(from..).unwrap_or_default().join("/");
        for file in [format!("{path}.py"), format!("{path}/__init__.py")] {
            if content.file_content(&file).is_some() {
                return Some(file);
            }
        }
    }
    let is_package_root =
        parts.last() == Some(&plugin) && content.file_content("__init__.py").is_some();
    is_package_root.then(|| "__init__.py".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_a_file_of_the_folder_s12() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for file in ["__init__.py", "canvas.py", "sub/__init__.py", "sub/deep.py"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let content = FolderContent::read_folder(folder.path()).unwrap();
        let file = |module: &str| find_module_file(&content, module, "canvas_tools");
        assert_eq!(file("canvas").unwrap(), "canvas.py");
        assert_eq!(file("src.tools.canvas_tools.canvas").unwrap(), "canvas.py");
        assert_eq!(file("src.tools.canvas_tools").unwrap(), "__init__.py");
        assert_eq!(file("sub.deep").unwrap(), "sub/deep.py");
        assert_eq!(file("sub").unwrap(), "sub/__init__.py");
        for none in ["os", "src.tools.other", "..canvas.x", ""] {
            assert_eq!(file(none), None, "{none}");
        }
    }
}
