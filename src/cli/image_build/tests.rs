use super::*;

/// An ELF header followed by a program header table with these types.
pub(crate) fn elf(machine: u8, headers: &[u8]) -> Vec<u8> {
    let mut program = vec![0; 64];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (program[18], program[32], program[54], program[56]) = (machine, 64, 56, headers.len() as u8);
    for kind in headers {
        program.extend([&[*kind, 0, 0, 0][..], &[0; 52]].concat());
    }
    program
}

fn recipe(dir: &Path) -> Recipe {
    std::fs::write(dir.join("program"), elf(62, &[1, 2])).unwrap();
    std::fs::write(dir.join("ca"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    std::fs::create_dir_all(dir.join("m/sub")).unwrap();
    std::fs::write(dir.join("m/a.yaml"), "a").unwrap();
    std::fs::write(dir.join("m/sub/x"), "x").unwrap();
    Recipe {
        binary: dir.join("program"),
        binary_path: "/usr/bin/lab".into(),
        entrypoint: Vec::new(),
        user: None,
        manifests: Some(dir.join("m")),
        copies: vec![(dir.join("m"), "/data/".into())],
        labels: BTreeMap::new(),
        ca_bundle: Some(dir.join("ca")),
        packing: Packing::USUAL,
        created: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn only_static_programs_are_accepted() {
    assert_eq!(static_architecture(&elf(62, &[1, 2])).unwrap(), "amd64");
    assert_eq!(static_architecture(&elf(183, &[1])).unwrap(), "arm64");
    let table: [(Vec<u8>, &str); 4] = [
        (elf(62, &[1, 3]), "linked dynamically"),
        (elf(8, &[1]), "machine type 8"),
        (b"#!/bin/sh".to_vec(), "not a 64-bit"),
        (elf(62, &[1, 1])[..80].to_vec(), "cut off"),
    ];
    for (program, expected) in table {
        let error = static_architecture(&program).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn image_contains_what_was_requested() {
    let dir = tempfile::tempdir().unwrap();
    let built = build(&recipe(dir.path())).unwrap();
    let mut seen = BTreeMap::new();
    for layer in &built.layers {
        let bytes = layer.bytes.whole();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            seen.insert(entry.path().unwrap().to_str().unwrap().to_string(), entry.header().mode().unwrap());
        }
    }
    let expected = [
        ("data/a.yaml", 0o444),
        ("data/sub/x", 0o444),
        ("etc/ssl/certs/ca-certificates.crt", 0o444),
        ("manifests/a.yaml", 0o444),
        ("usr/bin/lab", 0o755),
    ];
    assert_eq!(seen, expected.map(|(path, mode)| (path.to_string(), mode)).into());
    assert_eq!(built.image.config["config"]["Entrypoint"], serde_json::json!(["/usr/bin/lab"]));
    assert_eq!(built.image.config["architecture"], "amd64");
    assert_eq!(build(&recipe(dir.path())).unwrap().image.digest, built.image.digest, "the same again");
    assert!(built.image.config["config"].get("User").is_none());
    let of_nobody = build(&Recipe { user: Some(65534), ..recipe(dir.path()) }).unwrap();
    assert_eq!(
        of_nobody.image.config["config"]["User"], "65534",
        "a number, by which kubelet knows that it is not root"
    );
}

#[test]
fn missing_or_invalid_input_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let good = recipe(dir.path());
    let cases: [(Recipe, &str); 4] = [
        (Recipe { binary: dir.path().join("absent"), ..good.clone() }, "absent"),
        (Recipe { ca_bundle: Some(dir.path().join("program")), ..good.clone() }, "no certificates"),
        (Recipe { copies: vec![(dir.path().join("ca"), "/../x".into())], ..good.clone() }, "../x"),
        (Recipe { manifests: Some(dir.path().join("nowhere")), ..good }, "nowhere"),
    ];
    for (recipe, expected) in cases {
        let message = format!("{:#}", build(&recipe).unwrap_err());
        assert!(message.contains(expected), "{message}");
    }
}
