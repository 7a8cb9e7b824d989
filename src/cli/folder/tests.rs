use super::*;
use clap::Parser;
use std::fs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    filters: FilterArgs,
}

pub(crate) fn filters(flags: &[&str]) -> FilterArgs {
    Line::try_parse_from(["cvo"].iter().chain(flags)).unwrap().filters
}

/// An included ConfigMap, with more lines of annotations.
pub(crate) fn config_map(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: x\n  annotations:\n    \
         include.release.openshift.io/self-managed-high-availability: \"true\"\n{annotations}"
    )
}

/// A release in a folder: templates, included documents, excluded ones for each reason, and a Job.
pub(crate) fn release() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let annotated = |key: &str, value: &str| config_map("m", &format!("    {key}: {value}\n"));
    let several = [
        config_map("first", ""),
        "# nothing but a comment\n".to_owned(),
        config_map("second", "").replace("self-managed-high-availability", "other"),
        config_map("third", "    capability.openshift.io/name: Console+Storage\n"),
    ]
    .join("---\n");
    let deployment = config_map("cluster-version-operator", "")
        .replace("v1\nkind: ConfigMap", "apps/v1\nkind: Deployment")
        .replace("namespace: x", "namespace: openshift-cluster-version");
    let operator = config_map("net", "")
        .replace("v1\nkind: ConfigMap", "config.openshift.io/v1\nkind: ClusterOperator")
        + "status: {versions: [{name: operator, version: 1.0.0}]}\n";
    let job = config_map("j", "").replace("v1\nkind: ConfigMap", "batch/v1\nkind: Job");
    let files = [
        (
            "manifests/0000_00_cluster-version-operator_30_deployment.yaml",
            deployment + "spec: {image: '{{.ReleaseImage}}'}\n",
        ),
        ("manifests/0000_90_cluster-version-operator_02_late.yaml", config_map("late", "")),
        ("manifests/0000_91_cluster-version-operator_02_new.yaml", "kind: {{.Unknown}}\n".to_owned()),
        ("release-manifests/0000_10_net_01.yaml", several),
        (
            "release-manifests/0000_10_net_02.json",
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}"#.to_owned(),
        ),
        (
            "release-manifests/0000_10_dns_01.yaml",
            annotated("release.openshift.io/feature-set", "TechPreviewNoUpgrade"),
        ),
        ("release-manifests/0000_10_net_09.yaml", operator.replace("  namespace: x\n", "")),
        ("release-manifests/0000_20_a_01.yaml", job),
        ("release-manifests/0000_30_a_01.yaml", annotated("release.openshift.io/feature-gate", "Later")),
        ("release-manifests/0000_30_a_02.yaml", config_map("last", "")),
        ("release-manifests/release-metadata", r#"{"kind":"cincinnati-metadata-v0","version":"1.0.0"}"#.to_owned()),
        (
            "release-manifests/image-references",
            r#"{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.0.0"}}"#.to_owned(),
        ),
    ];
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn names(folder: &Folder) -> Vec<&str> {
    folder.documents.iter().map(|d| d.manifest.id.name.as_str()).collect()
}

/// `manifests/` first, then in byte order, excluded or not. A file with an unknown template is skipped.
#[test]
fn all_manifests_are_listed_in_load_order() {
    let dir = release();
    let folder = open(dir.path(), "r/image@sha256:1", &filters(&[])).unwrap();
    let expected = ["cluster-version-operator", "late", "m", "first", "second", "third", "s", "net", "j", "m", "last"];
    assert_eq!(names(&folder), expected);
    assert_eq!(folder.version, "1.0.0");
    assert_eq!(folder.warnings.len(), 1, "{:?}", folder.warnings);
    assert!(folder.warnings[0].contains("0000_91_cluster-version-operator_02_new.yaml is skipped"));
    let object = folder.documents[0].manifest.object().unwrap();
    assert_eq!(object["spec"]["image"], "r/image@sha256:1");
}

