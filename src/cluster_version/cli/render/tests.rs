use super::*;
use crate::cluster_version::api::ClusterVersion;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: RenderArgs,
}

const IMAGE: &str = "registry.example.com/platform/release@sha256:0123";
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/cluster-version");

fn parse(output: &Path, manifests: &Path, more: &[&str]) -> Result<RenderArgs, clap::Error> {
    let (output, manifests) = (output.display().to_string(), manifests.display().to_string());
    let line = ["render", "--output-dir", &output, "--release-image", IMAGE, "--manifests-dir", &manifests];
    Line::try_parse_from(line.iter().chain(more)).map(|line| line.args)
}

/// The Deployment that a release cannot do without.
fn daemon(profile: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: cluster-version-operator\n  namespace: x\n  annotations:\n    \
         include.release.openshift.io/{profile}: \"true\"\n"
    )
}

fn documents(folder: &Path) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut files = files(folder).unwrap();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    for file in files {
        for document in yaml::documents(&file.bytes).unwrap() {
            all.push((file.name.clone(), document.value));
        }
    }
    all
}

fn of_kind<'a>(documents: &'a [(String, Value)], kind: &str) -> Vec<&'a Value> {
    documents.iter().map(|(_, value)| value).filter(|value| value["kind"] == kind).collect()
}

#[test]
fn daemon_is_not_cluster_admin_if_that_is_excluded() {
    for (more, admin, mode) in
        [(&[][..], true, ""), (&["--exclude-manifests", "least-privilege"], false, "least-privilege")]
    {
        let out = tempfile::tempdir().unwrap();
        render_and_write(&parse(out.path(), Path::new(OURS), more).unwrap()).unwrap();
        let written = documents(&out.path().join("manifests"));
        let bindings = of_kind(&written, "ClusterRoleBinding");
        assert_eq!(bindings.iter().any(|binding| binding["roleRef"]["name"] == "cluster-admin"), admin, "{more:?}");
        let deployments = of_kind(&written, "Deployment");
        let variables = deployments[0].pointer("/spec/template/spec/containers/0/env").unwrap().as_array().unwrap();
        let excluded = variables.iter().find(|variable| variable["name"] == "EXCLUDE_MANIFESTS").unwrap();
        assert_eq!(excluded["value"], mode);
    }
}

/// A pod that no node may run waits for ever, so what is needed is said; and the daemon is told to keep to it.
#[test]
fn daemon_runs_on_nodes_of_the_control_plane_unless_any_node_will_do() {
    let table: [(&[&str], bool, &str, &str); 3] = [
        (&[], false, "", "for a cluster without such nodes use --any-node"),
        (&["--any-node"], true, "any-node", "runs on any node"),
        (
            &["--any-node", "--exclude-manifests", "least-privilege"],
            true,
            "least-privilege,any-node",
            "runs on any node",
        ),
    ];
    for (more, anywhere, mode, said) in table {
        let out = tempfile::tempdir().unwrap();
        let written = render_and_write(&parse(out.path(), Path::new(OURS), more).unwrap()).unwrap();
        assert!(written.text.contains(said), "{}", written.text);
        let documents = documents(&out.path().join("manifests"));
        let pod = of_kind(&documents, "Deployment")[0].pointer("/spec/template/spec").unwrap();
        assert_eq!(pod.pointer("/affinity/nodeAffinity").is_none(), anywhere, "{more:?}");
        let variables = pod.pointer("/containers/0/env").unwrap().as_array().unwrap();
        let excluded = variables.iter().find(|variable| variable["name"] == "EXCLUDE_MANIFESTS").unwrap();
        assert_eq!(excluded["value"], mode);
    }
}

#[test]
fn manifests_are_filled_in_with_one_cluster_version() {
    let out = tempfile::tempdir().unwrap();
    let written = render_and_write(&parse(out.path(), Path::new(OURS), &["--channel", "stable"]).unwrap()).unwrap();
    let folder = out.path().join("manifests");
    let first = documents(&folder);
    let deployments = of_kind(&first, "Deployment");
    let container = deployments[0].pointer("/spec/template/spec/containers/0").unwrap();
    assert_eq!(container["image"], IMAGE);
    assert!(container["args"].as_array().unwrap().contains(&Value::from(format!("--release-image={IMAGE}"))));
    let profile = container["env"].as_array().unwrap().iter().find(|e| e["name"] == "CLUSTER_PROFILE").unwrap();
    assert_eq!(profile["value"], DEFAULT_PROFILE);

    let versions = of_kind(&first, "ClusterVersion");
    let version: ClusterVersion = serde_json::from_value(versions[0].clone()).unwrap();
    assert_eq!(version.spec.channel, "stable");
    assert_eq!(uuid::Uuid::parse_str(&version.spec.cluster_id).unwrap().get_version_num(), 4);
    let position = |kind: &str| first.iter().position(|(_, value)| value["kind"] == kind).unwrap();
    assert!(position("CustomResourceDefinition") < position("ClusterVersion"));

    assert!(written.text.contains(&format!("cluster id {}", version.spec.cluster_id)), "{}", written.text);
    let written = render_and_write(&parse(out.path(), Path::new(OURS), &[]).unwrap()).unwrap();
    assert!(written.text.contains("kept unchanged"), "{}", written.text);
    assert_eq!(documents(&folder), first, "a second run keeps the cluster id");
    let error = render_and_write(&parse(out.path(), Path::new(OURS), &["--channel", "fast"]).unwrap()).unwrap_err();
    assert!(error.to_string().contains(CLUSTER_VERSION_FILE), "{error}");
}

