//! How the images of a catalog are reached: credentials in the order in which a node has them, and what the cluster says of images.

use super::watched::{Name, Seen, State, What};
use crate::images::credentials::Keyring;
use crate::images::mirrors::Rule;
use crate::images::policy::Policy;
use crate::net::http::Egress;
use crate::net::registry::source::Sources;
use crate::net::registry::{Access, Advice, RegistryError};
use crate::object::read::Read;
use crate::olm::api::catalog_source::{CatalogSource, SourceType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Namespace and name of the pull secret of the cluster.
const GLOBAL: (&str, &str) = ("openshift-config", "pull-secret");
/// The account that pods have which name none.
const DEFAULT_ACCOUNT: &str = "default";

/// Looks up what is known of an object.
pub(super) type Look<'a> = &'a dyn Fn(&Name) -> Option<State>;

/// What is the same for all catalogs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    pub egress: Egress,
    pub mirrors: Vec<Rule>,
    pub policy: Policy,
    /// CAs of single registries, by `HOST[:PORT]`.
    pub registry_ca: BTreeMap<String, Vec<u8>>,
}

/// What the access of one catalog is made of.
#[derive(Clone, PartialEq)]
pub(super) struct Inputs {
    namespace: String,
    shared: Result<Arc<Shared>, String>,
    secrets: Vec<(Name, Arc<Read<Seen>>)>,
}

/// How images are reached, or why they cannot be. Another pointer is another way.
pub(crate) type Way = Arc<Result<Reach, String>>;

/// How the image of a catalog, and those of its bundles, are reached.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub sources: Sources,
    /// What is wrong with credentials, for errors of registries that refuse.
    pub notes: Vec<String>,
}

impl Reach {
    /// Whoever is refused is told what is wrong with the credentials.
    pub(crate) fn explained(&self, error: &RegistryError) -> String {
        match error.is_denied() && !self.notes.is_empty() {
            true => format!("{error}; {}", self.notes.join("; ")),
            false => error.to_string(),
        }
    }
}

/// The objects that a CatalogSource is about, as far as they are known.
pub(super) fn names(source: &CatalogSource, look: Look<'_>) -> BTreeSet<Name> {
    let namespace = source.metadata.namespace.as_deref().unwrap_or_default();
    match source.spec.source_type {
        SourceType::ConfigMap | SourceType::Internal if !source.spec.config_map.is_empty() => {
            BTreeSet::from([Name::new(What::ConfigMap, namespace, &source.spec.config_map)])
        }
        SourceType::Grpc => accounts(source).into_iter().chain(secrets(source, look).0).collect(),
        _ => BTreeSet::new(),
    }
}

fn accounts(source: &CatalogSource) -> [Name; 2] {
    let namespace = source.metadata.namespace.as_deref().unwrap_or_default();
    let own = source.metadata.name.as_deref().unwrap_or_default();
    [own, DEFAULT_ACCOUNT].map(|name| Name::new(What::Account, namespace, name))
}

/// The Secrets in the order in which they count, and whether all of them are known.
fn secrets(source: &CatalogSource, look: Look<'_>) -> (Vec<Name>, bool) {
    let namespace = source.metadata.namespace.as_deref().unwrap_or_default();
    let mut names: Vec<&str> = source.spec.secrets.iter().map(String::as_str).collect();
    let states: Vec<_> = accounts(source).iter().map(look).collect();
    for (state, _) in states.iter().flatten() {
        if let Read::Value(Seen::Account(secrets)) = &**state {
            names.extend(secrets.iter().map(String::as_str));
        }
    }
    let mut all: Vec<Name> = Vec::new();
    let own = names.into_iter().filter(|name| !name.is_empty()).map(|name| (namespace, name));
    for (namespace, name) in own.chain([GLOBAL]) {
        let name = Name::new(What::Secret, namespace, name);
        if !all.contains(&name) {
            all.push(name);
        }
    }
    (all, states.iter().all(Option::is_some))
}

impl Inputs {
    /// `None` before all of it is known.
    pub(super) fn of(
        source: &CatalogSource,
        look: Look<'_>,
        shared: Option<Result<Arc<Shared>, String>>,
    ) -> Option<Inputs> {
        let (secrets, whole) = secrets(source, look);
        let known = |name: Name| look(&name).map(|(state, _)| (name, state));
        let secrets = secrets.into_iter().map(known).collect::<Option<Vec<_>>>().filter(|_| whole)?;
        let namespace = source.metadata.namespace.clone().unwrap_or_default();
        Some(Inputs { namespace, shared: shared?, secrets })
    }

