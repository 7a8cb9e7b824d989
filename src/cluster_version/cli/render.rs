//! `cvo render`: writes the manifests that install the daemon into an empty cluster.

use crate::cli::{folder, output};
use crate::cluster_version::api::{ClusterVersion, ClusterVersionSpec, NAME, OWN_DEPLOYMENT};
use crate::error::{CAUSE, listed};
use crate::object::manifest::{Manifest, Origin, is_manifest};
use crate::object::yaml;
use crate::release::api::ComponentOverride;
use crate::release::filter;
use crate::release::filter::{DEFAULT_PROFILE, Filter};
use crate::release::load;
use crate::release::load::{LoadOptions, Payload, PayloadFiles, SourceFile};
use crate::release::metadata;
use crate::release::metadata::ReleaseMetadata;
use crate::release::references;
use crate::release::references::ImageReferences;
use crate::release::template;
use crate::release::template::Variables;
use crate::release::work::payload_dir;
use crate::version;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sorts after the files of the CRDs.
const CLUSTER_VERSION_FILE: &str = "0000_00_cluster-version-operator_50_clusterversion.yaml";
/// Folder of what only the first machine of a cluster runs.
const BOOTSTRAP: &str = "bootstrap";
/// Folder of the manifests of all other components, and of the files that describe the release.
const RELEASE: &str = "release-manifests";
const API_VERSION: &str = "config.openshift.io/v1";
/// Of the other components only these kinds are included: nodes need them before they can pull anything.
const EARLY_KINDS: [&str; 2] = ["ClusterImagePolicy", "ImagePolicy"];
/// Of the daemon's manifests these are written later: their kinds are not served before monitoring is installed.
const LATE_FILES: [&str; 3] = [
    "0000_90_cluster-version-operator_00_prometheusrole.yaml",
    "0000_90_cluster-version-operator_01_prometheusrolebinding.yaml",
    "0000_90_cluster-version-operator_02_servicemonitor.yaml",
];

/// Write the manifests that install the daemon from a release image
///
/// Reads the daemon's manifests (/manifests in a release image; `cvo release extract` writes them to a folder), fills in
/// the release image, and writes them to OUTPUT-DIR/manifests together with a ClusterVersion that has a new cluster id.
/// Files in a folder bootstrap/ next to them (static pods of the first machine) are written to OUTPUT-DIR/bootstrap in the
/// same way. Prints how to apply them. A ClusterVersion that is there already is kept; other manifests in these folders, which this
/// call does not write, are an error.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RenderArgs {
    /// Folder to write to, with subfolders manifests/ and bootstrap/; created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
    /// Pull spec of the release image to install, preferably by digest (NAME@sha256:...)
    #[arg(long, value_name = "IMAGE")]
    pub release_image: String,
    /// Folder with the daemon's manifests. A folder release-manifests/ next to it is read as the rest of the release
    #[arg(long, value_name = "DIR", default_value = "/manifests")]
    pub manifests_dir: PathBuf,
    /// Your own ClusterVersion (one document): its overrides apply, and no other ClusterVersion is written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["channel", "upstream"])]
    pub cluster_version_manifest_path: Option<PathBuf>,
    /// A FeatureGate (one document) with the feature set and gates that the cluster will have
    #[arg(long, value_name = "FILE")]
    pub feature_gate_manifest_path: Option<PathBuf>,
    /// Update channel for the ClusterVersion; without one the cluster does not look for updates
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// URL of the update service for the ClusterVersion
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// Cluster profile: only manifests with include.release.openshift.io/PROFILE=true are written
    #[arg(long, env = "CLUSTER_PROFILE", value_name = "PROFILE", default_value = DEFAULT_PROFILE)]
    pub cluster_profile: String,
    /// Do not write manifests with exclude.release.openshift.io/ID=true for one of these IDs, separated by commas; the daemon
    /// does not apply them either. With `least-privilege` the daemon is not made cluster-admin, and needs the roles that
    /// `cvo rbac` prints
    #[arg(long, env = "EXCLUDE_MANIFESTS", value_name = "IDS")]
    pub exclude_manifests: Option<String>,
    /// Let the daemon and what configures nodes run on any node, for clusters without nodes of the control plane: adds
    /// `any-node` to --exclude-manifests. Whoever takes over the node of the daemon has the rights of the daemon
    #[arg(long)]
    pub any_node: bool,
}

impl RenderArgs {
    /// What is left out, as the daemon is told.
    fn excluded(&self) -> Option<String> {
        let given = self.exclude_manifests.iter().filter(|given| !given.is_empty()).map(String::as_str);
        let identifiers: Vec<&str> = given.chain(self.any_node.then_some(filter::ANY_NODE)).collect();
        (!identifiers.is_empty()).then(|| identifiers.join(","))
    }
}

