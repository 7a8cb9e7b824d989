//! What the objects of a cluster say of images: mirrors, which registries are allowed, their authorities, and which images have to be
//! signed.

use super::mirrors::{By, Rule};
use super::policy::{Policy, Signed};
use serde_json::Value;
use std::collections::BTreeMap;

/// The kinds that say something of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Image,
    DigestMirrors,
    TagMirrors,
    ContentSources,
    ClusterPolicies,
    Policies,
}

impl Source {
    pub(crate) const ALL: [Source; 6] = [
        Source::Image,
        Source::DigestMirrors,
        Source::TagMirrors,
        Source::ContentSources,
        Source::ClusterPolicies,
        Source::Policies,
    ];

    /// Group, version, kind and plural.
    pub(crate) fn kind(self) -> (&'static str, &'static str, &'static str, &'static str) {
        const CONFIG: &str = "config.openshift.io";
        match self {
            Source::Image => (CONFIG, "v1", "Image", "images"),
            Source::DigestMirrors => (CONFIG, "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets"),
            Source::TagMirrors => (CONFIG, "v1", "ImageTagMirrorSet", "imagetagmirrorsets"),
            Source::ContentSources => {
                ("operator.openshift.io", "v1alpha1", "ImageContentSourcePolicy", "imagecontentsourcepolicies")
            }
            Source::ClusterPolicies => (CONFIG, "v1", "ClusterImagePolicy", "clusterimagepolicies"),
            Source::Policies => (CONFIG, "v1", "ImagePolicy", "imagepolicies"),
        }
    }

    pub(crate) fn is_namespaced(self) -> bool {
        self == Source::Policies
    }
}

/// What is said of images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Images {
    pub mirrors: Vec<Rule>,
    pub policy: Policy,
    /// The ConfigMap with authorities of registries, in the namespace `openshift-config`.
    pub trusted: Option<String>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let all = value.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

impl Images {
    /// Takes over what an object says. Of the kind Image only `cluster` counts.
    pub(crate) fn add(&mut self, source: Source, object: &Value) {
        let (_, _, kind, _) = source.kind();
        let origin = format!("{kind} {:?}", name(object));
        match source {
            Source::Image if name(object) == "cluster" => self.image(object, origin),
            Source::Image => {}
            Source::DigestMirrors => self.rules(object, "imageDigestMirrors", By::Digest, &origin),
            Source::TagMirrors => self.rules(object, "imageTagMirrors", By::Tag, &origin),
            Source::ContentSources => self.rules(object, "repositoryDigestMirrors", By::Digest, &origin),
            Source::ClusterPolicies | Source::Policies => {
                let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned);
                let scopes = texts(object.pointer("/spec/scopes")).into_iter();
                let signed = |scope| Signed { scope, namespace: namespace.clone(), origin: origin.clone() };
                self.policy.signed.extend(scopes.map(signed));
            }
        }
    }

    fn image(&mut self, object: &Value, origin: String) {
        let lists = object.pointer("/spec/registrySources");
        let list = |key: &str| texts(lists.and_then(|lists| lists.get(key)));
        self.policy.allowed = list("allowedRegistries");
        self.policy.blocked = list("blockedRegistries");
        self.policy.insecure = list("insecureRegistries");
        self.policy.origin = origin;
        let trusted = object.pointer("/spec/additionalTrustedCA/name").and_then(Value::as_str);
        self.trusted = trusted.filter(|name| !name.is_empty()).map(str::to_owned);
    }

    fn rules(&mut self, object: &Value, key: &str, by: By, origin: &str) {
        let rules = object.pointer(&format!("/spec/{key}")).and_then(Value::as_array);
        let rule = |rule: &Value| Rule {
            source: text(rule, "source").to_owned(),
            mirrors: texts(rule.get("mirrors")),
            by,
            contact_source: text(rule, "mirrorSourcePolicy") != "NeverContactSource",
            origin: origin.to_owned(),
        };
        self.mirrors.extend(rules.into_iter().flatten().map(rule));
    }
}

