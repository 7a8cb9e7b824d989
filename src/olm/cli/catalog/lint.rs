//! `cvo catalog lint`: faults and advice, each with its place.

use super::{LintArgs, Output};
use crate::cli::exit::Exit;
use crate::cli::output::print;
use crate::olm::bundle::finding::{Check, Finding, Weight};
use crate::olm::catalog::fault::Fault;
use crate::olm::cli::bundle::line;
use crate::olm::cli::input;
use crate::olm::lint::{Remark, lint};
use crate::olm::net::folder;
use std::collections::HashMap;
use std::path::Path;

pub(super) async fn run(args: &LintArgs) -> anyhow::Result<Exit> {
    let given = input::catalog(&args.catalog, &args.source).await?;
    let findings = findings(&given.folder, args.all)?;
    match args.output {
        Output::Json => print(&format!("{:#}\n", serde_json::json!({"schema": 1, "findings": findings})))?,
        Output::Text if findings.is_empty() => print("nothing found\n")?,
        Output::Text => print(&findings.iter().map(line).collect::<String>())?,
    }
    let counts = |finding: &Finding| args.strict || finding.weight == Weight::Error;
    Ok(if findings.iter().any(counts) { Exit::Found } else { Exit::Success })
}

/// Errors first, then by file and line.
fn findings(dir: &Path, all: bool) -> anyhow::Result<Vec<Finding>> {
    let catalog = super::read(dir)?;
    let fault = |fault: &Fault| {
        Finding::error(Check::Catalog, (&fault.file, fault.line), &fault.blob, fault.reason.to_string())
    };
    let mut findings: Vec<Finding> = catalog.faults.iter().map(fault).collect();
    let remarks = lint(&catalog.index, all);
    let places = places(dir, &remarks);
    findings.extend(remarks.into_iter().map(|remark| {
        let place = places.get(&key(remark.schema, &remark.package, &remark.name));
        let (file, line) = place.map_or(("", 0), |(file, line)| (file.as_str(), *line));
        remark.at((file, line))
    }));
    findings.sort();
    Ok(findings)
}

fn key(schema: &str, package: &str, name: &str) -> String {
    format!("{schema}\n{package}\n{name}")
}

/// Where the blobs are of which something is said: an index does not know. If they cannot be read, that is a fault which is told.
fn places(dir: &Path, remarks: &[Remark]) -> HashMap<String, (String, usize)> {
    let wanted = remarks.iter().map(|remark| key(remark.schema, &remark.package, &remark.name));
    let mut places: HashMap<String, (String, usize)> = wanted.map(|key| (key, Default::default())).collect();
    if !places.is_empty() {
        let _fault = folder::each_blob(dir, &mut |place, blob| {
            if let Some(found) = places.get_mut(&key(blob.schema, blob.package, blob.name)) {
                *found = (place.file.to_string(), place.line);
            }
        });
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::tests::{catalog, exit};
    use super::*;

    #[test]
    fn faults_are_errors_and_advice_is_a_warning_with_the_place_of_its_blob() {
        let dir = catalog();
        let found: Vec<String> = findings(dir.path(), false).unwrap().iter().map(line).collect();
        assert_eq!(
            found,
            [
                "error: all.json:6: olm.package b: it has no channels (Catalog)\n",
                "warning: all.json:4: olm.bundle a.v2: its image r/a is named by a tag, which may be moved, and which mirrors of \
                 digests do not find: name it by its digest (Image)\n",
            ]
        );
        assert_eq!(findings(dir.path(), true).unwrap().len(), 3);
        for output in ["text", "json"] {
            assert_eq!(exit(dir.path(), &["lint", "-o", output]).unwrap(), Exit::Found);
        }
        let text = std::fs::read_to_string(dir.path().join("all.json")).unwrap();
        let healthy: String = text.lines().take(5).map(|line| format!("{line}\n")).collect();
        std::fs::write(dir.path().join("all.json"), healthy).unwrap();
        assert_eq!(exit(dir.path(), &["lint"]).unwrap(), Exit::Success);
        assert_eq!(exit(dir.path(), &["lint", "--strict"]).unwrap(), Exit::Found);
    }
}