/// Where the ClusterVersion comes from.
enum Source {
    /// Given on the command line.
    Given(PathBuf),
    /// Already in the folder.
    Kept(PathBuf),
    New,
}

/// Renders, writes, and prints what was written and how to apply it. After an error nothing is written.
pub(crate) async fn run(args: RenderArgs) -> anyhow::Result<()> {
    let Written { text, warning } = render_and_write(&args)?;
    if let Some(warning) = warning {
        output::remark(&format!("warning: {warning}"));
    }
    output::line(&text)
}

/// What is printed about the files that were written.
#[derive(Debug)]
struct Written {
    text: String,
    warning: Option<String>,
}

fn render_and_write(args: &RenderArgs) -> anyhow::Result<Written> {
    ensure!(
        !args.release_image.is_empty() && !args.release_image.contains(char::is_whitespace),
        "--release-image {:?} is not a pull spec such as registry.example.com/platform/release@sha256:...",
        args.release_image
    );
    ensure!(
        !args.cluster_profile.is_empty(),
        "the cluster profile is empty, which excludes every manifest: unset CLUSTER_PROFILE or set it to {DEFAULT_PROFILE}"
    );
    let Rendered { mut manifests, bootstrap, nodes, warning } = render(args)?;
    let (folder, first_folder) = (args.output_dir.join("manifests"), args.output_dir.join(BOOTSTRAP));
    let source = source(args, &folder, &manifests)?;
    let cluster_version = match &source {
        Source::Given(path) => format!("yours, {}; apply it after the files above", path.display()),
        Source::Kept(path) => format!("kept unchanged in {}", path.display()),
        Source::New => {
            let (text, id) = new_cluster_version(args)?;
            manifests.insert(CLUSTER_VERSION_FILE.to_owned(), text);
            format!("cluster id {id}, in {CLUSTER_VERSION_FILE}")
        }
    };
    let kept = if let Source::Kept(path) = &source { Some(path.as_path()) } else { None };
    ensure_no_others(&folder, &manifests, kept)?;
    ensure_no_others(&first_folder, &bootstrap, None)?;
    write(&folder, &manifests)?;
    let mut text = format!("Wrote {} files to {}\n", manifests.len(), folder.display());
    if !bootstrap.is_empty() {
        write(&first_folder, &bootstrap)?;
        text += &format!("Wrote {} files to {}\n", bootstrap.len(), first_folder.display());
    }
    text += &format!("ClusterVersion: {cluster_version}\n{nodes}{}", how_to_apply(&folder));
    Ok(Written { text, warning })
}

/// What an earlier call has written, or somebody else, would be applied with the rest: perhaps a binding to cluster-admin, which
/// this call leaves out. `kept`: a file that is to stay.
fn ensure_no_others(folder: &Path, output: &BTreeMap<String, String>, kept: Option<&Path>) -> anyhow::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let mut others = Vec::new();
    for entry in entries {
        let name = entry.with_context(|| format!("cannot read {}", folder.display()))?.file_name();
        let name = name.to_string_lossy().into_owned();
        let own = output.contains_key(&name) || kept.is_some_and(|kept| kept.ends_with(&name));
        others.extend((is_manifest(&name) && !own).then_some(name));
    }
    others.sort();
    ensure!(
        others.is_empty(),
        "{} has manifests that this call does not write, and they would be applied with the others: {}; remove them, or name \
         another folder with --output-dir",
        folder.display(),
        listed(&others, ", ", CAUSE, |n| format!("and {n} more"))
    );
    Ok(())
}

fn write(folder: &Path, output: &BTreeMap<String, String>) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    for (name, text) in output {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn how_to_apply(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "\nTo install, run these three commands. The first may fail with \"no matches for kind\" for the ClusterVersion, \
         because it has only just created the CRD; the last one completes it.\n\n  \
         kubectl apply --server-side -f {folder}\n  \
         kubectl wait --for=condition=Established crd/clusterversions.config.openshift.io crd/clusteroperators.config.openshift.io\n  \
         kubectl apply --server-side -f {folder}\n\n\
         Then watch: kubectl get clusterversion -w"
    )
}

/// Text by file name for each folder that is written.
struct Rendered {
    manifests: BTreeMap<String, String>,
    bootstrap: BTreeMap<String, String>,
    /// A line that says on which nodes the daemon runs, if its Deployment does.
    nodes: &'static str,
    /// Not an error, but worth knowing.
    warning: Option<String>,
}

