//! Parts of the world of registries, as the image configuration of a cluster names them: `host[:port]`, `host[:port]/path`, an
//! image in it, or `*.domain` for every host below a domain.

use super::reference::Reference;

/// How much of `registry/repository` the scope covers, in bytes; `None` if the image is not in it. A host without a port is not
/// the same host with one.
pub(crate) fn matched(scope: &str, image: &Reference) -> Option<usize> {
    if let Some(domain) = scope.strip_prefix('*').filter(|domain| domain.starts_with('.')) {
        let host = host(&image.registry);
        return (host.len() > domain.len() && host.ends_with(domain)).then_some(image.registry.len());
    }
    let scope = scope.trim_end_matches('/');
    if scope.is_empty() {
        return None;
    }
    let whole = image.to_string();
    let rest = whole.strip_prefix(scope)?;
    // After a host a colon begins a port, after a path a tag.
    let ends = rest.is_empty() || rest.starts_with(['/', '@']) || rest.starts_with(':') && scope.contains('/');
    ends.then_some(scope.len().min(image.name().len()))
}

/// The same for what is to be kept away: a host without a port stands for all of its ports.
pub(crate) fn forbids(scope: &str, image: &Reference) -> bool {
    let any_port = || !scope.contains([':', '/']) && host(&image.registry) == scope;
    matched(scope, image).is_some() || any_port()
}

/// Without the port.
fn host(registry: &str) -> &str {
    let port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    registry.rsplit_once(':').filter(|(_, text)| port(text)).map_or(registry, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::super::reference::tests::image;
    use super::*;

    #[test]
    fn scope_covers_whole_parts_of_a_name() {
        for (scope, name, expected) in [
            ("quay.io", "quay.io/org/app:1", Some(7)),
            ("quay.io/", "quay.io/org/app:1", Some(7)),
            ("quay.io/org", "quay.io/org/app:1", Some(11)),
            ("quay.io/org/app", "quay.io/org/app:1", Some(15)),
            ("quay.io/org/app", "quay.io/org/app@sha256:1", Some(15)),
            ("quay.io/org/app:1", "quay.io/org/app:1", Some(15)),
            ("quay.io/org/app:1", "quay.io/org/app:11", None),
            ("quay.io/or", "quay.io/org/app:1", None),
            ("quay.i", "quay.io/org/app:1", None),
            ("quay.io", "quay.io:5000/org/app:1", None),
            ("quay.io:5000", "quay.io:5000/org/app", Some(12)),
            ("*.example.com", "a.example.com/app", Some(13)),
            ("*.example.com", "a.b.example.com:5000/app", Some(20)),
            ("*.example.com", "example.com/app", None),
            ("*.example.com", "aexample.com/app", None),
            ("*", "example.com/app", None),
            ("", "example.com/app", None),
        ] {
            assert_eq!(matched(scope, &image(name)), expected, "{scope} {name}");
        }
    }

    #[test]
    fn host_that_is_kept_away_is_so_at_every_port() {
        for (scope, name, expected) in [
            ("quay.io", "quay.io:5000/app", true),
            ("quay.io:443", "quay.io:5000/app", false),
            ("*.io", "quay.io:5000/app", true),
            ("quay.io", "other.io:5000/app", false),
        ] {
            assert_eq!(forbids(scope, &image(name)), expected, "{scope} {name}");
        }
    }
}
