//! `cvo release import`: makes the folder of a component from a Helm chart or a kustomization.

mod lay_out;

use super::mark::DEFAULT_PROFILE;
use super::new::profile;
use crate::cli::output;
use crate::error::shortened;
use crate::object::manifest::Origin;
use crate::release::load::manifests_of;
use anyhow::{Context, bail, ensure};
use clap::{ArgGroup, Args};
use lay_out::{Component, LaidOut};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;

/// Make the folder of a component from a Helm chart or a kustomization
///
/// Runs your own `helm template` or `kustomize build` (else `kubectl kustomize`), and writes one file for each object, named so that each
/// comes after what it needs: namespaces, definitions of kinds, service accounts and roles, configuration, services, workloads, objects of own
/// kinds, webhooks. The images are listed in a file image-references, so that `cvo release new` puts digests in their place: give
/// NAME=IMAGE@DIGEST for each. Hooks of Helm are left out, because nothing runs them.
///
/// Secrets are refused, because a release can be read by whoever can pull it.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("source").required(true).args(["helm", "kustomize"])),
    after_long_help = "Example:\n  cvo release import --component ingress --level 50 --helm ./ingress-chart --values values.yaml \\\n    \
        --namespace ingress --to-dir manifests/ingress\n  cvo release lint manifests/"
)]
pub(crate) struct ImportArgs {
    /// Name of the component
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub component: String,
    /// Run level: components of a lower level are updated before those of a higher one
    #[arg(long, value_name = "0-99", value_parser = clap::value_parser!(u8).range(0..=99))]
    pub level: u8,
    /// Chart: a folder, an archive, or what helm understands otherwise
    #[arg(long, value_name = "CHART")]
    pub helm: Option<String>,
    /// Values of the chart; may be repeated
    #[arg(long, value_name = "FILE", requires = "helm")]
    pub values: Vec<PathBuf>,
    /// Name of the Helm release [default: the component]
    #[arg(long, value_name = "NAME", requires = "helm")]
    pub release_name: Option<String>,
    /// Folder with a kustomization
    #[arg(long, value_name = "DIR")]
    pub kustomize: Option<PathBuf>,
    /// Namespace of objects that name none; it becomes part of the component
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub namespace: Option<String>,
    /// Folder to write, which must be new or empty
    #[arg(long, value_name = "DIR")]
    pub to_dir: PathBuf,
    /// The component has an operator that reports a ClusterOperator of the component's name; without this, the daemon reports it from the
    /// health of the component's Deployments and DaemonSets
    #[arg(long)]
    pub operator: bool,
    /// Cluster profile that the objects take part in
    #[arg(long, value_name = "PROFILE", default_value = DEFAULT_PROFILE, value_parser = profile)]
    pub profile: String,
    /// Write Secrets, too
    #[arg(long)]
    pub allow_secrets: bool,
}

/// Most bytes of what a program prints.
const OUTPUT: usize = 64 << 20;
/// Most bytes of its errors that are shown.
const ERRORS: usize = 2000;

/// A value parser for names of objects.
fn name(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = text.starts_with('-') || text.ends_with('-');
    if !text.is_empty() && text.len() <= 63 && text.chars().all(fine) && !ends {
        return Ok(text.to_owned());
    }
    Err("a name has lower case letters, digits and dashes inside".to_owned())
}

pub(crate) async fn run(args: ImportArgs) -> anyhow::Result<()> {
    super::extract::check_target(&args.to_dir)?;
    let (program, text) = rendered(&args).await?;
    let manifests = manifests_of(Origin::Release, &program, text.as_bytes())
        .map_err(|cause| anyhow::anyhow!("what {program} has printed cannot be read: {cause}"))?;
    ensure!(!manifests.is_empty(), "{program} has printed no object: is this the right chart or folder?");
    let objects = manifests.iter().map(|manifest| manifest.object()).collect::<Result<Vec<_>, _>>()?;
    let LaidOut { files, images, remarks } = lay_out::lay_out(
        objects,
        &Component {
            name: &args.component,
            level: args.level,
            namespace: args.namespace.as_deref(),
            profile: &args.profile,
            operator: args.operator,
            allow_secrets: args.allow_secrets,
        },
    )
    .map_err(|problems| anyhow::anyhow!("the component cannot be made:\n  {}", problems.join("\n  ")))?;
    let count = files.len();
    super::extract::write_folder(&args.to_dir, files)?;
    for remark in &remarks {
        output::remark(remark);
    }
    output::remark(&format!("wrote {count} files to {}", args.to_dir.display()));
    for (name, image) in images {
        output::line(&format!("{name}={image}"))?;
    }
    Ok(())
}

/// What the user's program prints, with its name for messages.
async fn rendered(args: &ImportArgs) -> anyhow::Result<(String, String)> {
    if let Some(chart) = &args.helm {
        let mut helm = Command::new("helm");
        helm.arg("template")
            .arg(args.release_name.as_deref().unwrap_or(&args.component))
            .arg(chart)
            .arg("--include-crds");
        for values in &args.values {
            helm.arg("--values").arg(values);
        }
        if let Some(namespace) = &args.namespace {
            helm.args(["--namespace", namespace]);
        }
        let text = printed(helm, "helm").await?.context("there is no program helm in PATH: install it from helm.sh")?;
        return Ok(("helm template".to_owned(), text));
    }
    let Some(folder) = &args.kustomize else { bail!("give --helm or --kustomize") };
    let mut kustomize = Command::new("kustomize");
    kustomize.arg("build").arg(folder);
    if let Some(text) = printed(kustomize, "kustomize").await? {
        return Ok(("kustomize build".to_owned(), text));
    }
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("kustomize").arg(folder);
    let text = printed(kubectl, "kubectl").await?;
    let text = text.context("there is neither kustomize nor kubectl in PATH: install one of both")?;
    Ok(("kubectl kustomize".to_owned(), text))
}

/// `None`: there is no such program.
async fn printed(mut command: Command, name: &str) -> anyhow::Result<Option<String>> {
    let output = match command.stdin(Stdio::null()).kill_on_drop(true).output().await {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot run {name}")),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let said = shortened(said.trim(), ERRORS);
    ensure!(output.status.success(), "{name} has failed ({}): {said}", output.status);
    ensure!(output.stdout.len() <= OUTPUT, "{name} has printed more than {} MiB", OUTPUT >> 20);
    let text = String::from_utf8(output.stdout).with_context(|| format!("what {name} has printed is not UTF-8"))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
