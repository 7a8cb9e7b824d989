//! `cvo upgrade`, `cvo rollback` and `cvo channel`: what administrators ask the daemon for.

use crate::cli::exit::Exit;
use crate::cli::output::remark;
use crate::cli::plan;
use crate::cli::plan::PlanArgs;
use crate::cluster_version::cli::request::{Output, RequestArgs};
use crate::cluster_version::updates::desired_update;
use crate::cluster_version::updates::desired_update::{Ask, Change, Wanted};
use crate::net::registry::parse_reference;
use crate::version;
use anyhow::ensure;
use clap::{ArgGroup, Args, Parser};

/// Request an update of the cluster, or withdraw the request
///
/// Follows the rules of `oc adm upgrade`: the release has to be one of the available updates, an update that is not recommended for
/// this cluster, an unknown image, and an update of a cluster that does not do well have to be allowed each. The daemon verifies the release
/// and its preconditions before it changes anything: `cvo status` shows what it says.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("action").required(true))]
pub(crate) struct UpgradeArgs {
    /// The version to update to
    #[arg(long, value_name = "VERSION", group = "action", value_parser = semantic_version)]
    pub to: Option<String>,
    /// The image of the release to update to, by digest
    #[arg(long, value_name = "IMAGE", group = "action")]
    pub to_image: Option<String>,
    /// Update to the newest available version
    #[arg(long, group = "action")]
    pub to_latest: bool,
    /// Change to the image of the present version that has all architectures
    #[arg(long, group = "action")]
    pub to_multi_arch: bool,
    /// Withdraw the request. An update goes on once its own daemon has taken over; before that the cluster goes back
    #[arg(long, group = "action", conflicts_with_all = ["force", "accept_risk", "dry_run", "allow_not_recommended", "allow_explicit_upgrade", "allow_upgrade_with_warnings"])]
    pub clear: bool,
    /// Also if the update is not recommended for this cluster, or not known to be. The daemon begins it only once its risks are
    /// accepted, or by force
    #[arg(long)]
    pub allow_not_recommended: bool,
    /// With --to-image: also if the image is not one of the available updates
    #[arg(long, conflicts_with_all = ["to", "to_latest", "to_multi_arch"])]
    pub allow_explicit_upgrade: bool,
    /// Also while the cluster is failing or another update is under way
    #[arg(long)]
    pub allow_upgrade_with_warnings: bool,
    /// Name of a risk that is accepted from now on; may be given several times
    #[arg(long, value_name = "NAME")]
    pub accept_risk: Vec<String>,
    /// Also if the release is not signed or preconditions are not met: nothing says then who has made it. This can destroy the cluster
    #[arg(long)]
    pub force: bool,
    /// Request nothing, and show the plan of the update, as `cvo plan --from cluster` does
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Request the release that the cluster had before, if it has the same minor version
#[derive(Args, Debug)]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Choose the channel whose updates are looked for; without a channel, clear it
#[derive(Args, Debug)]
pub(crate) struct ChannelArgs {
    /// Such as stable-1.2
    #[arg(value_name = "CHANNEL", default_value = "")]
    pub channel: String,
    /// Also if the channel is not known to contain the present release
    #[arg(long)]
    pub allow_explicit_channel: bool,
    #[command(flatten)]
    pub request: RequestArgs,
}

/// A value parser for versions.
fn semantic_version(text: &str) -> Result<String, String> {
    version::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// The arguments of `cvo plan`.
#[derive(Parser)]
struct PlanLine {
    #[command(flatten)]
    args: PlanArgs,
}

impl UpgradeArgs {
    fn ask(&self) -> anyhow::Result<Ask> {
        let wanted = match (&self.to, &self.to_image, self.to_latest) {
            (Some(version), ..) => Wanted::Version(version.clone()),
            (None, Some(image), _) => {
                let reference = parse_reference(image)?;
                ensure!(
                    reference.digest().is_some(),
                    "--to-image {image} has no digest, so that it can mean another image tomorrow: write NAME@sha256:…"
                );
                Wanted::Image(image.clone())
            }
            (None, None, true) => Wanted::Latest,
            (None, None, false) => Wanted::MultiArch,
        };
        Ok(Ask {
            force: self.force,
            not_recommended: self.allow_not_recommended,
            explicit: self.allow_explicit_upgrade,
            with_warnings: self.allow_upgrade_with_warnings,
            accept: self.accept_risk.clone(),
            ..Ask::new(wanted)
        })
    }

    /// The plan of the update to this image.
    async fn plan(&self, image: &str) -> anyhow::Result<Exit> {
        let mut line = vec!["plan".to_owned(), "--from=cluster".to_owned(), format!("--to={image}")];
        if let Some(kubeconfig) = &self.request.kubeconfig {
            line.push(format!("--kubeconfig={}", kubeconfig.display()));
        }
        let source = &self.request.source;
        line.extend([format!("--namespace={}", source.namespace), format!("--name={}", source.name)]);
        if self.request.output == Output::Json {
            line.push("--output=json".to_owned());
        }
        plan::run(PlanLine::try_parse_from(line)?.args).await
    }
}

pub(crate) async fn run(args: UpgradeArgs) -> anyhow::Result<Exit> {
    if args.clear {
        let requested = args.request.read().await?;
        args.request.perform(&requested, &desired_update::clear(&requested.object)).await?;
        return Ok(Exit::Success);
    }
    let ask = args.ask()?;
    let requested = args.request.read().await?;
    let change = desired_update::update(&requested.object, &ask)?;
    match change.target.as_ref().filter(|target| args.dry_run && !target.image.is_empty()) {
        Some(target) => {
            change.warnings.iter().for_each(|warning| remark(&format!("warning: {warning}")));
            args.plan(&target.image).await
        }
        None if args.dry_run => {
            args.request.perform(&requested, &unplanned(change)).await?;
            Ok(Exit::Success)
        }
        None => {
            args.request.perform(&requested, &change).await?;
            Ok(Exit::Success)
        }
    }
}

/// What --dry-run says of a change that is no update to an image.
fn unplanned(change: Change) -> Change {
    let said = match &change.target {
        None => change.said,
        Some(_) => "Nothing is requested (--dry-run), and there is no plan: the image of the update is not known before the update \
                    service has been asked for it"
            .to_owned(),
    };
    Change { patch: None, said, ..change }
}

pub(crate) async fn rollback(args: RollbackArgs) -> anyhow::Result<()> {
    let requested = args.request.read().await?;
    args.request.perform(&requested, &desired_update::rollback(&requested.object)?).await
}

pub(crate) async fn channel(args: ChannelArgs) -> anyhow::Result<()> {
    let requested = args.request.read().await?;
    let change = desired_update::channel(&requested.object, &args.channel, args.allow_explicit_channel)?;
    args.request.perform(&requested, &change).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: UpgradeArgs,
    }

    fn parsed(line: &str) -> Result<UpgradeArgs, String> {
        let words = std::iter::once("cvo").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn one_thing_is_asked_for() {
        for (line, expected) in [
            ("", "required"),
            ("--to 1.0.0 --to-latest", "cannot be used with"),
            ("--clear --to 1.0.0", "cannot be used with"),
            ("--clear --force", "cannot be used with"),
            ("--to v1.0.0", "is not a semantic version"),
            ("--to 1.0", "is not a semantic version"),
            ("--to 1.0.0 --allow-explicit-upgrade", "cannot be used with"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        let ask = parsed("--to-latest --accept-risk A --accept-risk B").unwrap().ask().unwrap();
        assert_eq!(ask, Ask { accept: vec!["A".into(), "B".into()], ..Ask::new(Wanted::Latest) });
    }

    #[test]
    fn dry_run_does_not_say_that_something_was_requested() {
        let target = Some(crate::release::api::Release { architecture: "Multi".into(), ..Default::default() });
        let (patch, said) = (Some(serde_json::json!({})), "Requested the update to all architectures".to_owned());
        let change = unplanned(Change { patch, said, target, ..Change::default() });
        assert_eq!(change.patch, None);
        assert!(change.said.starts_with("Nothing is requested (--dry-run)"), "{}", change.said);
        let there = Change { said: "The cluster is already at version 1.0.0".into(), ..Change::default() };
        assert_eq!(unplanned(there.clone()), there);
    }

    #[test]
    fn image_is_named_by_its_digest() {
        let error = parsed("--to-image r.example/a/b:1").unwrap().ask().unwrap_err().to_string();
        assert!(error.contains("has no digest") && error.contains("@sha256:"), "{error}");
        assert!(parsed("--to-image r.example/a/b:1 --force").unwrap().ask().is_err());
        assert!(parsed("--to-image UPPER/a").unwrap().ask().is_err());
    }
}
