//! Names of images.

use std::fmt;

/// An image by registry, repository, and tag or digest, with nothing left out: `docker.io/library/x`, not `x`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// `host[:port]`.
    pub registry: String,
    /// The path in it.
    pub repository: String,
    pub tag: Option<String>,
    /// `sha256:…`. It says which image is meant even if there is a tag as well.
    pub digest: Option<String>,
}

impl Reference {
    /// Without tag and digest.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The digest, else the tag, else `latest`.
    pub(crate) fn version(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest")
    }

    /// The same version of the repository `registry/path`; `None` if that is not one.
    pub(crate) fn at(&self, name: &str) -> Option<Reference> {
        let (registry, repository) =
            name.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())?;
        Some(Reference { registry: registry.to_owned(), repository: repository.to_owned(), ..self.clone() })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        self.tag.iter().try_for_each(|tag| write!(f, ":{tag}"))?;
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Reference;

    /// Parses `host/path[:tag][@digest]`.
    pub(crate) fn image(text: &str) -> Reference {
        let (rest, digest) =
            text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest.to_owned())));
        let tagged = rest.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let (name, tag) = tagged.map_or((rest, None), |(name, tag)| (name, Some(tag.to_owned())));
        let empty = Reference { registry: String::new(), repository: String::new(), tag, digest };
        empty.at(name).unwrap()
    }

    #[test]
    fn reference_is_printed_as_it_is_written() {
        for (text, name, version) in [
            ("a.example/b/c:1", "a.example/b/c", "1"),
            ("a.example:5000/b", "a.example:5000/b", "latest"),
            ("a.example:5000/b:1@sha256:12", "a.example:5000/b", "sha256:12"),
        ] {
            let image = image(text);
            assert_eq!((image.to_string().as_str(), image.name().as_str(), image.version()), (text, name, version));
        }
        assert_eq!(image("a.example/b:1").at("other.example/d/e").unwrap(), image("other.example/d/e:1"));
        assert!(image("a.example/b:1").at("other.example").is_none());
    }
}