#[test]
fn filters_and_overrides_leave_out_documents() {
    let source = tempfile::tempdir().unwrap();
    let manifests = source.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    let config_map = |name: &str, annotation: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: x\n  annotations:\n    \
             include.release.openshift.io/self-managed-high-availability: \"true\"\n    {annotation}\n"
        )
    };
    let text = [
        config_map("plain", "a: b"),
        config_map("gated", "release.openshift.io/feature-gate: Later"),
        config_map("preview", "release.openshift.io/feature-set: TechPreviewNoUpgrade"),
        config_map("unmanaged", "a: b"),
        config_map("elsewhere", "a: b").replace("self-managed-high-availability", "other"),
    ]
    .join("---\n");
    fs::write(manifests.join("0000_00_a_01.yaml"), text).unwrap();
    fs::write(manifests.join("0000_00_a_02.yaml"), daemon(DEFAULT_PROFILE)).unwrap();
    let version = source.path().join("version.yaml");
    let entry = "{kind: ConfigMap, group: \"\", namespace: x, name: unmanaged, unmanaged: true}";
    fs::write(
        &version,
        format!("apiVersion: {API_VERSION}\nkind: ClusterVersion\nmetadata: {{name: version}}\nspec: {{clusterID: a, overrides: [{entry}]}}\n"),
    )
    .unwrap();
    let gates = source.path().join("gates.yaml");
    fs::write(
        &gates,
        format!(
            "apiVersion: {API_VERSION}\nkind: FeatureGate\nmetadata: {{name: cluster}}\nspec: {{featureSet: TechPreviewNoUpgrade}}\n\
             status: {{featureGates: [{{version: \"\", enabled: [{{name: Later}}]}}]}}\n"
        ),
    )
    .unwrap();
    let (version, gates) = (version.display().to_string(), gates.display().to_string());
    let table: [(&[&str], &[&str]); 3] = [
        (&[], &["plain", "unmanaged"]),
        (&["--cluster-version-manifest-path", &version], &["plain"]),
        (&["--feature-gate-manifest-path", &gates], &["plain", "gated", "preview", "unmanaged"]),
    ];
    for (more, expected) in table {
        let out = tempfile::tempdir().unwrap();
        render_and_write(&parse(out.path(), &manifests, more).unwrap()).unwrap();
        let written = documents(&out.path().join("manifests"));
        let names: Vec<&str> =
            of_kind(&written, "ConfigMap").iter().map(|value| value["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{more:?}");
    }
}

/// A folder with all parts of a release.
fn sample() -> tempfile::TempDir {
    let source = tempfile::tempdir().unwrap();
    let manifest = |kind: &str, name: &str, more: &str| {
        format!(
            "apiVersion: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    \
             include.release.openshift.io/self-managed-high-availability: \"true\"\n{more}"
        )
    };
    let map = |name: &str| manifest("v1\nkind: ConfigMap", name, "");
    let pod =
        manifest("v1\nkind: Pod", "first", "spec: {image: '{{.ReleaseImage}}', other: '{{index .Images \"a\"}}'}\n");
    let policy = manifest("config.openshift.io/v1\nkind: ImagePolicy", "p", "spec: {text: '{{.ReleaseImage}}'}\n");
    let references =
        ImageReferences { name: "4.0.0".into(), tags: vec![references::Tag::image("a", "r/a")], created: None };
    let old = "    release.openshift.io/major-version: \"3\"\n";
    let crd = manifest("apiextensions.k8s.io/v1\nkind: CustomResourceDefinition", "old", old);
    let files = [
        ("manifests/0000_00_cluster-version-operator_01.yaml", map("own")),
        ("manifests/0000_00_cluster-version-operator_30.yaml", daemon(DEFAULT_PROFILE)),
        (LATE_FILES[0], map("late")),
        (LATE_FILES[1], map("late")),
        (LATE_FILES[2], map("late")),
        ("manifests/0000_90_cluster-version-operator_03_rules.yaml", map("rules")),
        ("release-manifests/0000_10_a_01.yaml", [map("other"), policy].join("---\n")),
        ("release-manifests/0000_10_a_02.yaml", map("other")),
        ("release-manifests/0000_00_cluster-version-operator_01.yaml", map("same-name")),
        (
            "release-manifests/release-metadata",
            String::from_utf8(ReleaseMetadata::new("4.0.0").unwrap().to_json().unwrap()).unwrap(),
        ),
        ("release-manifests/image-references", String::from_utf8(references.to_json().unwrap()).unwrap()),
        ("bootstrap/pod.yaml", [pod, crd].join("---\n")),
        ("bootstrap/none.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n".to_owned()),
        ("bootstrap/notes.txt", "{{.Unknown}}".to_owned()),
    ];
    for (path, text) in files {
        let path = if path.contains('/') { path.to_owned() } else { format!("manifests/{path}") };
        fs::create_dir_all(source.path().join(&path).parent().unwrap()).unwrap();
        fs::write(source.path().join(path), text).unwrap();
    }
    source
}

