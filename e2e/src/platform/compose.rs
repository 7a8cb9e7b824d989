//! Merges the folders of a sample release into one folder for `cvo release new --from-dir`.

use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;

/// The key that the next release must be signed with, and where its signatures are.
#[derive(Clone, Copy, Debug)]
pub struct Verification<'a> {
    /// Armored OpenPGP key.
    pub public_key: &'a str,
    /// `http`, `https` or `file` URL.
    pub store: &'a str,
}

/// Copies `folders` of `releases` into `into`, which must not exist yet, later ones over earlier ones; then the verification
/// ConfigMap with its placeholders filled in.
pub fn compose(
    releases: &Path,
    folders: &[&str],
    verification: Option<Verification<'_>>,
    into: &Path,
) -> anyhow::Result<()> {
    ensure!(!into.exists(), "{} exists already; name a folder that does not", into.display());
    for folder in folders {
        copy(&releases.join(folder), into, &|text| text)?;
    }
    if let Some(Verification { public_key, store }) = verification {
        // A JSON string is a YAML scalar, line breaks included.
        let (key, store) = (serde_json::to_string(public_key)?, serde_json::to_string(store)?);
        let fill = |text: String| text.replace("@PUBLIC_KEY@", &key).replace("@STORE@", &store);
        copy(&releases.join("verification"), into, &fill)?;
    }
    Ok(())
}

fn copy(from: &Path, into: &Path, change: &dyn Fn(String) -> String) -> anyhow::Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read the folder {}", from.display()))? {
        let from = entry?.path();
        let into = into.join(from.file_name().unwrap_or_default());
        if from.is_dir() {
            copy(&from, &into, change)?;
        } else {
            let text = fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
            fs::write(&into, change(text)).with_context(|| format!("cannot write {}", into.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_folders_take_precedence_and_the_key_survives_yaml() {
        let releases = crate::workspace::root().join("e2e/releases");
        let into = std::env::temp_dir().join(format!("cvo-compose-{}", std::process::id()));
        let public_key = "-----BEGIN-----\n\nab: c\n-----END-----\n";
        let verification = Some(Verification { public_key, store: "http://127.0.0.1:1/s" });
        compose(&releases, &["base", "1.1.0"], verification, &into).unwrap();
        let read = |path: &str| fs::read_to_string(into.join(path)).unwrap();
        assert!(read("network/0000_20_network_10_settings.yaml").contains("1500"));
        assert!(read("storage/image-references").contains("sample.invalid/lab"));
        let map: serde_json::Value =
            serde_yaml::from_str(&read("config-api/0000_10_config-api_03_release-verification.yaml")).unwrap();
        assert_eq!(map["data"]["verifier-public-key-sample"], public_key);
        assert_eq!(map["data"]["store-sample"], "http://127.0.0.1:1/s");
        assert!(compose(&releases, &["base"], None, &into).is_err(), "never over something else");
        fs::remove_dir_all(into).unwrap();
    }
}
