//! Worlds, and what comes of their versions.

use super::{Row, otherwise, row};

/// A version, and what it needs.
pub(super) const ONE: [Row; 17] = [
    row("it is new and defines an api", "version a None owns Widget", "a: Pending/RequirementsUnknown"),
    row("it is new and requires an api that is served", "version a None asks any", "a: Pending/RequirementsUnknown"),
    row("its definition is missing", "version a Pending owns Widget", "a: Pending/RequirementsNotMet"),
    row("the APIService that it requires is missing", "version a Pending asks any", "a: Pending/RequirementsNotMet"),
    row(
        "the APIService that it requires is not available",
        "version a Pending asks any\nservice v1.apps away",
        "a: Pending/RequirementsNotMet",
    ),
    row(
        "its APIService names no Deployment that it has",
        "version a Pending owns Widget serves other\ndefinition Widget",
        "a: Pending/RequirementsNotMet",
    ),
    row(
        "its definition is there",
        "version a Pending owns Widget\ndefinition Widget",
        "a: InstallReady/AllRequirementsMet",
    ),
    row(
        "the APIService that it requires is available",
        "version a Pending asks any\nservice v1.apps available",
        "a: InstallReady/AllRequirementsMet",
    ),
    otherwise(
        row("it may be installed", "version a InstallReady owns Widget\ndefinition Widget", "a: creates server"),
        "a: Installing/InstallSucceeded",
        "it counts as installed once all that it consists of is written",
    ),
    row(
        "it has failed, and its Deployment is missing",
        "version a Failed owns Widget\ndefinition Widget",
        "a: Pending/NeedsReinstall",
    ),
    row(
        "it has failed, and its definition is missing",
        "version a Failed owns Widget\ndeployment a ready",
        "a: Pending/RequirementsNotMet",
    ),
    row(
        "its Deployment is ready, beside one of others",
        "version a Installing owns Widget\ndefinition Widget\ndeployment a ready\ndeployment extra",
        "a: Succeeded/InstallSucceeded",
    ),
    row(
        "its Deployment was written with another content",
        "version a Installing\ndeployment a stale",
        "a: InstallReady/InstallWaiting, replaces server",
    ),
    row(
        "the pods of its Deployment lack its annotations",
        "version a Installing\ndeployment a bare",
        "a: InstallReady/InstallWaiting, replaces server",
    ),
    row(
        "it runs, beside a Deployment of others",
        "version a Succeeded/InstallSucceeded owns Widget\ndefinition Widget\ndeployment a ready\ndeployment extra",
        "a: stays",
    ),
    row(
        "it runs, and its definition is missing",
        "version a Succeeded owns Widget\ndeployment a ready",
        "a: Failed/RequirementsNotMet",
    ),
    otherwise(
        row(
            "it runs, and has another annotation",
            "version a Succeeded/InstallSucceeded owns Widget\ndefinition Widget\ndeployment a ready\nannotated a",
            "a: InstallReady/InstallWaiting, replaces server",
        ),
        "a: Pending",
        "what its Deployment needs is there, so that it is written at once",
    ),
];

const REFUSED: &str = "a: Failed/CannotModifyStaticOperatorGroupProvidedAPIs";

/// A version, and what its OperatorGroup means for it.
pub(super) const GROUPS: [Row; 18] = [
    row(
        "its targets were not supported",
        "version a Failed/UnsupportedOperatorGroup owns Widget\ndefinition Widget\ndeployment a ready",
        "a: Pending/RequirementsUnknown",
    ),
    row(
        "there was no group",
        "version a Failed/NoOperatorGroup owns Widget\ndefinition Widget\ndeployment a ready",
        "a: Pending/RequirementsUnknown",
    ),
    row(
        "there were several groups",
        "version a Failed/TooManyOperatorGroups owns Widget\ndefinition Widget\ndeployment a ready",
        "a: Pending/RequirementsUnknown",
    ),
    row(
        "its targets are not supported any more",
        "version a Succeeded/InstallSucceeded lacks SingleNamespace\ndeployment a ready",
        "a: Failed/UnsupportedOperatorGroup",
    ),
    row(
        "there is no group any more",
        "version a Succeeded/InstallSucceeded owns Widget\ndefinition Widget\ndeployment a ready\ngroup none",
        "a: Failed/NoOperatorGroup",
    ),
    row(
        "there is another group",
        "version a Succeeded/InstallSucceeded owns Widget\ndefinition Widget\ndeployment a ready\ngroup two",
        "a: Failed/TooManyOperatorGroups",
    ),
    row(
        "its group has another target",
        "version a Succeeded/InstallSucceeded owns Widget\ndefinition Widget\ndeployment a ready\ngroup for shop mall",
        "a: marked",
    ),
    row(
        "another group provides the api",
        "version a None owns Widget\nrival Widget\ngroup unnamed",
        "a: Failed/InterOperatorGroupOwnerConflict",
    ),
    row("its group does not name the api yet", "version a None owns Widget\ngroup unnamed", "a: stays"),
    otherwise(
        row(
            "its group names the api, and another one provides it",
            "version a None owns Widget\nrival Widget",
            "a: Failed/InterOperatorGroupOwnerConflict",
        ),
        "a: stays",
        "all groups are decided on together, so that it need not wait for its own to give the api up",
    ),
    row(
        "the list of its group is fixed, and lacks the api",
        "version a None owns Widget\ngroup static\ngroup unnamed",
        REFUSED,
    ),
    row(
        "the list of its group is fixed, and another one provides the api",
        "version a None owns Widget\ngroup static\nrival Widget",
        REFUSED,
    ),
    row(
        "the list of its group is fixed, and has the api",
        "version a None owns Widget\ngroup static",
        "a: Pending/RequirementsUnknown",
    ),
    row(
        "nobody else provides the api any more",
        "version a Failed/InterOperatorGroupOwnerConflict owns Widget",
        "a: Pending/RequirementsUnknown",
    ),
    row(
        "the fixed list of its group has the api now",
        "version a Failed/CannotModifyStaticOperatorGroupProvidedAPIs owns Widget\ngroup static",
        "a: Pending/RequirementsUnknown",
    ),
    row(
        "another group still provides the api",
        "version a Failed/InterOperatorGroupOwnerConflict owns Widget\nrival Widget\ngroup unnamed",
        "a: Failed/InterOperatorGroupOwnerConflict",
    ),
    row(
        "the fixed list of its group still lacks the api",
        "version a Failed/CannotModifyStaticOperatorGroupProvidedAPIs owns Widget\ngroup static\ngroup unnamed",
        REFUSED,
    ),
    row(
        "the list of its group is fixed, and another one still provides the api",
        "version a Failed/CannotModifyStaticOperatorGroupProvidedAPIs owns Widget\ngroup static\nrival Widget",
        REFUSED,
    ),
];

