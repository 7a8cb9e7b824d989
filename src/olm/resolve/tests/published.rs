//! Cases that other resolvers are known by, each as a small world and what comes of it. Where the answer is another one on purpose,
//! the row says by which rule.

use super::written::{Row, check, fails, installs};

mod constraints;
mod properties;

const NEW_AND_EXISTING: [Row; 9] = [
    installs(
        "what is installed stays beside what is new",
        "catalog main
         t.v1 alpha
         n.v1 alpha
         installed t.v1 provides K
         sub t/alpha at t.v1
         sub n/alpha",
        "n.v1",
    ),
    installs(
        "first provider of the catalog is taken by package",
        "catalog main
         t.v1 alpha requires K
         b.v1 alpha provides K
         c.v1 alpha provides K
         d.v1 alpha
         sub t/alpha",
        "b.v1 t.v1",
    ),
    installs(
        "bundle in two channels is taken from the one that is asked for",
        "catalog main
         t.v1 alpha
         n.v1 alpha,beta
         installed t.v1 provides K
         sub t/alpha at t.v1
         sub n/alpha",
        "n.v1",
    ),
    installs(
        "heads of the channels are taken",
        "catalog main
         t.v1.0.1 alpha replaces t.v1
         n.v0.9.0 alpha
         n.v1.0.0 alpha replaces n.v0.9.0
         n.v1.0.1 alpha replaces n.v1.0.0
         installed t.v1 provides K
         sub t/alpha at t.v1
         sub n/alpha",
        "n.v1.0.1 t.v1.0.1",
    ),
    installs(
        "default channel comes first for a subscription without one",
        "catalog main
         t.v0.0.2 alpha replaces t.v1 provides K default stable
         t.v0.0.1 stable replaces t.v1 provides K
         sub t/",
        "t.v0.0.1",
    ),
    installs(
        "default channel comes first for what others depend on",
        "catalog main
         t.v0.0.1 alpha replaces t.v1 requires K
         n.v0.0.1 stable replaces n.v1 provides K default stable
         n.v0.0.2 alpha replaces n.v0.0.1 provides K
         sub t/alpha",
        "n.v0.0.1 t.v0.0.1",
    ),
    fails(
        "deprecated bundle is never installed",
        "catalog main
         t.v1 alpha deprecated
         sub t/alpha",
        "bundle main/ns/alpha/t.v1 is deprecated",
    ),
    installs(
        "deprecated bundle in the middle of a channel does not keep its head back",
        "catalog main
         a.v1 c
         a.v2 c replaces a.v1 deprecated
         a.v3 c replaces a.v2
         sub a/c",
        "a.v3",
    ),
    installs(
        "operator that requires a version of another one holds its update",
        "catalog main
         b.v2 default replaces b.v1
         installed a.v1 needs b 1.0.0
         installed b.v1
         sub b/default at b.v1",
        "",
    ),
];

#[test]
fn new_operators_are_installed_beside_those_that_exist() {
    check(&NEW_AND_EXISTING);
}

