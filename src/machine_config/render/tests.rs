use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn defaults() -> Defaults {
    Defaults {
        controller_version: "v1".to_owned(),
        generated: [("ControllerConfig machine-config-controller".to_owned(), Some("v1".to_owned()))].into(),
        release_version: "4.20.0".to_owned(),
        os_image: "registry.example/os@sha256:aa".to_owned(),
        extensions_image: "registry.example/extensions@sha256:bb".to_owned(),
        os_image_stream: None,
    }
}

/// A MachineConfig of people.
fn input(role: &str, name: &str, spec: Value) -> MachineConfig {
    let mut input = MachineConfig::new(name, serde_json::from_value(spec).unwrap());
    input.metadata.labels = Some([(ROLE_LABEL.to_owned(), role.to_owned())].into());
    input
}

/// One that a controller of this version has generated.
fn generated(role: &str, name: &str, version: &str, spec: Value) -> MachineConfig {
    let mut input = input(role, name, spec);
    input.metadata.annotations = Some([(GENERATED_BY.to_owned(), version.to_owned())].into());
    input
}

fn file(path: &str, source: &str) -> Value {
    let files = json!([{"path": path, "contents": {"source": source}}]);
    json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": files}}})
}

fn rendered(inputs: &[MachineConfig]) -> Rendered {
    render("infra", inputs, &defaults()).unwrap()
}

fn error(inputs: &[MachineConfig]) -> String {
    render("infra", inputs, &defaults()).unwrap_err().to_string()
}

fn source(rendered: &Rendered, path: &str) -> String {
    let ignition = Ignition::read(&rendered.spec.config).unwrap().ignition;
    let file = ignition.config().storage.files.iter().find(|file| file.path == path).unwrap();
    file.contents.source.clone().unwrap()
}

#[test]
fn what_a_pool_adds_overrides_what_it_shares_with_the_workers_whatever_the_names_are() {
    let inputs = [
        input("infra", "10-b", file("/etc/a", "data:,infra")),
        input("worker", "99-a", file("/etc/a", "data:,worker")),
    ];
    assert_eq!(source(&rendered(&inputs), "/etc/a"), "data:,infra");
    let inputs = [inputs[1].clone(), input("worker", "10-b", file("/etc/a", "data:,earlier"))];
    assert_eq!(source(&rendered(&inputs), "/etc/a"), "data:,worker");
}

#[test]
fn sources_are_listed_in_the_order_in_which_they_are_merged() {
    let inputs = ["infra 00-a", "worker 99-z", "infra 50-b", "worker 00-a", "master 01-x"].map(|input_| {
        let (role, name) = input_.split_once(' ').unwrap();
        input(role, name, json!({}))
    });
    let rendered = rendered(&inputs);
    let names: Vec<_> = rendered.source.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["00-a", "99-z", "00-a", "01-x", "50-b"]);
    let first = &rendered.source[0];
    assert_eq!(
        (first.kind.as_str(), first.api_version.as_str()),
        ("MachineConfig", "machineconfiguration.openshift.io/v1")
    );
}