/// Versions of one namespace.
pub(super) const SEVERAL: [Row; 8] = [
    row(
        "another version owns the definition, and neither replaces the other",
        "version a Succeeded owns Widget\nversion b Pending owns Widget deploys other\ndefinition Widget\n\
         deployment a ready",
        "a: stays; b: Failed/OwnerConflict",
    ),
    row(
        "the next one is there",
        "version a Succeeded owns Widget\nversion b None owns Widget replaces a deploys other\ndefinition Widget\n\
         deployment a ready",
        "a: Replacing/BeingReplaced; b: Pending/RequirementsUnknown",
    ),
    row(
        "the next one runs",
        "version a Replacing owns Widget\nversion b Succeeded owns Widget replaces a deploys other\ndefinition Widget\n\
         deployment a ready\ndeployment b ready",
        "a: Deleting/Replaced; b: stays",
    ),
    row(
        "it is not needed any more",
        "version a Deleting owns Widget\nversion b Succeeded owns Widget replaces a deploys other\ndefinition Widget\n\
         deployment a ready\ndeployment b ready",
        "a: deleted; b: stays",
    ),
    otherwise(
        row(
            "two are being replaced",
            "version a Replacing owns Widget\nversion b Replacing owns Widget replaces a deploys other\n\
             version c Succeeded owns Widget replaces b deploys third\ndefinition Widget\n\
             deployment a ready\ndeployment b ready\ndeployment c ready",
            "a: Deleting/Replaced; b: stays; c: stays",
        ),
        "a: stays; b: stays; c: stays",
        "what is replaced goes once any of those that come after it runs, or it would stay for ever",
    ),
    otherwise(
        row(
            "the first of two that are replaced is not needed any more",
            "version a Deleting owns Widget\nversion b Replacing owns Widget replaces a deploys other\n\
             version c Succeeded owns Widget replaces b deploys third\ndefinition Widget\n\
             deployment a ready\ndeployment b ready\ndeployment c ready",
            "a: deleted; b: stays; c: stays",
        ),
        "a: deleted; b: Deleting/Replaced; c: stays",
        "all versions of a namespace are decided on by the same moment, and the next look sees that it is gone",
    ),
    row(
        "the first of two that are replaced is gone",
        "version b Replacing owns Widget replaces a deploys other\n\
         version c Succeeded owns Widget replaces b deploys third\ndefinition Widget\n\
         deployment b ready\ndeployment c ready",
        "b: Deleting/Replaced; c: stays",
    ),
    row(
        "the second of two that are replaced is not needed any more",
        "version b Deleting owns Widget replaces a deploys other\n\
         version c Succeeded owns Widget replaces b deploys third\ndefinition Widget\n\
         deployment b ready\ndeployment c ready",
        "b: deleted; c: stays",
    ),
];

/// One of them has failed, or names itself.
pub(super) const FORWARD: [Row; 6] = [
    row(
        "it has failed, and its group goes forward",
        "group forward\nversion a Failed owns Widget\nversion b None owns Widget replaces a deploys other\nnew b",
        "a: Replacing/BeingReplaced; b: marked",
    ),
    row(
        "it has failed, and its group does not go forward",
        "version a Failed owns Widget\nversion b None owns Widget replaces a deploys other\nnew b",
        "a: Pending/RequirementsNotMet; b: marked",
    ),
    row(
        "the second of three has failed, and its group goes forward",
        "group forward\nversion a Replacing owns Widget\nversion b Failed owns Widget replaces a deploys other\n\
         version c None owns Widget replaces b deploys third\nnew c",
        "a: stays; b: Replacing/BeingReplaced; c: marked",
    ),
    row(
        "the second of three has failed, and its group does not go forward",
        "version a Replacing owns Widget\nversion b Failed owns Widget replaces a deploys other\n\
         version c None owns Widget replaces b deploys third\nnew c",
        "a: stays; b: Pending/RequirementsNotMet; c: marked",
    ),
    otherwise(
        row(
            "it is being replaced by itself, and its group goes forward",
            "group forward\nversion a Replacing owns Widget replaces a",
            "a: Pending/NeedsReinstall",
        ),
        "a: stays",
        "what nobody replaces is needed, and is installed again",
    ),
    otherwise(
        row(
            "it is being replaced by itself, and its group does not go forward",
            "version a Replacing owns Widget replaces a",
            "a: Pending/NeedsReinstall",
        ),
        "a: stays",
        "what nobody replaces is needed, and is installed again",
    ),
];