#[test]
fn folders_of_a_release_are_rendered() {
    let source = sample();
    let out = tempfile::tempdir().unwrap();
    let manifests = source.path().join("manifests");
    render_and_write(&parse(out.path(), &manifests, &[]).unwrap()).unwrap();
    let written = |folder: &str| -> Vec<(String, String)> {
        let all = documents(&out.path().join(folder)).into_iter();
        all.map(|(file, value)| (file, value["metadata"]["name"].as_str().unwrap().to_owned())).collect()
    };
    let named =
        |list: &[(&str, &str)]| list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
    let expected = [
        ("0000_00_cluster-version-operator_01.yaml", "own"),
        ("0000_00_cluster-version-operator_30.yaml", "cluster-version-operator"),
        (CLUSTER_VERSION_FILE, "version"),
        ("0000_10_a_01.yaml", "p"),
        ("0000_90_cluster-version-operator_03_rules.yaml", "rules"),
    ];
    let mut expected = named(&expected);
    expected.sort();
    assert_eq!(written("manifests"), expected);
    assert_eq!(written("bootstrap"), named(&[("pod.yaml", "first")]));
    let pod = documents(&out.path().join("bootstrap")).remove(0).1;
    assert_eq!((&pod["spec"]["image"], &pod["spec"]["other"]), (&Value::from(IMAGE), &Value::from("r/a")));
    let policies = documents(&out.path().join("manifests"));
    assert_eq!(of_kind(&policies, "ImagePolicy")[0]["spec"]["text"], "{{.ReleaseImage}}", "not a template");
}

#[test]
fn manifests_of_another_call_are_not_left_to_be_applied() {
    let (source, out) = (sample(), tempfile::tempdir().unwrap());
    let (manifests, folder) = (source.path().join("manifests"), out.path().join("manifests"));
    let run = |more: &[&str]| render_and_write(&parse(out.path(), &manifests, more).unwrap());
    run(&[]).unwrap();
    run(&[]).unwrap();
    let before = documents(&folder);
    let refused = |expected: &str| {
        let said = run(&[]).unwrap_err().to_string();
        assert!(said.contains(&format!("would be applied with the others: {expected}; remove them")), "{said}");
        assert_eq!(documents(&folder).len(), before.len() + usize::from(expected == "z.json"), "nothing is written");
    };
    fs::write(folder.join("notes.txt"), "not a manifest").unwrap();
    run(&[]).unwrap();
    fs::write(folder.join("z.json"), "{\"kind\": \"A\"}").unwrap();
    refused("z.json");
    fs::remove_file(folder.join("z.json")).unwrap();
    fs::write(out.path().join("bootstrap/old.yaml"), "kind: A\n").unwrap();
    refused("old.yaml");
    fs::remove_file(out.path().join("bootstrap/old.yaml")).unwrap();
    // A ClusterVersion of its own takes the place of the one that was written.
    let version = source.path().join("version.yaml");
    let text = format!(
        "apiVersion: {API_VERSION}\nkind: ClusterVersion\nmetadata: {{name: version}}\nspec: {{clusterID: a}}\n"
    );
    fs::write(&version, text).unwrap();
    let said = run(&["--cluster-version-manifest-path", &version.display().to_string()]).unwrap_err().to_string();
    assert!(said.contains(CLUSTER_VERSION_FILE), "{said}");
}