const DEPENDENCIES: [Row; 12] = [
    installs(
        "two packages in one version each are brought along",
        "catalog main
         t.v1.0.1 alpha replaces t.v1
         n.v0.9.0 alpha
         n.v1.0.0 alpha replaces n.v0.9.0
         n.v1.0.1 alpha replaces n.v1.0.0 needs c 1.0.1 needs d 1.0.1
         c.v1.0.0 alpha
         c.v1.0.1 alpha replaces c.v1.0.0
         d.v1.0.0 alpha
         d.v1.0.1 alpha replaces d.v1.0.0
         d.v1.0.2 alpha replaces d.v1.0.1
         installed t.v1 provides K
         sub t/alpha at t.v1
         sub n/alpha",
        "c.v1.0.1 d.v1.0.1 n.v1.0.1 t.v1.0.1",
    ),
    installs(
        "what a dependency requires is brought along too",
        "catalog main
         t.v1.0.1 alpha replaces t.v1
         n.v0.9.0 alpha
         n.v1.0.0 alpha replaces n.v0.9.0
         n.v1.0.1 alpha replaces n.v1.0.0 needs c 1.0.1 needs d 1.0.1
         c.v1.0.0 alpha needs e 1.0.1
         c.v1.0.1 alpha replaces c.v1.0.0 needs e 1.0.1
         d.v1.0.1 alpha
         e.v1.0.1 alpha replaces e.v1.0.0
         e.v1.0.0 alpha
         installed t.v1 provides K
         sub t/alpha at t.v1
         sub n/alpha",
        "c.v1.0.1 d.v1.0.1 e.v1.0.1 n.v1.0.1 t.v1.0.1",
    ),
    installs(
        "package is required",
        "catalog main
         t.v1.0.1 alpha replaces t.v1
         n.v1 alpha needs c 0.1.0
         c.v1 alpha version 0.1.0
         installed t.v1 provides K
         sub t/alpha at t.v1
         sub n/alpha",
        "c.v1 n.v1 t.v1.0.1",
    ),
    installs(
        "api is required",
        "catalog main
         t.v1 alpha
         n.v1 alpha requires K
         c.v1 alpha provides K
         installed t.v1
         sub t/alpha at t.v1
         sub n/alpha",
        "c.v1 n.v1",
    ),
    installs(
        "label is required",
        "catalog main
         t.v1 alpha wants lts
         n.v1 beta label lts
         sub t/alpha",
        "n.v1 t.v1",
    ),
    fails(
        "label that nobody has is required",
        "catalog main
         t.v1 alpha wants lts
         n.v1 alpha
         sub t/alpha",
        "bundle t.v1 requires an operator with label: lts",
    ),
    installs(
        "own catalog provides all that is required, at every depth",
        "catalog main
         t.v1.0.1 alpha replaces t.v1
         n.v1.0.0 alpha requires K
         n.v1.0.1 alpha replaces n.v1.0.0 requires K
         c.v1.0.0 alpha provides K requires L
         c.v1.0.1 alpha replaces c.v1.0.0 provides K requires L
         d.v1.0.1 alpha provides L requires L
         catalog certified
         c.v1.0.0 alpha provides K requires L
         c.v1.0.1 alpha replaces c.v1.0.0 provides K requires L
         d.v1.0.1 alpha provides L
         installed t.v1 provides X
         sub t/alpha at t.v1
         sub n/alpha",
        "c.v1.0.1 d.v1.0.1 n.v1.0.1 t.v1.0.1",
    ),
    installs(
        "provider that cannot be installed itself is passed over for one of another catalog",
        "catalog main
         t.v1 alpha
         n.v1 alpha needs c 0.1.0
         c.v1 alpha version 0.1.0 needs d 0.1.0
         catalog certified
         t.v1 alpha
         n.v1 alpha needs c 0.1.0
         c.v1 alpha version 0.1.0
         installed t.v1 provides K
         sub t/alpha at t.v1
         sub n/alpha",
        "c.v1@certified n.v1",
    ),
    installs(
        "operator without a subscription provides what is required",
        "catalog main
         n.v1.0.0 alpha requires K
         n.v1.0.1 alpha replaces n.v1.0.0 requires K
         installed t.v1 provides K
         sub n/alpha",
        "n.v1.0.1",
    ),
    fails(
        "operator without a subscription keeps others out that provide the same",
        "catalog main
         n.v1.0.0 alpha provides K
         n.v1.0.1 alpha replaces n.v1.0.0 provides K
         installed t.v1 provides K
         sub n/alpha",
        "clusterserviceversion t.v1 exists and is not referenced by a subscription|provide K (g/v1)",
    ),
    installs(
        "operator is not met by another entry of its own package",
        "catalog main
         t.v1 stable requires K,L
         t.v2 alpha provides K,L
         x.v1 stable provides K default stable
         x.v2 alpha provides K
         catalog secondary
         x.v3 stable provides L
         e.v1 stable provides L
         sub t/stable",
        "e.v1@secondary t.v1 x.v1",
    ),
    fails(
        "provider that another entry skips is none",
        "catalog main
         a.v1 channel requires K
         b.v3 channel replaces b.v2 skips b.v1
         b.v2 channel replaces b.v1
         b.v1 channel provides K
         sub a/channel",
        "bundle a.v1 requires an operator providing an API with group: g, version: v1, kind: K",
    ),
];

#[test]
fn what_others_depend_on_is_brought_along() {
    check(&DEPENDENCIES);
}