#[test]
fn flags_decide_what_is_excluded() {
    let dir = release();
    let excluded = |flags: &[&str]| -> Vec<(String, String)> {
        let folder = open(dir.path(), NO_IMAGE, &filters(flags)).unwrap();
        let out = folder.documents.into_iter().filter_map(|d| Some((d.manifest.file.to_string(), d.excluded?)));
        out.map(|(file, why)| (file.trim_start_matches("0000_").to_owned(), why)).collect()
    };
    let always = [("10_net_01.yaml", "/self-managed-high-availability is not"), ("10_net_02.json", "no annotations")];
    let preview = ("10_dns_01.yaml", "cluster's feature set Default");
    let gate = ("30_a_01.yaml", "Later is not enabled");
    let capability = ("10_net_01.yaml", "disabled capabilities: Storage");
    type Row<'a> = (&'a [&'a str], Vec<(&'a str, &'a str)>);
    let table: [Row<'_>; 6] = [
        (&[], vec![preview, always[0], always[1], gate]),
        (&["--feature-set", "TechPreviewNoUpgrade"], vec![always[0], always[1], gate]),
        (&["--feature-gates", "Other,Later"], vec![preview, always[0], always[1]]),
        (&["--capabilities", "v4.12,Build"], vec![preview, always[0], always[1], gate]),
        (&["--capabilities", "v4.11,Console"], vec![preview, always[0], capability, always[1], gate]),
        (&["--capabilities", "Console,Build"], vec![preview, always[0], capability, always[1], gate]),
    ];
    for (flags, expected) in table {
        let found = excluded(flags);
        let fits =
            |((file, why), (in_file, part)): (&(String, String), &(&str, &str))| file == in_file && why.contains(part);
        assert!(found.len() == expected.len() && found.iter().zip(&expected).all(fits), "{flags:?}: {found:#?}");
    }
    assert_eq!(excluded(&["--profile", "other"]).len(), 10);
    assert!(Line::try_parse_from(["cvo", "--feature-set", "Preview"]).is_err(), "an unknown set");
}

/// All files of a release in one folder.
fn flattened(root: &Path) -> tempfile::TempDir {
    let plain = tempfile::tempdir().unwrap();
    for folder in ["manifests", "release-manifests"] {
        for entry in fs::read_dir(root.join(folder)).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), plain.path().join(entry.file_name())).unwrap();
        }
    }
    plain
}

#[test]
fn plain_folder_is_read_like_a_release() {
    let root = release();
    let plain = flattened(root.path());
    let open = |dir: &Path| open(dir, NO_IMAGE, &filters(&[]));
    let (one, other) = (open(plain.path()).unwrap(), open(root.path()).unwrap());
    let told = |folder: &Folder| -> Vec<_> {
        folder.documents.iter().map(|d| (d.manifest.file.clone(), d.manifest.raw.clone(), d.excluded.clone())).collect()
    };
    assert_eq!(told(&one), told(&other));
    assert_eq!(one.version, other.version);
    let [warning] = one.warnings.as_slice() else { panic!("{:?}", one.warnings) };
    assert!(warning.starts_with("0000_91_"), "no folder before the name: {warning}");

    fs::write(plain.path().join("crd.yaml"), major(config_map("c", ""), 7)).unwrap();
    let judged = |why: &str| {
        let folder = open(plain.path()).unwrap();
        let crd = folder.documents.iter().find(|d| d.manifest.id.name == "c").unwrap();
        assert_eq!(crd.excluded.as_deref().unwrap_or_default(), why);
    };
    judged("release.openshift.io/major-version=7 excludes major version 1");
    fs::remove_file(plain.path().join("release-metadata")).unwrap();
    judged("");
}

