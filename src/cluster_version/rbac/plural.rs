//! Names of resources.

/// Kinds whose resource is not named by the rule.
const IRREGULAR: [(&str, &str); 2] =
    [("Endpoints", "endpoints"), ("SecurityContextConstraints", "securitycontextconstraints")];

/// The plural of a kind that no manifest defines, as Kubernetes names resources.
pub(super) fn of(kind: &str) -> String {
    if let Some((_, plural)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == kind) {
        return (*plural).to_owned();
    }
    let word = kind.to_lowercase();
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) {
        return format!("{word}es");
    }
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}
