//! Which registries images may come from, and which of them need not prove who they are: `registrySources` of the cluster's image
//! configuration.

use super::reference::Reference;
use super::scope;

/// The rules. The default allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// If there are any: no image comes from elsewhere. Like all of these lists it has scopes (see [`scope`]).
    pub allowed: Vec<String>,
    pub blocked: Vec<String>,
    /// Their certificate is not checked, and they may speak plain HTTP.
    pub insecure: Vec<String>,
    /// The object that says so, for people.
    pub origin: String,
    /// Images that have to be signed. Nodes verify that, and nobody does here.
    pub signed: Vec<Signed>,
}

/// Images of a scope have to be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub scope: String,
    /// `None`: in all namespaces.
    pub namespace: Option<String>,
    /// The object that says so, for people.
    pub origin: String,
}

/// An image may not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error(
        "image {image}: {origin} blocks its registry (registrySources.blockedRegistries has {entry:?}): take the entry out, or use \
         an image from elsewhere"
    )]
    Blocked { image: String, entry: String, origin: String },
    #[error(
        "image {image}: {origin} does not allow its registry (no entry of registrySources.allowedRegistries is about it): add it \
         there, or use an image from elsewhere"
    )]
    NotAllowed { image: String, origin: String },
    #[error(
        "image {image}: {origin} demands that it is signed (scope {scope:?}), which only nodes verify: take the scope out, or use \
         an image from elsewhere"
    )]
    Signed { image: String, scope: String, origin: String },
}

impl Policy {
    /// What counts in a namespace.
    pub(crate) fn of_namespace(mut self, namespace: &str) -> Policy {
        self.signed.retain(|signed| signed.namespace.as_deref().is_none_or(|known| known == namespace));
        self
    }

    /// Whether the image may be read at all. `image` as it is named, not a mirror of it: nodes judge the name.
    pub(crate) fn check_name(&self, image: &Reference) -> Result<(), PolicyError> {
        if let Some(signed) = self.signed.iter().find(|signed| scope::matched(&signed.scope, image).is_some()) {
            let (image, scope, origin) = (image.to_string(), signed.scope.clone(), signed.origin.clone());
            return Err(PolicyError::Signed { image, scope, origin });
        }
        if self.allowed.is_empty() || self.allowed.iter().any(|entry| scope::matched(entry, image).is_some()) {
            return Ok(());
        }
        Err(PolicyError::NotAllowed { image: image.to_string(), origin: self.origin.clone() })
    }

    /// Whether the image may be asked for at this place, be it a mirror or the source.
    pub(crate) fn check_place(&self, image: &Reference) -> Result<(), PolicyError> {
        match self.blocked.iter().find(|entry| scope::forbids(entry, image)) {
            None => Ok(()),
            Some(entry) => {
                let (image, entry, origin) = (image.to_string(), entry.clone(), self.origin.clone());
                Err(PolicyError::Blocked { image, entry, origin })
            }
        }
    }

    pub(crate) fn is_insecure(&self, image: &Reference) -> bool {
        self.insecure.iter().any(|entry| scope::matched(entry, image).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::tests::image;
    use super::*;

    fn lists(allowed: &[&str], blocked: &[&str], insecure: &[&str]) -> Policy {
        let list = |entries: &[&str]| entries.iter().map(|entry| entry.to_string()).collect();
        let origin = "Image \"cluster\"".to_owned();
        let signed = Vec::new();
        Policy { allowed: list(allowed), blocked: list(blocked), insecure: list(insecure), origin, signed }
    }

    #[test]
    fn registries_are_blocked_and_allowed_by_scope() {
        for (allowed, blocked, name, expected) in [
            ("", "", "quay.io/a/b:1", "fine"),
            ("", "quay.io", "quay.io/a/b:1", "blocks its registry (registrySources.blockedRegistries has \"quay.io\")"),
            ("", "quay.io", "quay.io:8443/a/b:1", "blocks"),
            ("", "quay.io/bad", "quay.io/a/b:1", "fine"),
            ("", "*.io", "quay.io/a/b:1", "blocks"),
            ("quay.io", "", "quay.io/a/b:1", "fine"),
            ("quay.io", "", "quay.io:8443/a/b:1", "does not allow"),
            ("quay.io/a", "", "quay.io/a/b:1", "fine"),
            ("quay.io/a/b:1", "", "quay.io/a/b:2", "does not allow its registry"),
            ("*.example.com", "", "r.example.com/a:2", "fine"),
            ("quay.io", "quay.io/a", "quay.io/a/b:1", "blocks"),
        ] {
            let policy = lists(
                Some(allowed).filter(|entry| !entry.is_empty()).as_slice(),
                Some(blocked).filter(|entry| !entry.is_empty()).as_slice(),
                &[],
            );
            let image = image(name);
            let verdict = policy.check_name(&image).and_then(|()| policy.check_place(&image));
            let text = verdict.map_or_else(|error| error.to_string(), |()| "fine".to_owned());
            assert!(text.contains(expected), "{allowed:?} {blocked:?} {name}: {text}");
            assert!(text == "fine" || text.contains("Image \"cluster\"") && text.contains(name), "{text}");
        }
    }

    #[test]
    fn insecure_registry_is_one_at_its_port() {
        let policy = lists(&[], &[], &["r.example.com:5000", "*.local", "quay.io/lab"]);
        for (name, expected) in [
            ("r.example.com:5000/a:1", true),
            ("r.example.com/a:1", false),
            ("registry.local:8080/a:1", true),
            ("quay.io/lab/a:1", true),
            ("quay.io/a:1", false),
        ] {
            assert_eq!(policy.is_insecure(&image(name)), expected, "{name}");
        }
    }
}
