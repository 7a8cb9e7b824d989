use super::*;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::bundle::read;
use crate::olm::plan::step;
use serde_json::{Value, json};

/// A bundle `a.v1` with a definition of so many bytes and a small one.
fn bundle(size: usize) -> Bundle {
    let definition = |kind: &str, size: usize| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{kind}s.g"), "annotations": {"text": "\"".repeat(size / 2)}},
            "spec": {"group": "g", "names": {"kind": kind, "plural": format!("{kind}s")},
            "versions": [{"name": "v1", "served": true, "storage": true}]}})
        .to_string()
    };
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a.v1"},
        "spec": {"description": "a".repeat(5_000), "install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    read::manifests("a", &[csv.to_string(), definition("large", size), definition("small", 0)]).unwrap()
}

const PROPERTIES: [(&str, &str); 1] = [("olm.package", "a")];

fn owned() -> Vec<(String, Value)> {
    PROPERTIES
        .iter()
        .map(|(kind, value)| ((*kind).to_owned(), json!({"packageName": value, "version": "1.0.0"})))
        .collect()
}

fn steps(bundle: &Bundle) -> Vec<Step> {
    let properties = owned();
    let chosen =
        Chosen { bundle, namespace: "shop", replaces: "a.v0", catalog: ("olm", "main"), properties: &properties };
    steps::of_bundle(&chosen).unwrap()
}

fn referred(bundle: &Bundle, limit: usize) -> (bool, Vec<Step>) {
    let mut parts = [Part { package: "a", image: "r/a@sha256:1", steps: steps(bundle) }];
    let is_referred = refer(&mut parts, limit);
    let [part] = parts;
    (is_referred, part.steps)
}

fn status() -> InstallPlanStatus {
    let lookup = json!({"path": "r/a@sha256:1", "identifier": "a.v1", "replaces": "a.v0", "catalogSourceRef": {},
        "properties": steps::properties_annotation(&owned())});
    serde_json::from_value(json!({"phase": "", "catalogSources": [], "bundleLookups": [lookup]})).unwrap()
}

fn plan() -> InstallPlan {
    InstallPlan::new("install-a", Default::default())
}

fn kinds(steps: &[Step]) -> Vec<&str> {
    let is_referred = |step: &&Step| Reference::of(&step.resource.manifest).is_some();
    steps.iter().filter(is_referred).map(|step| step.resource.name.as_str()).collect()
}

#[test]
fn largest_manifests_are_referred_to_until_the_rest_fits() {
    let bundle = bundle(600_000);
    let (is_referred, steps) = referred(&bundle, INLINE);
    assert_eq!((is_referred, kinds(&steps)), (true, vec!["larges.g"]));
    assert!(serde_json::to_string(&steps).unwrap().len() < INLINE);
    insta::assert_snapshot!(steps[1].resource.manifest.split_once("sha256\":").unwrap().0, @r#"{"kind":"Bundle","name":"a.v1","package":"a","image":"r/a@sha256:1","catalogSourceName":"main","catalogSourceNamespace":"olm",""#);
    // What stands in the plan is counted as JSON has it, in which quotes take two bytes.
    assert_eq!(referred(&self::bundle(200_000), INLINE), (false, self::steps(&self::bundle(200_000))));
    assert_eq!(kinds(&referred(&self::bundle(300_000), INLINE).1), ["larges.g"]);
    // Of what is small nothing would be won.
    assert_eq!(kinds(&referred(&bundle, 0).1), ["a.v1", "larges.g"]);
}

#[test]
fn what_a_step_refers_to_is_found_in_its_bundle_and_nothing_else_is() {
    let large = bundle(600_000);
    let (_, with) = referred(&large, 0);
    let references: BTreeSet<Reference> = with.iter().filter_map(|it| Reference::of(&it.resource.manifest)).collect();
    assert_eq!(references.len(), 2);
    let read = |found: &Found, step: &Step| step::read(&plan(), 0, step, found).map(|item| item.object);
    let mut found = Found::default();
    found.add(&large, "shop", &status(), &references);
    for (step, whole) in with.iter().zip(steps(&large)) {
        let expected: Value = serde_json::from_str(&whole.resource.manifest).unwrap();
        assert_eq!(read(&found, step).unwrap(), expected, "{}", step.resource.name);
    }
    // Another content under the same name is none, nor is another ClusterServiceVersion.
    let mut other = Found::default();
    other.add(&bundle(600_100), "shop", &InstallPlanStatus::default(), &references);
    for (step, name) in [(&with[0], "a.v1"), (&with[1], "larges.g")] {
        let error = read(&other, step).unwrap_err().to_string();
        assert!(
            error.starts_with("its manifest is in bundle r/a@sha256:1: it has no manifest with SHA-256 "),
            "{name}: {error}"
        );
    }
    let mut failed = Found::default();
    failed.fail(&references, "the registry is down");
    let error = read(&failed, &with[1]).unwrap_err().to_string();
    assert_eq!(error, "its manifest is in bundle r/a@sha256:1: the registry is down");
}

#[test]
fn text_is_a_reference_by_its_kind() {
    let reference = json!({"kind": "Bundle", "name": "a.v1", "package": "a", "catalogSourceName": "main",
        "catalogSourceNamespace": "olm", "sha256": "0"});
    assert!(Reference::of(&reference.to_string()).is_some_and(|it| it.image.is_empty()));
    let with = |key: &str, value: Value| {
        let mut reference = reference.clone();
        reference[key] = value;
        Reference::of(&reference.to_string())
    };
    assert_eq!(with("kind", json!("ConfigMap")), None);
    assert_eq!(with("sha256", json!(0)), None);
    assert_eq!(with("name", json!("a".repeat(5_000))), None, "too long");
    for text in ["", "{", "[]", r#"{"kind":"Bundle"}"#] {
        assert_eq!(Reference::of(text), None, "{text}");
    }
}

/// As another program writes it: each file compressed and in Base64, which JSON has in Base64 once more.
fn unpacked(files: &[(&str, String)]) -> Value {
    let packed = |text: &str| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
        let engine = base64::engine::general_purpose::STANDARD;
        let once = base64::Engine::encode(&engine, writer.finish().unwrap());
        base64::Engine::encode(&engine, once)
    };
    let data: serde_json::Map<String, Value> =
        files.iter().map(|(name, text)| ((*name).to_owned(), json!(packed(text)))).collect();
    json!({"metadata": {"annotations": {"olm.contentEncoding": "gzip+base64"}}, "binaryData": data})
}