    /// `known`: what the process knows of registries, connections and tokens, which all catalogs share. A token is shown only for
    /// those who have the credentials that it was given for.
    pub(super) fn reach(&self, known: &Access) -> Result<Reach, String> {
        let shared = self.shared.as_ref().map_err(Clone::clone)?;
        let (mut credentials, mut notes) = (Keyring::default(), Vec::new());
        for (name, state) in &self.secrets {
            let origin = format!("Secret {}/{}", name.namespace, name.name);
            match &**state {
                Read::Value(Seen::Secret(forms)) => {
                    for (form, content) in forms {
                        notes.extend(credentials.add(content, *form, &origin).err().map(|error| error.to_string()));
                    }
                    if forms.is_empty() {
                        notes.push(format!("{origin} has neither .dockerconfigjson nor .dockercfg"));
                    }
                }
                Read::Absent if (name.namespace.as_str(), name.name.as_str()) == GLOBAL => {}
                Read::Value(_) | Read::Absent => notes.push(format!("{origin} does not exist")),
                Read::Failed(cause) => notes.push(format!("{origin} cannot be read: {cause}")),
            }
        }
        let access = Access {
            credentials,
            registry_ca: shared.registry_ca.clone(),
            egress: Some(shared.egress.clone()),
            advice: Advice::Cluster,
            ..known.clone()
        };
        let policy = shared.policy.clone().of_namespace(&self.namespace);
        let sources = Sources { access, mirrors: shared.mirrors.clone(), policy };
        Ok(Reach { sources, notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::credentials::{Format, Login};
    use crate::olm::api::catalog_source::CatalogSourceSpec;
    use jiff::Timestamp;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A catalog `community` of the namespace `shop` that names these pull secrets.
    fn source(secrets: &[&str]) -> CatalogSource {
        let secrets = secrets.iter().map(|name| name.to_string()).collect();
        let spec = CatalogSourceSpec { source_type: SourceType::Grpc, secrets, ..CatalogSourceSpec::default() };
        let mut source = CatalogSource::new("community", spec);
        source.metadata.namespace = Some("shop".to_owned());
        source
    }

    fn account(secrets: &[&str]) -> Read<Seen> {
        Read::Value(Seen::Account(secrets.iter().map(|name| name.to_string()).collect()))
    }

    /// With a password that is the name of the Secret.
    fn secret(name: &str, format: Format) -> Read<Seen> {
        let entry = format!(r#"{{"a.example": {{"username": "u", "password": "{name}"}}}}"#);
        let text = if format == Format::DockerCfg { entry } else { format!(r#"{{"auths": {entry}}}"#) };
        Read::Value(Seen::Secret(vec![(format, text.into_bytes())]))
    }

    /// Objects by kind, namespace and name.
    #[derive(Default)]
    struct World(BTreeMap<Name, State>);

    impl World {
        fn with(mut self, what: What, id: (&str, &str), state: Read<Seen>) -> World {
            let state = (Arc::new(state), Timestamp::UNIX_EPOCH);
            self.0.insert(Name::new(what, id.0, id.1), state);
            self
        }

        /// As a namespace has it: pull secrets of both accounts, and that of the cluster.
        fn usual() -> World {
            World::default()
                .with(What::Account, ("shop", "community"), account(&["of-account"]))
                .with(What::Account, ("shop", "default"), account(&["of-default", "named"]))
                .with(What::Secret, ("shop", "named"), secret("named", Format::DockerConfigJson))
                .with(What::Secret, ("shop", "of-account"), secret("of-account", Format::DockerCfg))
                .with(What::Secret, ("shop", "of-default"), secret("of-default", Format::DockerConfigJson))
                .with(What::Secret, GLOBAL, secret("global", Format::DockerConfigJson))
        }

        fn inputs(&self, source: &CatalogSource) -> Option<Inputs> {
            Inputs::of(source, &|name| self.0.get(name).cloned(), Some(Ok(Arc::default())))
        }

        fn names(&self, source: &CatalogSource) -> Vec<String> {
            let names = names(source, &|name| self.0.get(name).cloned());
            names.iter().map(|name| format!("{:?} {}/{}", name.what, name.namespace, name.name)).collect()
        }
    }

    fn passwords(reach: &Reach) -> Vec<String> {
        let known = reach.sources.access.credentials.of("a.example", "b");
        let password = |login: &Login| match login {
            Login::Password { password, .. } => password.clone(),
            Login::Token(token) => token.clone(),
        };
        known.iter().map(|known| password(&known.login)).collect()
    }

    #[test]
    fn credentials_come_from_the_catalog_then_its_account_then_the_default_one_then_the_cluster() {
        let reach = World::usual().inputs(&source(&["named"])).unwrap().reach(&Access::default()).unwrap();
        assert_eq!(passwords(&reach), ["named", "of-account", "of-default", "global"]);
        assert_eq!(reach.notes, [""; 0]);
        let reach = World::usual().inputs(&source(&[])).unwrap().reach(&Access::default()).unwrap();
        assert_eq!(passwords(&reach), ["of-account", "of-default", "named", "global"]);
    }

    #[test]
    fn nothing_is_asked_before_all_credentials_are_known() {
        let mut world = World::default();
        assert_eq!(
            world.names(&source(&["named"])),
            [
                "Secret openshift-config/pull-secret",
                "Secret shop/named",
                "Account shop/community",
                "Account shop/default",
            ]
        );
        assert!(world.inputs(&source(&["named"])).is_none());
        world = world
            .with(What::Secret, ("shop", "named"), secret("named", Format::DockerCfg))
            .with(What::Secret, GLOBAL, Read::Absent)
            .with(What::Account, ("shop", "community"), Read::Absent);
        assert!(world.inputs(&source(&["named"])).is_none(), "the other account may name more");
        world = world.with(What::Account, ("shop", "default"), account(&["late"]));
        assert!(world.names(&source(&[])).contains(&"Secret shop/late".to_owned()));
        assert!(world.inputs(&source(&["named"])).is_none());
        world = world.with(What::Secret, ("shop", "late"), Read::Absent);
        assert!(world.inputs(&source(&["named"])).is_some());
        assert!(Inputs::of(&source(&[]), &|name| world.0.get(name).cloned(), None).is_none());
    }

    #[test]
    fn whoever_is_refused_is_told_which_secrets_are_missing_or_wrong() {
        let world = World::usual()
            .with(What::Secret, ("shop", "named"), Read::Absent)
            .with(What::Secret, ("shop", "of-account"), Read::Value(Seen::Secret(Vec::new())))
            .with(What::Secret, ("shop", "of-default"), Read::Failed("no answer".to_owned()))
            .with(What::Secret, GLOBAL, Read::Absent);
        let notes = world.inputs(&source(&["named"])).unwrap().reach(&Access::default()).unwrap().notes;
        assert_eq!(
            notes,
            [
                "Secret shop/named does not exist",
                "Secret shop/of-account has neither .dockerconfigjson nor .dockercfg",
                "Secret shop/of-default cannot be read: no answer",
            ]
        );
    }

    #[test]
    fn change_of_a_secret_is_another_way_and_its_version_alone_is_not() {
        let (one, same) = (World::usual().inputs(&source(&[])), World::usual().inputs(&source(&[])));
        assert!(one == same);
        let other = World::usual().with(What::Secret, ("shop", "named"), secret("new", Format::DockerConfigJson));
        assert!(one != other.inputs(&source(&[])));
    }

    #[test]
    fn nothing_is_asked_where_it_is_not_known_how_requests_leave() {
        let world = World::usual();
        let inputs =
            Inputs::of(&source(&[]), &|name| world.0.get(name).cloned(), Some(Err("no proxy is known".to_owned())));
        assert_eq!(inputs.unwrap().reach(&Access::default()).unwrap_err(), "no proxy is known");
    }

    /// A registry that wants a password. Returns its address, and counts who comes without one.
    async fn guarded() -> (String, Arc<AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, strangers) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
        let counted = strangers.clone();
        let app = axum::Router::new().fallback(move |headers: axum::http::HeaderMap| async move {
            if headers.contains_key("authorization") {
                let digest = format!("sha256:{}", "a".repeat(64));
                return (axum::http::StatusCode::OK, [("docker-content-digest", digest)]);
            }
            counted.fetch_add(1, Ordering::SeqCst);
            (axum::http::StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"x\"".to_owned())])
        });
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (address, strangers)
    }

    #[tokio::test]
    async fn catalogs_share_what_is_known_of_a_registry_if_they_have_the_same_credentials() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (address, strangers) = guarded().await;
        let image = crate::net::registry::source::parse(&format!("{address}/a/b:1")).unwrap();
        let known = Access::default();
        let mut counts = Vec::new();
        for password in ["one", "one", "other"] {
            let text = format!(r#"{{"auths": {{"{address}": {{"username": "u", "password": "{password}"}}}}}}"#);
            let secret = Read::Value(Seen::Secret(vec![(Format::DockerConfigJson, text.into_bytes())]));
            let world = World::usual().with(What::Secret, ("shop", "named"), secret);
            let reach = world.inputs(&source(&["named"])).unwrap().reach(&known).unwrap();
            assert!(reach.sources.digest(&image, None).await.is_ok());
            counts.push(strangers.load(Ordering::SeqCst));
        }
        assert_eq!(counts, [1, 1, 2], "other credentials show nothing that was given for these");
    }
}
