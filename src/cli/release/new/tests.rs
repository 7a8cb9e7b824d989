use super::*;
use clap::Parser;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: NewArgs,
}

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    dir
}

#[test]
fn folder_is_one_component_or_contains_several() {
    let several = tree(&[("net/a.yaml", "a"), ("net/b.json", "b"), ("net/README.md", ""), ("web/a.yml", "c")]);
    let sources = Sources::read(&[several.path().into()]).unwrap();
    let seen: Vec<_> = sources.components.iter().map(|c| (c.name.as_str(), c.manifests.len())).collect();
    assert_eq!(seen, [("net", 2), ("web", 1)]);

    let one = tree(&[("dns/manifests/a.yaml", "a"), ("dns/manifests/image-references", "x")]);
    let sources = Sources::read(&[one.path().join("dns/manifests")]).unwrap();
    assert_eq!(sources.components[0].name, "dns");
    assert_eq!(sources.components[0].placeholders.as_deref(), Some(b"x".as_slice()));
}

#[test]
fn invalid_folders_are_refused() {
    let table = [
        (vec![("net/a.yaml", ""), ("b.yaml", "")], "next to folders"),
        (vec![("net/sub/a.yaml", "")], "inside a component"),
        (vec![("net/README", "")], "contains no manifests"),
        (vec![("net_x/a.yaml", "")], "not a valid component name"),
        (vec![("net/a.yaml", ""), ("image-references", "kind: Pod\napiVersion: v1\nspec: {}")], "ImageStream"),
        (
            vec![
                ("net/a.yaml", ""),
                (
                    "image-references",
                    "{kind: ImageStream, apiVersion: image.openshift.io/v1, spec: {tags: [{name: a, from: {kind: DockerImage, name: 'r/a:1'}}]}}",
                ),
            ],
            "write r/a@sha256:HEX",
        ),
    ];
    for (files, expected) in table {
        let dir = tree(&files);
        let message = Sources::read(&[dir.path().into()]).unwrap_err().to_string();
        assert!(message.contains(expected), "{files:?}: {message}");
    }
    let dir = tree(&[("net/a.yaml", "")]);
    let twice = Sources::read(&[dir.path().into(), dir.path().join("net")]).unwrap_err().to_string();
    assert!(twice.contains("component net is in"), "{twice}");
    let absent = format!("{:#}", Sources::read(&["/nowhere/at/all".into()]).unwrap_err());
    assert!(absent.contains("/nowhere/at/all") && absent.contains("No such file"), "{absent}");
}

/// A mistake on disk or on the command line is reported without a request to the registry.
#[tokio::test]
async fn disk_and_arguments_are_checked_before_the_registry_is_asked() {
    let registry = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    registry.set_nonblocking(true).unwrap();
    let address = registry.local_addr().unwrap();
    let good = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}";
    let dir = tree(&[("good/a.yaml", good), ("bad/a.yaml", "kind: {"), ("full/x", "")]);
    let place = dir.path().display();
    let good = format!("--from-dir {place}/good");
    let image = format!("--to-image {address}/release:1");
    let cases = [
        (format!("--from-dir {place}/bad {image}"), "a.yaml"),
        (format!("--from-dir {place}/nowhere {image}"), "nowhere"),
        (format!("{good} {image} net=r/net:1"), "no digest"),
        (format!("{good} {image} --metadata x"), "--metadata"),
        (format!("{good} {image} --component-version x"), "--component-version"),
        (format!("{good} --to-image r/release@{DIGEST}"), "must not have a digest"),
        (format!("{good} --to-dir {place}/full"), "not empty"),
        (format!("{good} {image} --registry-ca {place}/no-ca"), "no-ca"),
        (format!("{good} {image} --registry-config {place}/no-config"), "no-config"),
    ];
    for (arguments, expected) in cases {
        let line = format!("new --name 1.0.0 --to-image-base {address}/cvo:1 {arguments}");
        let args = Line::try_parse_from(line.split(' ')).unwrap().args;
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), run(args)).await;
        let message = format!("{:#}", ended.expect("the registry was asked").unwrap_err());
        assert!(message.contains(expected), "{expected}: {message}");
        let asked = registry.accept();
        assert!(asked.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock), "{expected}: the registry was asked");
    }
}

#[test]
fn images_need_a_digest() {
    let good = format!("net=127.0.0.1:5000/o/net@{DIGEST}");
    assert_eq!(mapping(&good).unwrap(), ("net".into(), format!("127.0.0.1:5000/o/net@{DIGEST}")));
    for bad in ["net", "=r/x@sha256:1", "net=r/x", "net=r/x:1", "net=r/x@sha256:1", "net=R E"] {
        let message = mapping(bad).unwrap_err().to_string();
        assert!(message.contains(bad) && message.contains("COMPONENT="), "{message}");
    }
}

#[test]
fn creation_time_is_fixed_unless_given() {
    assert_eq!(created(None, None).unwrap(), Timestamp::UNIX_EPOCH);
    assert_eq!(created(None, Some(60)).unwrap().to_string(), "1970-01-01T00:01:00Z");
    assert!(created(None, Some(-1)).is_err());
    assert!(created(None, Some(i64::MAX)).unwrap_err().to_string().contains("SOURCE_DATE_EPOCH"));
}

#[test]
fn files_that_no_release_may_have_are_refused() {
    let dir = tree(&[("a.yaml", "a")]);
    std::fs::File::create(dir.path().join("large.yaml")).unwrap().set_len(payload_dir::MAX_FILE + 1).unwrap();
    let error = Listing::of(dir.path()).map(|listing| listing.manifests.len()).unwrap_err().to_string();
    assert!(error.contains("large.yaml is larger than"), "{error}");
}
