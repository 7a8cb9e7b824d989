//! Which image of an index is read.

/// What is looked for. Architectures are named as Go names them: `amd64`, `arm64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform<'a> {
    /// The image for Linux on this architecture, and no other: it is to run there.
    Only(&'a str),
    /// Its files are read, so that any image will do: that for Linux on this architecture, else on amd64, else the first one.
    Preferred(&'a str),
}

impl Platform<'_> {
    /// The position of the image among those of the index, of which operating system and architecture are given.
    pub(crate) fn choose<'a>(self, images: impl Iterator<Item = Option<(&'a str, &'a str)>>) -> Option<usize> {
        let images: Vec<_> = images.collect();
        let linux = |architecture: &str| images.iter().position(|image| *image == Some(("linux", architecture)));
        match self {
            Platform::Only(architecture) => linux(architecture),
            // What builders say of an image stands in the index as an image for an unknown platform.
            Platform::Preferred(own) => linux(own)
                .or_else(|| linux("amd64"))
                .or_else(|| images.iter().position(|image| image.is_none_or(|(os, _)| os != "unknown")))
                .or_else(|| (!images.is_empty()).then_some(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Platform::{self, Only, Preferred};

    #[test]
    fn own_platform_comes_before_amd64_and_that_before_the_first() {
        for (platform, images, expected) in [
            (Only("arm64"), "linux/amd64 linux/arm64", Some(1)),
            (Only("arm64"), "linux/amd64 windows/arm64", None),
            (Preferred("arm64"), "linux/amd64 linux/arm64", Some(1)),
            (Preferred("arm64"), "linux/s390x linux/amd64", Some(1)),
            (Preferred("arm64"), "windows/amd64 linux/s390x", Some(0)),
            (Preferred("arm64"), "unknown/unknown linux/s390x", Some(1)),
            (Preferred("arm64"), "- linux/s390x", Some(0)),
            (Preferred("arm64"), "unknown/unknown", Some(0)),
            (Preferred("arm64"), "", None),
        ] {
            let found = Platform::choose(platform, images.split_whitespace().map(|image| image.split_once('/')));
            assert_eq!(found, expected, "{platform:?} {images}");
        }
    }
}
