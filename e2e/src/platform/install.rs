//! The daemon installed as the README describes, and updates requested.

use std::ffi::OsString;

use anyhow::bail;
use serde_json::{Value, json};

use super::{CHANNEL, Platform, Release};

impl Platform {
    /// `cvo release extract`, `cvo render`, and the three kubectl commands that render recommends.
    pub async fn install(&self, release: &Release) -> anyhow::Result<()> {
        self.install_with(release, &[]).await
    }

    /// The same with more arguments of `cvo render`.
    pub async fn install_with(&self, release: &Release, more: &[&str]) -> anyhow::Result<()> {
        let (extracted, rendered) = (self.cluster.dir().join("extracted"), self.cluster.dir().join("rendered"));
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut extract = words(&["release", "extract", &release.image, "--to"]);
        extract.push(extracted.clone().into());
        self.cvo(extract).await?;
        let mut render = words(&["render", "--release-image", &release.image, "--channel", CHANNEL, "--upstream"]);
        render.extend([self.graph_url().into(), "--manifests-dir".into(), extracted.join("manifests").into()]);
        render.extend(["--output-dir".into(), rendered.clone().into()]);
        render.extend(words(more));
        self.cvo(render).await?;

        let folder = rendered.join("manifests").display().to_string();
        let apply = ["apply", "--server-side", "-f", &folder];
        // The ClusterVersion cannot be applied together with its CRD.
        if let Err(error) = self.cluster.kubectl(apply).await
            && !error.to_string().contains("no matches for kind")
        {
            bail!("{error}");
        }
        let crds = ["crd/clusterversions.config.openshift.io", "crd/clusteroperators.config.openshift.io"];
        self.cluster.kubectl(["wait", "--for=condition=Established", "--timeout=60s", crds[0], crds[1]]).await?;
        self.cluster.kubectl(apply).await?;
        Ok(())
    }

    /// Requests a version of the update graph.
    pub async fn ask_version(&self, version: &str) -> anyhow::Result<()> {
        self.ask(json!({"version": version})).await
    }

    /// Requests an image, and the version that it should have.
    pub async fn ask_image(&self, image: &str, version: &str) -> anyhow::Result<()> {
        self.ask(json!({"image": image, "version": version})).await
    }

    /// Replaces `spec.desiredUpdate`; `null` withdraws it.
    pub async fn ask(&self, update: Value) -> anyhow::Result<()> {
        // A merge patch would keep fields of an earlier request.
        let fields = ["version", "image", "force", "architecture"];
        let mut update = update;
        if let Some(map) = update.as_object_mut() {
            for field in fields {
                map.entry(field).or_insert(Value::Null);
            }
        }
        let patch = json!({"spec": {"desiredUpdate": update}}).to_string();
        self.cluster.kubectl(["patch", "clusterversion", "version", "--type=merge", "-p", &patch]).await?;
        Ok(())
    }
}
