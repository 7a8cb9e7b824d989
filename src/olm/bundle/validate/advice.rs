//! Dependencies and properties: ranges that are none, and what authors of catalogs are advised to avoid.

use super::super::Bundle;
use super::super::finding::{Check, Finding};
use super::super::properties::Written;
use super::constraint;
use crate::olm::names::property::{CONSTRAINT, GVK_REQUIRED, MAX_CLUSTER_VERSION, PACKAGE, PACKAGE_REQUIRED};
use crate::olm::version_range::VersionRange;
use serde_json::Value;

pub(super) fn check(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Vec::new();
    for it in bundle.dependencies.iter().chain(&bundle.properties) {
        match it.property.kind.as_str() {
            PACKAGE_REQUIRED => findings.extend(package(it)),
            CONSTRAINT => {
                let verdict = constraint::judge(&it.property.value);
                findings.extend(verdict.errors.into_iter().map(|message| error(it, Check::Dependency, message)));
                findings.extend(verdict.warnings.into_iter().map(|message| warning(it, message)));
            }
            _ => {}
        }
    }
    findings.extend(together(bundle));
    findings.extend(identity(bundle));
    findings.extend(maximum(bundle));
    findings
}

fn error(it: &Written, check: Check, message: String) -> Finding {
    Finding::error(check, (&it.file, it.line), &it.place, message)
}

fn warning(it: &Written, message: String) -> Finding {
    Finding::warning(Check::Advice, (&it.file, it.line), &it.place, message)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn package(it: &Written) -> Option<Finding> {
    let value = &it.property.value;
    let (name, range) = (text(value, "packageName"), text(value, "versionRange"));
    if let Err(cause) = VersionRange::parse(range) {
        return Some(error(it, Check::Dependency, format!("{range:?} is no range of versions: {cause}")));
    }
    let maximum = maximum_of(range)?;
    let message = format!(
        "{range:?} ends with {maximum}, so that later versions of {name} cannot be installed beside this operator: end no \
         sooner than with the next major version, and exclude single versions that are known to be bad with !"
    );
    Some(warning(it, message))
}

/// The term of a range that ends it within a major version. `<2.0.0` is as close as a maximum should be.
fn maximum_of(range: &str) -> Option<&str> {
    let range = range.trim();
    let terms = range.split(' ').filter(|term| !term.is_empty() && *term != "||");
    let mut operator = "";
    for term in terms {
        if term.bytes().all(|byte| b"=!<>".contains(&byte)) {
            operator = term;
            continue;
        }
        let version = term.trim_start_matches(['=', '!', '<', '>']);
        let own = term.get(..term.len() - version.len()).unwrap_or_default();
        let ends = match if own.is_empty() { std::mem::take(&mut operator) } else { own } {
            "" | "=" | "==" => {
                !version.ends_with(".x") || version.matches('.').count() > 1 && !version.ends_with(".x.x")
            }
            "<" => !version.ends_with(".0.0"),
            "<=" => true,
            _ => false,
        };
        if ends {
            return Some(term);
        }
    }
    None
}

/// Several dependencies that one operator is probably meant to meet. Each may be met by another one.
fn together(bundle: &Bundle) -> Option<Finding> {
    let has = |kind: &str| bundle.dependencies.iter().any(|it| it.property.kind == kind);
    let first = bundle.dependencies.iter().find(|it| it.property.kind == PACKAGE_REQUIRED)?;
    let message = if has(GVK_REQUIRED) {
        "a package and an API are two dependencies, which two different operators may meet: if one is meant to meet both, write \
         one olm.constraint with all"
    } else if !has(CONSTRAINT) {
        "only packages are named: depend on the API by olm.gvk, so that any operator with it will do, and on a package only where \
         a version is needed"
    } else {
        return None;
    };
    Some(warning(first, message.to_owned()))
}

/// A package and version that the author writes besides those of the annotations and the ClusterServiceVersion.
fn identity(bundle: &Bundle) -> Vec<Finding> {
    let (package, version) = (bundle.annotations.package(), bundle.csv.spec.version.as_str());
    let mut findings = Vec::new();
    for (number, it) in bundle.properties.iter().filter(|it| it.property.kind == PACKAGE).enumerate() {
        let value = &it.property.value;
        let (given, its) = (text(value, "packageName"), text(value, "version"));
        if number > 0 {
            findings.push(error(
                it,
                Check::Property,
                format!("a bundle is of one package, and {PACKAGE} is there twice: keep none"),
            ));
        }
        if (given, its) != (package, version) {
            let message = format!(
                "it says {given:?} in version {its:?}, but annotations and ClusterServiceVersion say {package:?} in {version:?}: \
                 remove the property"
            );
            findings.push(error(it, Check::Property, message));
        }
    }
    findings
}

/// The last version of the cluster that the operator can run on: one text `MAJOR.MINOR`.
fn maximum(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, it) in bundle.properties.iter().filter(|it| it.property.kind == MAX_CLUSTER_VERSION).enumerate() {
        if number > 0 {
            let message = "it is there twice, which blocks every update of the cluster: keep one".to_owned();
            findings.push(error(it, Check::Property, message));
        }
        let value = &it.property.value;
        let version = value.as_str().unwrap_or_default();
        let numbers = version.trim_start_matches('v').split('+').next().unwrap_or_default();
        let mut parts = numbers.split('.').map(str::parse::<u64>);
        let valid = matches!(
            (parts.next(), parts.next(), parts.next(), parts.next()),
            (Some(Ok(_)), Some(Ok(_)), None | Some(Ok(0)), None)
        );
        if !valid {
            let message = format!(
                "{value} is no minor version of a cluster, which blocks every update of it: write a text such as \"4.9\""
            );
            findings.push(error(it, Check::Property, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maximum_within_a_major_version_is_found() {
        for (range, expected) in [
            (">=1.0.0", None),
            (">1.0.0 <2.0.0", None),
            ("> 1.0.0 !1.2.1", None),
            ("! 1.2.1", None),
            ("1.x", None),
            ("1.x.x", None),
            ("1.2.3", Some("1.2.3")),
            ("=1.2.3", Some("=1.2.3")),
            ("= 1.2.3", Some("1.2.3")),
            ("1.2.x", Some("1.2.x")),
            (">1.0.0 <1.5.0", Some("<1.5.0")),
            (">1.0.0 < 1.5.0", Some("1.5.0")),
            ("<=2.0.0", Some("<=2.0.0")),
            (">2.0.0 || <=1.0.0", Some("<=1.0.0")),
        ] {
            assert_eq!(maximum_of(range), expected, "{range}");
        }
    }
}