#[test]
fn folders_next_to_a_roundabout_path_are_found() {
    let source = sample();
    let manifests = source.path().join("manifests");
    fs::create_dir(manifests.join("folder")).unwrap();
    let (out, roundabout) = (tempfile::tempdir().unwrap(), manifests.join("folder/.."));
    render_and_write(&parse(out.path(), &roundabout, &[]).unwrap()).unwrap();
    assert_eq!(documents(&out.path().join("bootstrap")).len(), 1);
    assert_eq!(of_kind(&documents(&out.path().join("manifests")), "ImagePolicy").len(), 1);
}

#[test]
fn unknown_templates_are_reported_together() {
    let (source, out) = (sample(), tempfile::tempdir().unwrap());
    let manifests = source.path().join("manifests");
    for file in ["bootstrap/a.yaml", "bootstrap/b.yaml", "manifests/c.yaml"] {
        fs::write(source.path().join(file), "kind: {{.Unknown}}\n").unwrap();
    }
    let error = format!("{:#}", render_and_write(&parse(out.path(), &manifests, &[]).unwrap()).unwrap_err());
    for part in [
        "manifests/c.yaml: line 1: {{.Unknown}} is not known",
        "/bootstrap cannot be used: a.yaml: line 1",
        "; b.yaml: line 1",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn invalid_input_is_reported_with_place_and_remedy() {
    let source = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let empty = source.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let strange = source.path().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("0000_00_a_01.yaml"), "kind: {{.Unknown}}\n").unwrap();
    let two = source.path().join("two.yaml");
    fs::write(&two, "a: 1\n---\nb: 2\n").unwrap();
    let two = two.display().to_string();
    let missing = source.path().join("missing");
    let gone = source.path().join("missing/..");
    let others = source.path().join("others");
    fs::create_dir(&others).unwrap();
    fs::write(others.join("0000_00_a_01.yaml"), daemon(DEFAULT_PROFILE).replace("cluster-version-operator", "x"))
        .unwrap();
    let table: [(&Path, &[&str], &str); 9] = [
        (&gone, &[], "--manifests-dir"),
        (Path::new(OURS), &["--cluster-profile", "nope"], "the cluster profile nope: give"),
        (Path::new(OURS), &["--cluster-profile", "nope"], "--manifests-dir"),
        (&others, &[], "no Deployment cluster-version-operator, with the cluster profile self-managed"),
        (&missing, &[], "--manifests-dir"),
        (&empty, &[], "contains no manifest"),
        (&strange, &[], "0000_00_a_01.yaml"),
        (Path::new(OURS), &["--feature-gate-manifest-path", &two], "two.yaml contains 2 documents"),
        (Path::new(OURS), &["--cluster-profile", ""], "CLUSTER_PROFILE"),
    ];
    for (manifests, more, expected) in table {
        let error = format!("{:#}", render_and_write(&parse(out.path(), manifests, more).unwrap()).unwrap_err());
        assert!(error.contains(expected), "{error}");
        assert!(!out.path().join("manifests").exists(), "nothing is written: {error}");
    }
    let both = ["--cluster-version-manifest-path", two.as_str(), "--channel", "x"];
    assert!(parse(out.path(), Path::new(OURS), &both).is_err(), "contradictory flags");
}

/// Profiles of clusters whose daemon runs elsewhere, and overrides, exclude its Deployment on purpose.
#[test]
fn excluded_daemon_is_a_warning() {
    let source = tempfile::tempdir().unwrap();
    let hosted = |name: &str| daemon("hosted").replace("name: cluster-version-operator", &format!("name: {name}"));
    fs::write(source.path().join("a.yaml"), daemon(DEFAULT_PROFILE)).unwrap();
    fs::write(source.path().join("b.yaml"), hosted("b")).unwrap();
    let warned = |more: &[&str]| {
        let args = parse(Path::new("out"), source.path(), more).unwrap();
        render(&args).unwrap().warning.unwrap_or_default()
    };
    let warning = warned(&["--cluster-profile", "hosted"]);
    assert!(warning.contains("is excluded with the cluster profile hosted"), "{warning}");
    assert_eq!(warned(&[]), "");
    let version = source.path().join("version.txt");
    let entry = "{kind: Deployment, group: apps, namespace: x, name: cluster-version-operator, unmanaged: true}";
    let text = format!("apiVersion: {API_VERSION}\nkind: ClusterVersion\nspec: {{overrides: [{entry}]}}\n");
    fs::write(&version, text).unwrap();
    let args =
        parse(Path::new("out"), source.path(), &["--cluster-version-manifest-path", &version.display().to_string()]);
    let rendered = render(&args.unwrap()).unwrap();
    assert!(rendered.warning.is_none() && rendered.manifests.is_empty(), "{:?}", rendered.manifests);
}