const CATALOGS: [Row; 6] = [
    installs(
        "higher priority comes first",
        "catalog main
         t.v1 alpha needs n 0.0.1
         catalog community
         n.v1 alpha version 0.0.1
         catalog high 100
         n.v1 alpha version 0.0.1
         sub t/alpha",
        "n.v1@high t.v1",
    ),
    installs(
        "of the same priority the first name comes first",
        "catalog main
         t.v1 alpha needs n 0.0.1
         catalog high 100
         n.v1 alpha version 0.0.1
         catalog community 100
         n.v1 alpha version 0.0.1
         sub t/alpha",
        "n.v1@community t.v1",
    ),
    installs(
        "own catalog comes before all others",
        "catalog main
         t.v1 alpha needs n 0.0.1
         n.v1 alpha version 0.0.1
         catalog high 100
         n.v1 alpha version 0.0.1
         catalog community
         n.v1 alpha version 0.0.1
         sub t/alpha",
        "n.v1 t.v1",
    ),
    installs(
        "update comes from the catalog that the subscription names",
        "catalog main
         t.v0.0.1 alpha replaces t.v1 provides K
         catalog alt/other
         t.v0.0.1 alpha replaces t.v1 provides K
         installed t.v1 provides K
         sub t/alpha at t.v1",
        "t.v0.0.1",
    ),
    fails(
        "catalog of a namespace that is not seen has nothing",
        "catalog main
         x.v1 alpha
         installed t.v1 provides K
         sub t/alpha in secret/secret",
        "no operators found from catalog secret in namespace secret referenced by subscription t-alpha",
    ),
    installs(
        "head in a catalog that the subscription does not name does not count",
        "catalog main
         t.v1 alpha
         catalog high 100
         t.v2 alpha replaces t.v1
         installed t.v1
         sub t/alpha at t.v1",
        "",
    ),
];

#[test]
fn catalogs_are_preferred_by_nearness_priority_and_name() {
    check(&CATALOGS);
}

const SKIPS: [Row; 6] = [
    // Elsewhere t.v1 has no way to the head: such a package is not served here.
    installs(
        "skipped version is installed where it is asked for by name",
        "catalog main
         n.v1 alpha requires K
         n.v2 alpha skips n.v1 requires K
         t.v1 alpha provides K
         t.v2 alpha replaces t.v1 provides K
         t.v3 alpha replaces t.v2 provides K
         t.v4 alpha replaces t.v3 skips t.v3 provides K
         t.v5 alpha replaces t.v4 skips t.v1,t.v2,t.v3,t.v4 provides K
         t.v6 alpha replaces t.v5 provides K
         sub n/alpha from n.v1",
        "n.v1 t.v6",
    ),
    installs(
        "skipped version is not installed",
        "catalog main
         n.v1 alpha
         n.v2 alpha skips n.v1
         sub n/alpha",
        "n.v2",
    ),
    installs(
        "api moves: at first its provider is brought along",
        "catalog main
         a.v1.0.0 stable provides K
         b.v1.0.0 stable requires K provides L
         sub b/stable",
        "a.v1.0.0 b.v1.0.0",
    ),
    installs(
        "api moves: the update that drops it waits for the one that brings it",
        "catalog main
         a.v1.0.0 stable provides K
         a.v1.0.1 stable replaces a.v1.0.0 requires K
         b.v1.0.0 stable requires K provides L
         installed a.v1.0.0 provides K
         installed b.v1.0.0 requires K provides L
         sub a/stable at a.v1.0.0
         sub b/stable at b.v1.0.0",
        "",
    ),
    installs(
        "api moves: both go on together",
        "catalog main
         a.v1.0.0 stable provides K
         a.v1.0.1 stable replaces a.v1.0.0 requires K
         b.v1.0.0 stable requires K provides L
         b.v1.0.1 stable replaces b.v1.0.0 provides K,L
         installed a.v1.0.0 provides K
         installed b.v1.0.0 requires K provides L
         sub a/stable at a.v1.0.0
         sub b/stable at b.v1.0.0",
        "a.v1.0.1 b.v1.0.1",
    ),
    fails(
        // The circle is among skipped entries, so that the catalog is served.
        "channel that goes in a circle concerns who asks for it",
        "catalog main
         a.v1 stable replaces a.v2
         a.v2 stable replaces a.v1
         a.v3 stable replaces a.v2 skips a.v1,a.v2
         sub a/stable",
        "a cycle exists in the chain of replacement beginning with \"a.v3\" in channel \"stable\" of package \"a\"",
    ),
];

#[test]
fn skipped_versions_and_apis_that_move_are_as_published() {
    check(&SKIPS);
}