/// Authorities by registry: the keys of the ConfigMap are hosts, with `..` in place of the colon before a port.
pub(crate) fn authorities(data: &BTreeMap<String, String>) -> BTreeMap<String, Vec<u8>> {
    data.iter().map(|(host, pem)| (host.replace("..", ":"), pem.clone().into_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::mirrors::candidates;
    use super::super::reference::tests::image;
    use super::*;
    use serde_json::json;

    fn images(objects: &[(Source, Value)]) -> Images {
        let mut images = Images::default();
        objects.iter().for_each(|(source, object)| images.add(*source, object));
        images
    }

    /// Where an image is looked for.
    fn places(images: &Images, name: &str) -> String {
        match candidates(&image(name), &images.mirrors) {
            Ok(places) => places.iter().map(|place| place.image.to_string()).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn mirrors_of_all_three_kinds_count() {
        let of = |kind: Source, key: &str, policy: &str| {
            let rule = json!({"source": "a.example/b", "mirrors": ["m.example/b"], "mirrorSourcePolicy": policy});
            images(&[(kind, json!({"metadata": {"name": "m"}, "spec": {key: [rule]}}))])
        };
        let digest = "a.example/b/c@sha256:12";
        for (kind, key) in
            [(Source::DigestMirrors, "imageDigestMirrors"), (Source::ContentSources, "repositoryDigestMirrors")]
        {
            let images = of(kind, key, "AllowContactingSource");
            assert_eq!(places(&images, digest), "m.example/b/c@sha256:12 a.example/b/c@sha256:12");
            assert_eq!(places(&images, "a.example/b/c:1"), "a.example/b/c:1");
        }
        let images = of(Source::TagMirrors, "imageTagMirrors", "NeverContactSource");
        assert_eq!(places(&images, "a.example/b/c:1"), "m.example/b/c:1");
        let error = places(&images, digest);
        assert!(error.contains("ImageTagMirrorSet \"m\"") && error.contains("NeverContactSource"), "{error}");
    }

    #[test]
    fn lists_of_registries_are_those_of_the_object_cluster() {
        let object = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {
                "registrySources": {"allowedRegistries": ["a.example"], "insecureRegistries": ["b.example"]},
                "additionalTrustedCA": {"name": "authorities"},
            }})
        };
        let images = images(&[(Source::Image, object("cluster")), (Source::Image, json!({"metadata": {"name": "x"}}))]);
        assert_eq!(images.trusted.as_deref(), Some("authorities"));
        assert!(images.policy.check_name(&image("a.example/b:1")).is_ok());
        let error = images.policy.check_name(&image("c.example/b:1")).unwrap_err().to_string();
        assert!(error.contains("Image \"cluster\""), "{error}");
        assert!(images.policy.is_insecure(&image("b.example/b:1")));
    }

    #[test]
    fn image_that_has_to_be_signed_is_refused() {
        let object = json!({"metadata": {"name": "p"}, "spec": {"scopes": ["a.example/b"]}});
        let mut of_namespace = object.clone();
        of_namespace["metadata"]["namespace"] = "shop".into();
        let all = images(&[(Source::ClusterPolicies, object)]);
        let error = all.policy.check_name(&image("a.example/b/c:1")).unwrap_err().to_string();
        assert!(error.contains("ClusterImagePolicy \"p\"") && error.contains("a.example/b/c:1"), "{error}");
        assert!(all.policy.check_name(&image("a.example/c:1")).is_ok());
        let one = images(&[(Source::Policies, of_namespace)]);
        assert!(one.policy.clone().of_namespace("shop").check_name(&image("a.example/b/c:1")).is_err());
        assert!(one.policy.of_namespace("other").check_name(&image("a.example/b/c:1")).is_ok());
    }

    #[test]
    fn authorities_are_those_of_hosts_with_their_ports() {
        let data = BTreeMap::from([("a.example..5000".to_owned(), "pem".to_owned())]);
        assert_eq!(authorities(&data), BTreeMap::from([("a.example:5000".to_owned(), b"pem".to_vec())]));
    }
}