/// In either form included manifests must be valid for their type, and excluded ones need not be.
#[test]
fn plain_folder_is_validated_like_a_release() {
    let root = release();
    let write = |file: &str, text: &str| fs::write(root.path().join("release-manifests").join(file), text).unwrap();
    let verdict = |dir: &Path| match open(dir, NO_IMAGE, &filters(&[])) {
        Ok(folder) => format!("{:?}", names(&folder)),
        Err(error) => format!("{error:#}").split_once(" cannot be used: ").unwrap().1.replace("release-manifests/", ""),
    };
    let both = || {
        let (of_root, of_plain) = (verdict(root.path()), verdict(flattened(root.path()).path()));
        assert_eq!(of_root, of_plain);
        of_plain
    };
    let odd = config_map("odd", "").replace("self-managed-high-availability", "other") + "data: {a: 1}\n";
    write("0000_40_a_01.yaml", &odd);
    assert!(both().contains("\"odd\""), "it is excluded, and listed");
    let account = config_map("misfit", "").replace("kind: ConfigMap", "kind: ServiceAccount");
    write("0000_50_a_01.yaml", &(account + "automountServiceAccountToken: 'no'\n"));
    let said = both();
    assert!(said.starts_with("0000_50_a_01.yaml: line 1: serviceaccount \"x/misfit\": automount"), "{said}");
    write("release-metadata", r#"{"kind":"cincinnati-metadata-v0","version":"1.0.1"}"#);
    let said = both();
    assert!(said.starts_with("release-metadata is of version \"1.0.1\" but") && said.contains("; 0000_50"), "{said}");
    write("release-metadata", "[]");
    let said = both();
    assert!(said.starts_with("release-metadata is not the JSON") && said.contains("; 0000_50_a_01"), "{said}");
}

fn major(text: String, major: u64) -> String {
    let crd = text.replace("v1\nkind: ConfigMap", "apiextensions.k8s.io/v1\nkind: CustomResourceDefinition");
    format!("{crd}    release.openshift.io/major-version: \"{major}\"\n")
}

/// A folder that cannot be loaded is not listed partially: one error names every invalid file.
#[test]
fn invalid_folders_are_refused() {
    let said = |dir: &Path| format!("{:#}", open(dir, NO_IMAGE, &filters(&[])).unwrap_err());
    let empty = tempfile::tempdir().unwrap();
    assert!(said(empty.path()).contains("contains no manifest: give the root of a release"), "{}", said(empty.path()));
    let missing = empty.path().join("nothing");
    let expected = format!("cannot read {}: No such file or directory (os error 2). DIR must be", missing.display());
    assert!(said(&missing).starts_with(&expected), "{}", said(&missing));
    fs::write(&missing, "").unwrap();
    assert!(said(&missing).contains("it is not a folder. DIR must be the root of a release"), "{}", said(&missing));
    fs::remove_file(&missing).unwrap();
    let half = tempfile::tempdir().unwrap();
    fs::create_dir(half.path().join("manifests")).unwrap();
    assert!(said(half.path()).contains("release-manifests is missing"), "{}", said(half.path()));
    let dir = release();
    let twice = [config_map("a", ""), config_map("a", "")].join("---\n");
    fs::write(dir.path().join("release-manifests/0000_40_a_01.yaml"), &twice).unwrap();
    fs::write(dir.path().join("release-manifests/0000_50_a_01.yaml"), "a: [\n").unwrap();
    fs::write(empty.path().join("0000_40_a_01.yaml"), twice).unwrap();
    fs::write(empty.path().join("0000_50_a_01.yaml"), "a: [\n").unwrap();
    for (dir, prefix) in [(dir.path(), "release-manifests/"), (empty.path(), " ")] {
        let said = said(dir);
        assert!(
            said.contains(&format!("{prefix}0000_40_a_01.yaml: line 9: configmap \"x/a\" is in this file twice")),
            "{said}"
        );
        assert!(said.contains(&format!("{prefix}0000_50_a_01.yaml: line 2")), "{said}");
    }
}