/// Both folders, or one error with everything that is wrong in either.
fn render(args: &RenderArgs) -> anyhow::Result<Rendered> {
    let own = own_files(&args.manifests_dir)?;
    ensure!(
        own.iter().any(|file| is_manifest(&file.name)),
        "{} contains no manifest: give the folder with the daemon's manifests with --manifests-dir (/manifests in a release image)",
        args.manifests_dir.display()
    );
    let (release_folder, first_folder) =
        (sibling(&args.manifests_dir, RELEASE)?, sibling(&args.manifests_dir, BOOTSTRAP)?);
    let release = release_files(&release_folder)?;
    let (feature_set, feature_gates) = match &args.feature_gate_manifest_path {
        Some(path) => features(path)?,
        None => (String::new(), BTreeSet::new()),
    };
    let overrides = match &args.cluster_version_manifest_path {
        Some(path) => overrides(path)?,
        None => Vec::new(),
    };
    let options = LoadOptions {
        image: args.release_image.clone(),
        profile: args.cluster_profile.clone(),
        strict_templates: true,
        filter: Filter {
            feature_set: Some(feature_set),
            feature_gates: Some(feature_gates),
            exclude_identifier: args.excluded(),
            ..Filter::default()
        },
    };
    let first = bootstrap(&first_folder, &release, &options);
    let place = args.manifests_dir.display().to_string();
    let payload = load::load(PayloadFiles { place, own: own.clone(), release, ..PayloadFiles::default() }, &options);
    let (payload, (place, first, beside)) = match (payload, first) {
        (Ok(payload), Ok(first)) => (payload, first),
        (Err(one), Err(other)) => bail!("{one}; {other:#}"),
        (Err(one), Ok(_)) => return Err(one.into()),
        (Ok(_), Err(other)) => return Err(other),
    };
    let warning = without_daemon(&payload, args)?;
    let nodes = nodes(&payload, &options.filter);
    let page = Page { args, images: &payload.images, overrides: &overrides, filter: &options.filter };
    let excluded = payload.excluded.iter().map(|(manifest, _)| (&**manifest, false));
    let judged = payload.manifests.iter().map(|manifest| (&**manifest, early(manifest))).chain(excluded);
    let manifests = page.texts(&own, judged)?;
    let major = version::parse(&payload.release.version).with_context(|| place.clone())?.major;
    let filter = Filter { major: Some(major), profile: Some(args.cluster_profile.clone()), ..options.filter.clone() };
    let judged = beside.iter().map(|manifest| (&**manifest, filter.check(manifest).is_ok()));
    Ok(Rendered { manifests, bootstrap: page.texts(&first, judged)?, nodes, warning })
}

fn is_daemon(manifest: &Manifest) -> bool {
    let id = &manifest.id;
    early(manifest) && (id.group.as_str(), id.kind.as_str(), id.name.as_str()) == ("apps", "Deployment", OWN_DEPLOYMENT)
}

/// A pod of the daemon that no node may run waits for ever, so what it needs is said.
fn nodes(payload: &Payload, filter: &Filter) -> &'static str {
    let anywhere = Filter { exclude_identifier: Some(filter::ANY_NODE.to_owned()), ..Filter::default() };
    let mut daemons = payload.manifests.iter().filter(|manifest| is_daemon(manifest));
    match daemons.find(|daemon| anywhere.runs_anywhere(daemon)) {
        None => "",
        Some(daemon) if filter.runs_anywhere(daemon) => {
            "The daemon runs on any node; whoever takes over that node has the rights of the daemon\n"
        }
        Some(_) => {
            "The daemon runs on nodes with the role control-plane or master (`kubectl get nodes` shows roles); for a cluster \
             without such nodes use --any-node\n"
        }
    }
}

/// Manifests without the daemon install nothing, which is an error before anything is written. If the profile excludes it,
/// as for clusters whose daemon runs elsewhere, other manifests of the daemon remain, and a warning is enough.
fn without_daemon(payload: &Payload, args: &RenderArgs) -> anyhow::Result<Option<String>> {
    if payload.manifests.iter().any(|manifest| is_daemon(manifest)) {
        return Ok(None);
    }
    let (place, profile) = (args.manifests_dir.display(), &args.cluster_profile);
    let Some((_, reason)) = payload.excluded.iter().find(|(manifest, _)| is_daemon(manifest)) else {
        bail!(
            "{place} has no Deployment {OWN_DEPLOYMENT}, with the cluster profile {profile} or any other, so nothing would \
             run the daemon: give the folder with the daemon's manifests with --manifests-dir (/manifests in a release \
             image)"
        );
    };
    ensure!(
        payload.manifests.iter().any(|manifest| manifest.origin == Origin::Own),
        "no manifest in {place} is for the cluster profile {profile}: give the cluster's profile with --cluster-profile, or \
         another folder with --manifests-dir"
    );
    Ok(Some(format!(
        "nothing runs the daemon, since its Deployment {OWN_DEPLOYMENT} is excluded with the cluster profile {profile} \
         ({reason})"
    )))
}

