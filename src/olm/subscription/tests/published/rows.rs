//! Namespaces and what comes of them.

use super::{Row, fails, forward, installs};

/// Nothing is installed yet.
pub(super) const NEW: [Row; 14] = [
    installs("no channel is asked for", "catalog main\n a.v1 channel\n sub a/", "a.v1 for a"),
    fails(
        "the catalog is empty",
        "catalog main\n sub a/alpha",
        &[
            "subscription a-alpha exists",
            "no operators found from catalog main in namespace ns referenced by subscription a-alpha",
        ],
    ),
    fails(
        "the catalog has another package",
        "catalog main\n b.v1 channel\n sub a/alpha",
        &[
            "subscription a-alpha exists",
            "no operators found in package a in the catalog referenced by subscription a-alpha",
        ],
    ),
    fails(
        "the package has another channel",
        "catalog main\n a.v1 channel\n sub a/alpha",
        &[
            "subscription a-alpha exists",
            "no operators found in channel alpha of package a in the catalog referenced by subscription a-alpha",
        ],
    ),
    fails(
        "the channel has no version of the name that is asked for",
        "catalog main\n a.v1 alpha\n sub a/alpha from notfound",
        &[
            "subscription a-alpha exists",
            "no operators found with name notfound in channel alpha of package a in the catalog referenced by subscription a-alpha",
        ],
    ),
    installs("nothing is required", "catalog main\n a.v1 alpha\n sub a/alpha", "a.v1 for a-alpha"),
    installs(
        "an api is required",
        "catalog main\n b.v1 beta provides K\n a.v1 alpha requires K\n sub a/alpha",
        "a.v1 for a-alpha; b.v1 by b-beta-main-ns",
    ),
    fails(
        "nobody provides the api that is required",
        "catalog main\n a.v1 alpha requires K\n sub a/alpha",
        &[
            "subscription a-alpha requires main/ns/alpha/a.v1",
            "bundle a.v1 requires an operator providing an API with group: g, version: v1, kind: K",
            "subscription a-alpha exists",
        ],
    ),
    fails(
        "two channels of a package are subscribed",
        "catalog main\n a.v1 alpha provides K\n a.v2 beta provides K\n sub a/alpha\n sub a/beta",
        &["constraints not satisfiable", "subscription a-alpha", "subscription a-beta"],
    ),
    installs(
        "one channel of a package is subscribed twice",
        "catalog main\n a.v1 alpha provides K\n sub a/alpha\n sub a/alpha as a-alpha-2",
        "a.v1 for a-alpha, a-alpha-2",
    ),
    installs("nothing is subscribed", "catalog main\n installed a.v1", ""),
    installs(
        "an older version provides what is required",
        "catalog main\n a.v1 alpha provides K\n a.v2 alpha replaces a.v1\n b.v1 alpha requires K\n sub b/alpha",
        "a.v1 by a-alpha-main-ns; b.v1 for b-alpha",
    ),
    installs(
        "a version is asked for by its name",
        "catalog main\n a.v1 alpha\n a.v2 alpha replaces a.v1\n a.v3 alpha replaces a.v2 range '< 1.0.0'\n sub a/alpha from a.v2",
        "a.v2 over a.v1 for a-alpha",
    ),
    fails(
        "the api that is subscribed is recorded for another one",
        "catalog main\n a.v1 alpha provides K\n b.v1 alpha provides K\n installed a.v1 provides K\n \
         sub a/alpha at a.v1\n sub b/alpha at b.v1",
        &["constraints not satisfiable", "provide K (g/v1)"],
    ),
];

/// Something is installed.
pub(super) const EXISTING: [Row; 12] = [
    installs(
        "there is no newer version",
        "catalog main\n a.v1 alpha provides K\n installed a.v1 provides K\n sub a/alpha at a.v1",
        "",
    ),
    installs(
        "there is a newer version",
        "catalog main\n a.v2 alpha replaces a.v1 provides K\n a.v1 alpha provides K\n installed a.v1 provides K\n sub a/alpha at a.v1",
        "a.v2 over a.v1 for a-alpha",
    ),
    installs(
        "a version of another package takes its place",
        "catalog main\n a.v1 alpha provides K\n b.v2 alpha replaces a.v1 provides K\n installed a.v1 provides K\n sub b/alpha at a.v1",
        "b.v2 over a.v1 for b-alpha",
    ),
    installs(
        "what is recorded is gone",
        "catalog main\n a.v1 alpha provides K\n sub a/alpha at a.v1",
        "a.v1 for a-alpha",
    ),
    installs(
        "the newer version requires an api",
        "catalog main\n a.v1 alpha\n a.v2 alpha replaces a.v1 requires K\n b.v1 beta provides K\n \
         installed a.v1 provides K\n sub a/alpha at a.v1",
        "a.v2 over a.v1 for a-alpha; b.v1 by b-beta-main-ns",
    ),
    installs(
        "another package is subscribed beside it",
        "catalog main\n a.v1 alpha\n a.v2 alpha replaces a.v1\n b.v1 beta\n installed a.v1 provides K\n \
         sub a/alpha at a.v1\n sub b/beta",
        "a.v2 over a.v1 for a-alpha; b.v1 for b-beta",
    ),
    installs(
        "another package is subscribed beside one that is gone",
        "catalog main\n a.v1 alpha provides K\n b.v1 beta\n sub a/alpha at a.v1\n sub b/beta",
        "a.v1 for a-alpha; b.v1 for b-beta",
    ),
    installs(
        "the range of the head has what is installed",
        "catalog main\n a.v3 alpha replaces a.v2 version 1.0.0 range '< 1.0.0'\n installed a.v1 version 0.0.0 provides K\n \
         sub a/alpha at a.v1",
        "a.v3 over a.v1 for a-alpha",
    ),
    installs(
        "the range of the head has not, that of the one before has",
        "catalog main\n a.v2 alpha version 1.0.0 range '< 1.0.0'\n a.v3 alpha replaces a.v2 version 1.0.1 range '< 1.0.0'\n \
         a.v4 alpha replaces a.v3 version 1.0.2 range '< 1.0.0 !0.0.0'\n installed a.v1 version 0.0.0 provides K\n sub a/alpha at a.v1",
        "a.v3 over a.v1 for a-alpha",
    ),
    installs(
        "two versions skip what is installed",
        "catalog main\n a.v2 alpha skips a.v1\n a.v3 alpha replaces a.v2 skips a.v1\n installed a.v1 provides K\n sub a/alpha at a.v1",
        "a.v3 over a.v1 for a-alpha",
    ),
    installs(
        "all that is installed has newer versions",
        "catalog main\n a.v1 alpha requires K\n a.v2 alpha replaces a.v1 requires K\n b.v1 beta provides K\n \
         b.v2 beta replaces b.v1 provides K\n installed a.v1 requires K\n installed b.v1 provides K\n \
         sub a/alpha at a.v1\n sub b/beta at b.v1",
        "a.v2 over a.v1 for a-alpha; b.v2 over b.v1 for b-beta",
    ),
    installs(
        "another catalog has the head, and may stand in",
        "catalog main\n a.v1 alpha\n catalog x\n a.v2 alpha replaces a.v1\n installed a.v1\n sub a/alpha at a.v1 elsewhere",
        "a.v2 over a.v1 for a-alpha",
    ),
];