#[test]
fn plain_contents_in_place_of_compressed_ones_are_not_compressed() {
    let compressed = json!({"source": "data:;base64,H4sIAAAAAAAC/wMAAAAAAAAAAAA=", "compression": "gzip"});
    let files = json!([{"path": "/etc/a", "contents": compressed}]);
    let inputs = [
        input("worker", "00", json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": files}}})),
        input("worker", "01", file("/etc/a", "data:,plain")),
    ];
    let contents = rendered(&inputs).spec.config.pointer("/storage/files/0/contents").cloned();
    assert_eq!(contents, Some(json!({"source": "data:,plain"})));
}

#[test]
fn files_are_overwritten_unless_an_input_says_otherwise() {
    let rendered = rendered(&[input("worker", "00", file("/etc/a", "data:,a"))]);
    assert_eq!(rendered.spec.config.pointer("/storage/files/0/overwrite"), Some(&json!(true)));
}

#[test]
fn every_field_is_merged_by_its_own_rule() {
    let inputs = [
        input(
            "worker",
            "00",
            json!({"kernelArguments": ["a b", "c"], "extensions": ["usbguard"], "kernelType": "64k-pages"}),
        ),
        input(
            "worker",
            "01",
            json!({"kernelArguments": ["a b"], "fips": true, "kernelType": "realtime", "config": {}}),
        ),
        input("infra", "02", json!({"extensions": ["usbguard", "ipsec"], "kernelType": "default"})),
    ];
    assert_eq!(
        rendered(&inputs).spec,
        MachineConfigSpec {
            config: json!({"ignition": {"version": "3.5.0"}}),
            os_image_url: "registry.example/os@sha256:aa".to_owned(),
            base_os_extensions_container_image: "registry.example/extensions@sha256:bb".to_owned(),
            kernel_arguments: ["a b", "c", "a b"].map(str::to_owned).to_vec(),
            extensions: ["usbguard", "usbguard", "ipsec"].map(str::to_owned).to_vec(),
            fips: true,
            kernel_type: "realtime".to_owned(),
        }
    );
    assert_eq!(rendered(&[input("worker", "00", json!({}))]).spec.kernel_type, "default");
}

#[test]
fn only_people_can_replace_the_operating_system() {
    let own = "registry.example/own@sha256:cc";
    let by_controller =
        generated("worker", "99-z", "v1", json!({"osImageURL": "old", "baseOSExtensionsContainerImage": "old"}));
    let released = rendered(std::slice::from_ref(&by_controller));
    assert_eq!(released.spec.os_image_url, defaults().os_image);
    assert_eq!(released.spec.base_os_extensions_container_image, defaults().extensions_image);
    assert_eq!(released.annotations.get(OS_IMAGE_OVERRIDDEN), None);

    let by_people = [
        input("worker", "10-a", json!({"osImageURL": "registry.example/first@sha256:dd"})),
        input("worker", "20-b", json!({"osImageURL": own, "baseOSExtensionsContainerImage": "extensions"})),
        input("worker", "30-c", json!({})),
        by_controller,
    ];
    let replaced = rendered(&by_people);
    assert_eq!(replaced.spec.os_image_url, own);
    assert_eq!(replaced.spec.base_os_extensions_container_image, "extensions");
    assert_eq!(replaced.annotations.get(OS_IMAGE_OVERRIDDEN).map(String::as_str), Some("true"));
    assert_eq!(replaced.warnings, Vec::<String>::new());

    let with_stream = Defaults { os_image_stream: Some("rhel-10".to_owned()), ..defaults() };
    assert_eq!(
        render("infra", &by_people, &with_stream).unwrap_err().to_string(),
        "MachineConfig 20-b: osImageURL replaces the operating system, and MachineConfigPool infra asks for the one of the \
         stream rhel-10; remove osImageURL, or osImageStream from the pool"
    );
    render("infra", &by_people[2..], &with_stream).unwrap();
}

#[test]
fn an_operating_system_that_is_named_by_a_tag_is_a_warning() {
    let rendered = rendered(&[input("worker", "00", json!({"osImageURL": "registry.example/own:latest"}))]);
    assert_eq!(
        rendered.warnings,
        [
            "MachineConfig 00: osImageURL is \"registry.example/own:latest\", which can mean another image on each node; \
             name the image by its digest"
        ]
    );
}

#[test]
fn naming_the_operating_system_of_the_release_overrides_nothing() {
    let same = [input("worker", "00", json!({"osImageURL": defaults().os_image}))];
    assert_eq!(rendered(&same).annotations.get(OS_IMAGE_OVERRIDDEN), None);
    let with_stream = Defaults { os_image_stream: Some("rhel-10".to_owned()), ..defaults() };
    render("infra", &same, &with_stream).unwrap();
}

#[test]
fn nothing_is_rendered_of_inputs_of_another_controller_version() {
    let inputs = [input("worker", "99-own", json!({})), generated("worker", "01-worker-kubelet", "v0", json!({}))];
    assert_eq!(
        error(&inputs),
        "MachineConfig 01-worker-kubelet was generated by controller version v0, and this controller is v1; \
         rendering waits until it is generated anew"
    );
    let inputs = [generated("worker", "01-worker-kubelet", "v1", json!({}))];
    rendered(&inputs);
    for (found, word) in [(Some("v2"), "v2"), (None, "none")] {
        let generated = [("ControllerConfig x".to_owned(), found.map(str::to_owned))].into();
        let error = render("infra", &inputs, &Defaults { generated, ..defaults() }).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "ControllerConfig x was generated by controller version {word}, and this controller is v1; "
            )),
            "{error}"
        );
    }
}