/// Whether a manifest is needed to start a cluster: most of the daemon's, few of the others.
fn early(manifest: &Manifest) -> bool {
    match manifest.origin {
        Origin::Own => !LATE_FILES.contains(&&*manifest.file),
        Origin::Release => {
            manifest.id.group == "config.openshift.io" && EARLY_KINDS.contains(&manifest.id.kind.as_str())
        }
    }
}

type Bootstrap = (String, Vec<SourceFile>, Vec<Arc<Manifest>>);

/// The folder of this name next to the manifests. A path that does not show its parent (`.`, `..`) is resolved; for a link
/// the folder of the link counts.
fn sibling(manifests: &Path, name: &str) -> anyhow::Result<PathBuf> {
    if let (Some(_), Some(parent)) = (manifests.file_name(), manifests.parent()) {
        return Ok(parent.join(name));
    }
    let place = fs::canonicalize(manifests).with_context(|| {
        format!("cannot resolve {}; give the folder of the manifests with --manifests-dir", manifests.display())
    })?;
    Ok(place.parent().unwrap_or(&place).join(name))
}

/// Path, files and manifests of the folder `bootstrap/`; none if it does not exist.
fn bootstrap(folder: &Path, release: &[SourceFile], options: &LoadOptions) -> anyhow::Result<Bootstrap> {
    let place = folder.display().to_string();
    if !folder.is_dir() {
        return Ok((place, Vec::new(), Vec::new()));
    }
    let own = files(folder)?;
    let references = release.iter().find(|file| file.name == references::FILE);
    // Errors in the references are reported when the release is loaded.
    let images = references.and_then(|file| ImageReferences::parse(&file.bytes).ok()).unwrap_or_default().images();
    let files = PayloadFiles { place: place.clone(), own: own.clone(), release: Vec::new(), ..PayloadFiles::default() };
    let (manifests, _) = load::manifests(files, options, &images).map_err(folder::flat)?;
    Ok((place, own, manifests))
}

/// What goes into all files.
struct Page<'a> {
    args: &'a RenderArgs,
    images: &'a BTreeMap<String, String>,
    overrides: &'a [ComponentOverride],
    filter: &'a Filter,
}

impl Page<'_> {
    /// Text by file name, in byte order. A file of `own` whose documents are all included as they are keeps its text with its
    /// comments; of other files the included documents are written as JSON, which is valid YAML.
    fn texts<'a>(
        &self,
        own: &[SourceFile],
        judged: impl Iterator<Item = (&'a Manifest, bool)>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let mut kept: BTreeMap<&str, Vec<&Manifest>> = BTreeMap::new();
        let mut cut: BTreeSet<&str> = BTreeSet::new();
        for (manifest, included) in judged {
            let included = included && !filter::overridden(manifest, self.overrides);
            // The other folder may have a file of the same name.
            if !included || manifest.origin == Origin::Release || self.filter.runs_anywhere(manifest) {
                cut.insert(&manifest.file);
            }
            if included {
                kept.entry(&manifest.file).or_default().push(manifest);
            }
        }
        let variables = Variables {
            release_image: &self.args.release_image,
            cluster_profile: &self.args.cluster_profile,
            exclude_manifests: self.filter.exclude_identifier.as_deref().unwrap_or_default(),
            images: self.images,
        };
        let mut output = BTreeMap::new();
        for (name, manifests) in kept {
            let whole = own.iter().find(|file| file.name == name).filter(|_| !cut.contains(name));
            let text = match whole {
                Some(file) => template::render(std::str::from_utf8(&file.bytes)?, &variables)?.text,
                None => {
                    let documents: Result<Vec<String>, serde_json::Error> =
                        manifests.iter().map(|m| serde_json::to_string_pretty(&m.object()?)).collect();
                    documents?.join("\n---\n") + "\n"
                }
            };
            output.insert(name.to_owned(), text);
        }
        Ok(output)
    }
}