/// Several go on together.
pub(super) const TOGETHER: [Row; 2] = [
    installs(
        "each of two requires what only the next version of the other provides",
        "catalog main\n a.v2 alpha replaces a.v1 provides K3 requires K4\n b.v2 alpha replaces b.v1 provides K4 requires K3\n \
         installed a.v1 provides K1 requires K2\n installed b.v1 provides K2 requires K1\n sub a/alpha at a.v1\n sub b/alpha at b.v1",
        "a.v2 over a.v1 for a-alpha; b.v2 over b.v1 for b-alpha",
    ),
    installs(
        "an api moves from one to the other",
        "catalog main\n a.v2 alpha replaces a.v1\n b.v2 alpha replaces b.v1 provides K\n installed a.v1 provides K\n \
         installed b.v1 requires K\n sub a/alpha at a.v1\n sub b/alpha at b.v1",
        "a.v2 over a.v1 for a-alpha; b.v2 over b.v1 for b-alpha",
    ),
];

const TWO: &str = "catalog main\n a.v1 alpha provides K\n a.v2 alpha replaces a.v1 provides K\n a.v3 alpha replaces a.v2 provides K\n \
    installed a.v1 provides K phase Replacing\n installed a.v2 replaces a.v1 provides K phase Failed\n sub a/alpha at a.v2";
const THREE: &str = "catalog main\n a.v1 alpha provides K\n a.v2 alpha replaces a.v1 provides K\n a.v3 alpha replaces a.v2 provides K\n \
    a.v4 alpha replaces a.v3 provides K\n installed a.v1 provides K phase Replacing\n \
    installed a.v2 replaces a.v1 provides K phase Replacing\n installed a.v3 replaces a.v2 provides K phase Failed\n sub a/alpha at a.v3";

/// The newest one that is installed has failed.
pub(super) const FORWARD: [Row; 6] = [
    fails(
        "one of two has failed",
        TWO,
        &[
            "constraints not satisfiable",
            "provide K (g/v1)",
            "clusterserviceversion a.v1 exists and is not referenced by a subscription",
            "subscription a-alpha requires at least one of main/ns/alpha/a.v3 or @existing/ns//a.v2",
        ],
    ),
    forward(installs("one of two has failed, and its group goes forward", TWO, "a.v3 over a.v2 for a-alpha")),
    fails(
        "one of three has failed",
        THREE,
        &["constraints not satisfiable", "provide K (g/v1)", "exists and is not referenced by a subscription"],
    ),
    forward(installs("one of three has failed, and its group goes forward", THREE, "a.v4 over a.v3 for a-alpha")),
    // Elsewhere the text begins with the name of a catalog that does not exist: here it names only what does.
    forward(fails(
        "all three have failed",
        "catalog main\n a.v1 alpha provides K\n a.v2 alpha replaces a.v1 provides K\n a.v3 alpha replaces a.v2 provides K\n \
         a.v4 alpha replaces a.v3 provides K\n installed a.v1 provides K phase Failed\n \
         installed a.v2 replaces a.v1 provides K phase Failed\n installed a.v3 replaces a.v2 provides K phase Failed\n \
         sub a/alpha at a.v3",
        &["csv ns/a.v", "in phase Failed instead of Replacing"],
    )),
    forward(fails(
        "another one that is being replaced provides the same",
        "catalog main\n a.v1 alpha provides K\n a.v2 alpha replaces a.v1 provides K\n b.v1 alpha provides K\n \
         installed b.v1 provides K phase Replacing\n installed a.v1 provides K phase Failed\n sub a/alpha at a.v1",
        &[
            "constraints not satisfiable",
            "provide K (g/v1)",
            "clusterserviceversion b.v1 exists and is not referenced by a subscription",
        ],
    )),
];