#[test]
fn a_pool_without_inputs_is_an_error() {
    assert_eq!(
        error(&[]),
        "MachineConfigPool infra selects no MachineConfig; label MachineConfigs as its machineConfigSelector says"
    );
}

#[test]
fn an_invalid_input_is_named_with_its_field() {
    let spec = |path: &str| file(path, "data:,a");
    for (spec, expected) in [
        (
            json!({"kernelType": "rt"}),
            "kernelType is \"rt\", and the types are default, 64k-pages and realtime; set one of them, or leave it out",
        ),
        (
            json!({"extensions": ["vim"]}),
            "extensions has \"vim\", and the extensions are ipsec, kerberos, kernel-devel, sandboxed-containers, sysstat, \
             two-node-ha, usbguard; remove it",
        ),
        (
            json!({"kernelArguments": ["a\nb"]}),
            "kernelArguments has \"a\\nb\", which contains a control character and cannot be on a kernel command line; remove it",
        ),
        (
            spec("/dev/a"),
            "storage.files[/dev/a].path is the path \"/dev/a\", where the kernel provides all files; use kernel arguments, a sysctl file, a udev rule or a unit instead",
        ),
        (
            file("/etc/machine-config-daemon/currentconfig", "data:,"),
            "storage.files[/etc/machine-config-daemon/currentconfig].path is the path \
             \"/etc/machine-config-daemon/currentconfig\", where the agent of a node keeps what it has to know; write to \
             another folder",
        ),
        (
            json!({"config": []}),
            "config is a list, and an Ignition configuration is a JSON object; write one, or leave config out",
        ),
    ] {
        let inputs =
            [input("worker", "00", json!({})), input("worker", "50-bad", spec), input("worker", "99", json!({}))];
        assert_eq!(error(&inputs), format!("MachineConfig 50-bad: {expected}"));
    }
}

#[test]
fn inputs_that_contradict_each_other_are_an_error_of_the_later_one() {
    let inputs =
        [input("worker", "50-b", file("/etc/a/b", "data:,b")), input("worker", "00-a", file("/etc/a", "data:,a"))];
    let error = error(&inputs);
    assert!(
        error.starts_with("MachineConfig 50-b contradicts those merged before it: storage.files[/etc/a/b].path is "),
        "{error}"
    );
}

#[test]
fn warnings_about_an_input_name_it() {
    let input = input("worker", "00-a", json!({"config": {"ignition": {"version": "3.2.0"}, "systmd": {}}}));
    assert_eq!(
        rendered(&[input]).warnings,
        ["MachineConfig 00-a: systmd is ignored: Ignition has no such field; correct its name"]
    );
}

#[test]
fn kernel_devel_is_for_the_default_kernel_only() {
    let devel = input("worker", "10-devel", json!({"extensions": ["kernel-devel"]}));
    let realtime = input("worker", "20-rt", json!({"kernelType": "realtime"}));
    rendered(std::slice::from_ref(&devel));
    assert_eq!(
        error(&[realtime, devel]),
        "MachineConfig 10-devel: extensions has kernel-devel, which exists for the default kernel only, and kernelType is \
         realtime by MachineConfig 20-rt; remove one of them"
    );
}

#[test]
fn a_rendered_machine_config_can_have_1572864_bytes_and_no_more() {
    let of = |length: usize| {
        let large = input("worker", "50-large", file("/etc/a", &format!("data:,{}", "a".repeat(length))));
        render("infra", &[input("worker", "00-small", json!({})), large], &defaults())
    };
    let size = |rendered: &Rendered| serde_json::to_vec(&rendered.object()).unwrap().len();
    let least = size(&of(0).unwrap());
    let largest = of(1_572_864 - least).unwrap();
    assert_eq!(size(&largest), 1_572_864);
    assert_eq!(
        largest.warnings,
        ["the configuration of MachineConfigPool infra has 1572864 bytes of JSON, and at most 1572864 can be stored; \
             make its inputs smaller before it no longer can be"]
    );
    assert_eq!(of(1_200_000).unwrap().warnings, Vec::<String>::new());
    let error = of(1_572_865 - least).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the configuration of MachineConfigPool infra has 1572865 bytes of JSON, and at most 1572864 can be stored; \
             make its inputs smaller, of which MachineConfig 50-large is the largest with "
        ),
        "{error}"
    );
}

