use super::*;
use crate::olm::api::catalog_source::{CatalogSourceSpec, CatalogSourceStatus, ConnectionState};

fn source(state: Option<Connection>, message: &str) -> CatalogSource {
    let mut source = CatalogSource::new("a", CatalogSourceSpec::default());
    source.status = Some(CatalogSourceStatus {
        message: message.to_owned(),
        connection_state: state
            .map(|last_observed_state| ConnectionState { last_observed_state, ..ConnectionState::default() }),
        ..CatalogSourceStatus::default()
    });
    source
}

#[test]
fn catalog_is_healthy_while_its_content_is_there_whatever_the_registry_does() {
    let err = |text: &str| Err(text.to_owned());
    for (state, message, expected) in [
        (Some(Connection::Ready), "the registry is away", Ok(())),
        (Some(Connection::TransientFailure), "image a:1: not found", err("image a:1: not found")),
        (Some(Connection::Connecting), "", err("its content is not there yet")),
        (Some(Connection::Idle), "", err("its content is not there yet")),
        (None, "unknown sourcetype: x", err("unknown sourcetype: x")),
        (None, "", err("its content is not there yet")),
    ] {
        assert_eq!(health(&source(state.clone(), message)), expected, "{state:?} {message}");
    }
    assert!(health(&CatalogSource::new("a", CatalogSourceSpec::default())).is_err());
}

fn found(packages: usize, sick: &[&str], faults: &[&str]) -> Found {
    let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    Found { packages, sick: list(sick), sick_count: sick.len(), faults: list(faults), notes: Vec::new() }
}

#[test]
fn healthy_packages_are_served_unless_one_that_is_served_would_go() {
    let served = |name: &str| name == "etcd";
    for (found, expected) in [
        (found(2, &[], &[]), Ok("")),
        (found(2, &["sick"], &["x.json:7: two heads"]), Ok("1 of its 3 packages are not served: x.json:7: two heads")),
        (found(2, &[], &["y.yaml: a link"]), Ok("some of its files are left out: y.yaml: a link")),
        (
            found(2, &["etcd", "sick"], &["x.json:7: two heads"]),
            Err("what is served at present cannot be served of it (etcd): x.json:7: two heads"),
        ),
        (found(0, &["sick"], &["x.json:7: two heads"]), Err("none of its packages can be served: x.json:7: two heads")),
        (found(0, &[], &[]), Err("it has no package: is it the right image, folder or server?")),
    ] {
        assert_eq!(judge(&found, served).as_deref().map_err(String::as_str), expected);
    }
}

#[test]
fn what_is_tolerated_is_said_beside_what_is_left_out() {
    let noted = |faults: &[&str]| Found { notes: vec!["x.json:1: Capital".to_owned()], ..found(2, &[], faults) };
    let tolerated = "served, though a file-based catalog may not have it: x.json:1: Capital";
    assert_eq!(judge(&noted(&[]), |_| true).unwrap(), tolerated);
    let both = format!("some of its files are left out: y.yaml: a link; {tolerated}");
    assert_eq!(judge(&noted(&["y.yaml: a link"]), |_| true).unwrap(), both);
}

#[test]
fn what_is_said_of_many_faults_stays_short() {
    let faults: Vec<String> = (0..1000).map(|number| format!("{number}: {}", "x".repeat(5000))).collect();
    let found = Found { packages: 1, sick: Vec::new(), sick_count: 1000, faults, notes: Vec::new() };
    let notes = judge(&found, |_| false).unwrap();
    assert!(notes.len() < 5000 && notes.contains("more"), "{}", notes.len());
}