/// The files of the folder `release-manifests/`; if there is none, as in a source tree, a release without images.
fn release_files(folder: &Path) -> anyhow::Result<Vec<SourceFile>> {
    if folder.is_dir() {
        return files(folder);
    }
    let nothing = "0.0.0";
    let references = ImageReferences { name: nothing.into(), ..ImageReferences::default() };
    Ok(vec![
        SourceFile { name: metadata::FILE.into(), bytes: ReleaseMetadata::new(nothing)?.to_json()? },
        SourceFile { name: references::FILE.into(), bytes: references.to_json()? },
    ])
}

/// The manifests of a folder, and the two files that describe a release; subfolders are ignored.
fn files(folder: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let files = payload_dir::read_plain(folder)?;
    anyhow::ensure!(files.unreadable.is_empty(), "{}", files.unreadable.join("; "));
    Ok(files.release)
}

fn own_files(folder: &Path) -> anyhow::Result<Vec<SourceFile>> {
    files(folder).context("cannot read the folder given with --manifests-dir")
}

/// The document of a file that must contain exactly one, of that kind.
fn single(path: &Path, kind: &str) -> anyhow::Result<Value> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let documents = yaml::documents(&bytes).with_context(|| format!("cannot read {} as YAML", path.display()))?;
    let count = documents.len();
    match <[_; 1]>::try_from(documents) {
        Ok([document]) if is(&document.value, kind) => Ok(document.value),
        Ok(_) => bail!("{} is not a {kind} of {API_VERSION}", path.display()),
        Err(_) => {
            bail!(
                "{} contains {count} documents; it must contain exactly one, a {kind} of {API_VERSION}",
                path.display()
            )
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    text("kind") == Some(kind) && text("apiVersion") == Some(API_VERSION)
}

fn overrides(path: &Path) -> anyhow::Result<Vec<ComponentOverride>> {
    let value = single(path, "ClusterVersion")?;
    match value.pointer("/spec/overrides") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(list) => serde_json::from_value(list.clone())
            .with_context(|| format!("spec.overrides of {} cannot be read", path.display())),
    }
}

/// Feature set and enabled gates of a FeatureGate. Without a status no gate is enabled.
fn features(path: &Path) -> anyhow::Result<(String, BTreeSet<String>)> {
    let value = single(path, "FeatureGate")?;
    let set = value.pointer("/spec/featureSet").and_then(Value::as_str).unwrap_or_default().to_owned();
    let entries = value.pointer("/status/featureGates").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    ensure!(
        entries.len() <= 1,
        "{} lists the gates of {} versions in status.featureGates; keep only the one of this release",
        path.display(),
        entries.len()
    );
    let enabled = entries.iter().filter_map(|entry| entry.get("enabled")?.as_array()).flatten();
    Ok((set, enabled.filter_map(|gate| gate.get("name")?.as_str()).map(str::to_owned).collect()))
}

fn source(args: &RenderArgs, folder: &Path, output: &BTreeMap<String, String>) -> anyhow::Result<Source> {
    if let Some(path) = &args.cluster_version_manifest_path {
        return Ok(Source::Given(path.clone()));
    }
    let Some(path) = existing(folder, output)? else { return Ok(Source::New) };
    ensure!(
        args.channel.is_none() && args.upstream.is_none(),
        "{} already contains a ClusterVersion, so --channel and --upstream would have no effect: edit that file, or remove it to get a new one",
        path.display()
    );
    Ok(Source::Kept(path))
}

/// A file in the folder that contains a ClusterVersion and will not be overwritten.
fn existing(folder: &Path, output: &BTreeMap<String, String>) -> anyhow::Result<Option<PathBuf>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let present = files(folder).context("the folder manifests/ in --output-dir contains files that cannot be read")?;
    for file in present.iter().filter(|file| is_manifest(&file.name) && !output.contains_key(&file.name)) {
        let path = folder.join(&file.name);
        let documents =
            yaml::documents(&file.bytes).with_context(|| format!("cannot read {} as YAML", path.display()))?;
        if documents.iter().any(|document| is(&document.value, "ClusterVersion")) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A ClusterVersion as text, and its new cluster id (a random UUID).
fn new_cluster_version(args: &RenderArgs) -> anyhow::Result<(String, String)> {
    let id = uuid::Uuid::new_v4().to_string();
    let spec = ClusterVersionSpec {
        cluster_id: id.clone(),
        channel: args.channel.clone().unwrap_or_default(),
        upstream: args.upstream.clone().unwrap_or_default(),
        ..ClusterVersionSpec::default()
    };
    let object = ClusterVersion::new(NAME, spec);
    Ok((serde_yaml::to_string(&object)?, id))
}

#[cfg(test)]
mod tests;