#[test]
fn files_that_are_too_large_together_are_an_error_of_the_pool() {
    use base64::Engine;
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 30 << 20]).unwrap();
    let source = base64::engine::general_purpose::STANDARD.encode(gzip.finish().unwrap());
    let inputs = ["a", "b", "c"].map(|name| {
        let contents = json!({"source": format!("data:;base64,{source}"), "compression": "gzip"});
        let files = json!([{"path": format!("/etc/{name}"), "contents": contents}]);
        input("worker", name, json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}}))
    });
    rendered(&inputs[..2]);
    assert_eq!(
        error(&inputs),
        "the configuration of MachineConfigPool infra cannot be used: storage.files: the files together have more than 64 MiB \
         when they are decoded; keep large files in an image"
    );
}

#[test]
fn the_same_spec_has_the_same_name_in_another_release() {
    let inputs = [input("worker", "00", file("/etc/a", "data:,a"))];
    let now = rendered(&inputs);
    let next = Defaults { release_version: "4.21.0".to_owned(), controller_version: "v2".to_owned(), ..defaults() };
    let next = render("infra", &inputs, &Defaults { generated: BTreeMap::new(), ..next }).unwrap();
    assert_eq!((&next.name, &next.spec), (&now.name, &now.spec));
    let annotations = |rendered: &Rendered| {
        [GENERATED_BY, RELEASE_VERSION].map(|name| rendered.annotations.get(name).cloned().unwrap())
    };
    assert_eq!(annotations(&now), ["v1", "4.20.0"]);
    assert_eq!(annotations(&next), ["v2", "4.21.0"]);
    let object = next.object();
    assert_eq!(object.metadata.name.as_deref(), Some(next.name.as_str()));
    assert_eq!(object.metadata.annotations, Some(next.annotations));
}

/// With another name every node of every cluster would pass through an update that changes nothing.
#[test]
fn names_are_the_same_in_every_version_of_this_program() {
    let rendered = rendered(&[input("worker", "00", file("/etc/a", "data:,a"))]);
    let hex = rendered.name.strip_prefix("rendered-infra-").unwrap();
    assert_eq!(hex, "acaecf644f5f6c8a4892005e95c4ac9d");
}

#[test]
fn another_spec_has_another_name() {
    let name = |spec: Value| rendered(&[input("worker", "00", spec)]).name;
    let names = [
        name(json!({})),
        name(json!({"fips": true})),
        name(json!({"kernelType": "realtime"})),
        name(json!({"kernelArguments": ["a"]})),
        name(json!({"extensions": ["ipsec"]})),
        name(json!({"osImageURL": "a@sha256:b"})),
        name(file("/etc/a", "data:,a")),
        name(file("/etc/a", "data:,b")),
    ];
    assert_eq!(std::collections::BTreeSet::from(names).len(), 8);
}

/// Many inputs that speak of the same few things.
fn inputs() -> impl Strategy<Value = Vec<MachineConfig>> {
    let role = prop::sample::select(&["worker", "infra", "master"][..]);
    let path = prop::sample::select(&["/etc/a", "/etc/b", "/etc/c"][..]);
    let kernel = prop::sample::select(&["", "default", "realtime", "64k-pages"][..]);
    let input_ = (role, path, 0..9, kernel, any::<bool>());
    prop::collection::vec(input_, 1..7).prop_map(|inputs| {
        let spec = |path, source, kernel: &str, fips| {
            let mut spec = file(path, &format!("data:,{source}"));
            spec["kernelType"] = json!(kernel);
            spec["fips"] = json!(fips);
            spec["kernelArguments"] = json!([format!("a={source}")]);
            spec
        };
        let all = inputs.into_iter().enumerate();
        all.map(|(at, (role, path, source, kernel, fips))| {
            input(role, &format!("{source}-{at}"), spec(path, source, kernel, fips))
        })
        .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_in_which_inputs_are_given_does_not_matter(
        (inputs, shuffled) in inputs().prop_flat_map(|inputs| (Just(inputs.clone()), Just(inputs).prop_shuffle())),
    ) {
        prop_assert_eq!(rendered(&shuffled), rendered(&inputs));
    }

    #[test]
    fn an_input_that_sets_nothing_changes_nothing(inputs in inputs(), name in "[0-9]-x") {
        let mut more = inputs.clone();
        more.push(input("worker", &name, json!({})));
        prop_assert_eq!(rendered(&more).name, rendered(&inputs).name);
    }
}
