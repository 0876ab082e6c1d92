//! The one file that Debian's package lacks: the API's description in Go, which upstream makes at each
//! build. The program that makes it is in the package.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{PACKAGE, at, go, run};

/// What in a file asks to be described.
const MARK: &str = "+k8s:openapi-gen=";
/// Where such files are.
const PLACES: &[&str] = &[
    "vendor/k8s.io/api",
    "vendor/k8s.io/apimachinery",
    "vendor/k8s.io/apiserver",
    "vendor/k8s.io/apiextensions-apiserver",
    "vendor/k8s.io/kube-aggregator",
    "vendor/k8s.io/metrics",
    "vendor/k8s.io/component-base",
    "vendor/k8s.io/kubelet",
    "vendor/k8s.io/kube-proxy",
    "vendor/k8s.io/kube-scheduler",
    "vendor/k8s.io/kube-controller-manager",
    "vendor/k8s.io/cloud-provider",
    "vendor/k8s.io/controller-manager",
    "vendor/k8s.io/client-go",
    "pkg/apis",
];
/// Folders in folders.
const DEPTH: usize = 12;

pub(super) fn write(source: &Path, scratch: &Path) -> Result<(), String> {
    let program = scratch.join("openapi-gen");
    let mut compile = go(scratch, source);
    compile.args(["build", "-o"]).arg(&program);
    compile.arg("./vendor/k8s.io/kube-openapi/cmd/openapi-gen");
    run("compiling what describes its API", &mut compile)?;
    let mut marked = BTreeSet::new();
    for place in PLACES {
        walk(source, place, DEPTH, &mut marked)?;
    }
    if marked.is_empty() {
        return Err("nothing in its source asks to be described".to_owned());
    }
    let packages: Vec<String> = marked.iter().map(|place| format!("{PACKAGE}/{place}")).collect();
    // It asks Go where packages are, in the same way as the compiler is told.
    let like = go(scratch, source);
    let mut describe = Command::new(program);
    describe.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    describe.current_dir(source).args(["-i", &packages.join(",")]);
    describe.args(["-p", &format!("{PACKAGE}/pkg/generated/openapi")]);
    describe.args([
        "-O",
        "zz_generated.openapi",
        "-h",
        "hack/boilerplate/boilerplate.generatego.txt",
    ]);
    describe.arg("-r").arg(scratch.join("violations"));
    describe.arg("--output-base").arg(scratch.join("gopath/src"));
    run("describing its API", &mut describe)?;
    Ok(())
}

/// Folders beneath `place` with a file that asks. Some of them are links within the package.
fn walk(
    source: &Path,
    place: &str,
    depth: usize,
    marked: &mut BTreeSet<String>,
) -> Result<(), String> {
    let folder = source.join(place);
    let Ok(listed) = fs::read_dir(&folder) else { return Ok(()) };
    for entry in listed.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        if path.is_dir() {
            if name != "testdata" && depth > 0 {
                walk(source, &format!("{place}/{name}"), depth - 1, marked)?;
            }
        } else if path.extension().is_some_and(|it| it == "go")
            && !name.ends_with("_test.go")
            && !name.starts_with("zz_generated")
            && !marked.contains(place)
        {
            let text = fs::read(&path).map_err(|e| at(&path, &e))?;
            if asks(&String::from_utf8_lossy(&text)) {
                marked.insert(place.to_owned());
            }
        }
    }
    Ok(())
}

fn asks(text: &str) -> bool {
    let asks = |line: &str| {
        line.strip_prefix("//")
            .is_some_and(|rest| rest.strip_prefix(' ').unwrap_or(rest).starts_with(MARK))
    };
    text.lines().any(asks)
}

#[cfg(test)]
mod tests {
    use super::asks;

    #[test]
    fn a_file_asks_by_a_comment_at_the_start_of_a_line() {
        assert!(asks("package a\n// +k8s:openapi-gen=true\n") && asks("//+k8s:openapi-gen=true"));
        assert!(!asks("x // +k8s:openapi-gen=true") && !asks("// see +k8s:openapi-gen=true"));
    }
}