#[test]
fn what_another_program_has_unpacked_is_read_from_its_config_map() {
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a.v1"},
        "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    let files = [("csv.yaml", csv.to_string()), ("secret.yaml", object("Secret", "s").to_string())];
    let text = json!({"kind": "ConfigMap", "name": "0123", "namespace": "olm", "catalogSourceName": "main",
        "catalogSourceNamespace": "olm", "replaces": "a.v0", "properties": steps::properties_annotation(&owned())})
    .to_string();
    let reference = Unpacked::of(&text).unwrap();
    let step = |group: &str, kind: &str, name: &str| -> Step {
        serde_json::from_value(
            json!({"resolving": "a.v1", "status": "Unknown", "resource": {"group": group, "version": "v1",
            "kind": kind, "name": name, "manifest": text, "sourceName": "", "sourceNamespace": ""}}),
        )
        .unwrap()
    };
    let read = |found: &Found, step: &Step| step::read(&plan(), 0, step, found).map(|item| item.object);
    let mut found = Found::default();
    found.add_unpacked(reference.clone(), "shop", read::unpacked(&unpacked(&files)));
    let of_csv = read(&found, &step("operators.coreos.com", "ClusterServiceVersion", "a.v1")).unwrap();
    assert_eq!((&of_csv["spec"]["replaces"], &of_csv["metadata"]["namespace"]), (&json!("a.v0"), &json!("shop")));
    assert_eq!(read(&found, &step("", "BundleSecret", "s")).unwrap()["kind"], "Secret");
    let missing = read(&found, &step("", "ServiceAccount", "other")).unwrap_err().to_string();
    assert!(missing.starts_with("its manifest is in ConfigMap olm/0123: it has no ServiceAccount other"), "{missing}");
    // A ConfigMap that is a step itself is no reference.
    assert_eq!(Unpacked::of(&object("ConfigMap", "c").to_string()), None);
    let mut broken = unpacked(&files);
    broken["binaryData"]["csv.yaml"] = json!("nonsense");
    let mut found = Found::default();
    found.add_unpacked(reference, "shop", read::unpacked(&broken));
    let error = read(&found, &step("", "BundleSecret", "s")).unwrap_err().to_string();
    assert!(error.starts_with("its manifest is in ConfigMap olm/0123: csv.yaml: "), "{error}");
}

#[test]
fn files_that_unpack_to_more_than_a_bundle_may_have_are_refused() {
    let bomb = unpacked(&[("a.yaml", " ".repeat(33 << 20))]);
    assert_eq!(read::unpacked(&bomb).unwrap_err(), format!("it has more than {} bytes", 32 << 20));
}
