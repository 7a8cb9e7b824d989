//! Dependencies and properties: ranges that are none, and what authors of catalogs are advised to avoid.

use super::super::Bundle;
use super::super::finding::{Check, Finding, Weight};
use super::super::properties::Written;
use crate::olm::names::property::{
    CONSTRAINT, CONSTRAINT_SCOPE, GVK_REQUIRED, MAX_CLUSTER_VERSION, PACKAGE, PACKAGE_REQUIRED,
};
use crate::olm::resolve::constraint::Constraint;
use crate::olm::resolve::constraint::scope::Scope;
use crate::olm::version_range::VersionRange;
use serde_json::Value;

pub(super) fn check(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Vec::new();
    for it in bundle.dependencies.iter().chain(&bundle.properties) {
        let of = of_property(&it.property.kind, &it.property.value);
        findings.extend(of.into_iter().map(|judged| at(it, judged)));
    }
    findings.extend(first_of_several(bundle));
    findings.extend(identity(bundle));
    findings.extend(twice(bundle));
    findings
}

/// What is wrong, how much that counts, and what was looked for.
pub(crate) type Judged = (Weight, Check, String);

fn at(it: &Written, (weight, check, message): Judged) -> Finding {
    Finding { weight, ..Finding::error(check, (&it.file, it.line), &it.place, message) }
}

fn error(it: &Written, check: Check, message: String) -> Finding {
    at(it, (Weight::Error, check, message))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What is wrong with a property by itself, or what authors are advised to avoid in it.
pub(crate) fn of_property(kind: &str, value: &Value) -> Vec<Judged> {
    match kind {
        PACKAGE_REQUIRED => package(value).into_iter().collect(),
        CONSTRAINT => {
            let found = Constraint::judge(value);
            let errors = found.errors.into_iter().map(|message| (Weight::Error, Check::Dependency, message));
            let warnings = found.warnings.into_iter().map(|message| (Weight::Warning, Check::Advice, message));
            errors.chain(warnings).collect()
        }
        CONSTRAINT_SCOPE => {
            let error = Scope::parse(value).err();
            error.map(|message| (Weight::Error, Check::Property, message)).into_iter().collect()
        }
        MAX_CLUSTER_VERSION => maximum(value).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn package(value: &Value) -> Option<Judged> {
    let (name, range) = (text(value, "packageName"), text(value, "versionRange"));
    if let Err(cause) = VersionRange::parse(range) {
        let message = format!("{range:?} is no range of versions: {cause}");
        return Some((Weight::Error, Check::Dependency, message));
    }
    let maximum = maximum_of(range)?;
    let message = format!(
        "{range:?} ends with {maximum}, so that later versions of {name} cannot be installed beside this operator: end no \
         sooner than with the next major version, and exclude single versions that are known to be bad with !"
    );
    Some((Weight::Warning, Check::Advice, message))
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

/// Several dependencies that one operator is probably meant to meet. Each may be met by another one. `has`: whether there is a
/// dependency of this type.
pub(crate) fn together(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    if !has(PACKAGE_REQUIRED) {
        None
    } else if has(GVK_REQUIRED) {
        Some(
            "a package and an API are two dependencies, which two different operators may meet: if one is meant to meet both, write \
             one olm.constraint with all",
        )
    } else if !has(CONSTRAINT) {
        Some(
            "only packages are named: depend on the API by olm.gvk, so that any operator with it will do, and on a package only where \
             a version is needed",
        )
    } else {
        None
    }
}

fn first_of_several(bundle: &Bundle) -> Option<Finding> {
    let first = bundle.dependencies.iter().find(|it| it.property.kind == PACKAGE_REQUIRED)?;
    let message = together(|kind| bundle.dependencies.iter().any(|it| it.property.kind == kind))?;
    Some(at(first, (Weight::Warning, Check::Advice, message.to_owned())))
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
fn maximum(value: &Value) -> Option<Judged> {
    let version = value.as_str().unwrap_or_default();
    let numbers = version.trim_start_matches('v').split('+').next().unwrap_or_default();
    let mut parts = numbers.split('.').map(str::parse::<u64>);
    let valid = matches!(
        (parts.next(), parts.next(), parts.next(), parts.next()),
        (Some(Ok(_)), Some(Ok(_)), None | Some(Ok(0)), None)
    );
    let message = format!(
        "{value} is no minor version of a cluster, which blocks every update of it: write a text such as \"4.9\""
    );
    (!valid).then_some((Weight::Error, Check::Property, message))
}

fn twice(bundle: &Bundle) -> Vec<Finding> {
    let all = bundle.properties.iter().filter(|it| it.property.kind == MAX_CLUSTER_VERSION);
    let message = "it is there twice, which blocks every update of the cluster: keep one";
    all.skip(1).map(|it| error(it, Check::Property, message.to_owned())).collect()
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
