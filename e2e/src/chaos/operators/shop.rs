//! A namespace whose users install operators from a catalog of their own, have them updated twice, delete them, and begin anew; and what
//! there has to be afterwards.

use crate::catalogs::push;
use crate::chaos::retried;
use crate::conditions::Conditions;
use crate::harness::{Cluster, files};
use crate::operators::{Version, catalog};
use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::subscription::{State, Subscription};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Three versions of each operator, of which each replaces the one before. `bellows` answers a webhook, and `crucible` has a Deployment of
/// another name in each of them.
const VERSIONS: [[(&str, &str); 3]; 3] = [
    [("anvil.v1", ""), ("anvil.v2", ""), ("anvil.v3", "")],
    [("bellows.v1", ""), ("bellows.v2", ""), ("bellows.v3", "")],
    [("crucible.v1", "crucible-one"), ("crucible.v2", "crucible-two"), ("crucible.v3", "crucible-three")],
];
const IMAGES: [&str; 3] = ["registry.invalid/operator:1", "registry.invalid/operator:2", "registry.invalid/operator:3"];
/// An installation, two updates, and a deletion.
const TURNS: usize = VERSIONS[0].len() + 1;

/// What happens in it, and where.
pub(super) struct World {
    pub cluster: Cluster,
    pub client: Client,
    pub bundles: Bundles,
}

/// The versions, and the pull specs of their bundles.
pub(super) struct Bundles(Vec<Vec<(Version, String)>>);

impl Bundles {
    /// Pushes all of them.
    pub(super) async fn push(registry: &str) -> anyhow::Result<Bundles> {
        let mut all = Vec::new();
        for names in VERSIONS {
            let mut replaces = "";
            let mut versions = Vec::new();
            for ((name, deployment), image) in names.into_iter().zip(IMAGES) {
                let version = Version::new(name);
                let (kind, requires) = match version.package() {
                    "anvil" => ("Anvil", ("", "")),
                    "bellows" => ("", ("Anvil", "anvil.example.com")),
                    _ => ("", ("", "")),
                };
                let answers = version.package() == "bellows";
                let version = Version { replaces, kind, requires, deployment, image, answers, ..version };
                replaces = name;
                let pushed = version.push(registry).await?;
                versions.push((version, pushed));
            }
            all.push(versions);
        }
        Ok(Bundles(all))
    }

    /// The catalog that has the first versions, so many of each.
    fn catalog(&self, count: usize) -> String {
        let offered: Vec<(Version, String)> = self.0.iter().flat_map(|all| all.iter().take(count).cloned()).collect();
        catalog(&offered)
    }

    /// The version of each operator by its number, from 1; none for 0.
    fn heads(&self, number: usize) -> Vec<&Version> {
        let Some(at) = number.checked_sub(1) else { return Vec::new() };
        self.0.iter().filter_map(|all| all.get(at)).map(|(version, _)| version).collect()
    }
}

/// A namespace.
pub(super) struct Shop {
    name: String,
    number: usize,
    /// The digest of its catalog.
    offered: String,
    /// The version of each operator that is to run; 0 for none.
    wanted: usize,
}

impl Shop {
    /// Creates the namespace, with a group for it alone and a catalog.
    pub(super) async fn open(world: &World, number: usize) -> anyhow::Result<Shop> {
        let mut shop = Shop { name: format!("shop-{number}"), number, offered: String::new(), wanted: 0 };
        shop.offer(world, 1).await?;
        let name = &shop.name;
        let image = format!("{}/{}", world.cluster.registry(), shop.image());
        let spec =
            json!({"sourceType": "grpc", "image": image, "updateStrategy": {"registryPoll": {"interval": "1s"}}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let group = shop.object("operators.coreos.com/v1", "OperatorGroup", name, json!({"targetNamespaces": [name]}));
        let source = shop.object("operators.coreos.com/v1alpha1", "CatalogSource", "main", spec);
        shop.apply(world, &[namespace, group, source]).await?;
        Ok(shop)
    }

    /// What its users do while this operation is under way: each shop begins one later than the one before. Returns for how many
    /// operators.
    pub(super) async fn turn(&mut self, world: &World, operation: usize) -> anyhow::Result<usize> {
        let Some(turn) = operation.checked_sub(self.number) else { return Ok(0) };
        let before = self.wanted;
        self.wanted = (turn + 1) % TURNS;
        match self.wanted {
            0 => {
                println!("{}: all operators are deleted", self.name);
                self.delete(world).await?;
                self.offer(world, 1).await?;
            }
            1 => {
                println!("{}: operators are installed", self.name);
                self.subscribe(world).await?;
            }
            next => {
                println!("{}: version {next} comes in the place of {before}, whose certificate is gone", self.name);
                self.spoil(world).await?;
                self.offer(world, next).await?;
            }
        }
        Ok(world.bundles.heads(1).len())
    }

    /// What is not as it has to be now.
    pub(super) async fn wrong(&self, world: &World) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        let sources: Api<CatalogSource> = Api::namespaced(world.client.clone(), &self.name);
        if !sources.get("main").await?.says("ContentLoaded=True", &[&self.offered]) {
            wrong.push("the last catalog is not read".to_owned());
        }
        let heads = world.bundles.heads(self.wanted);
        let subscriptions: BTreeMap<String, Subscription> = self.list(world).await?;
        let versions: BTreeMap<String, ClusterServiceVersion> = self.list(world).await?;
        let deployments: BTreeMap<String, Deployment> = self.list(world).await?;
        let wanted = |name: fn(&Version) -> String| heads.iter().map(|head| name(head)).collect::<BTreeSet<_>>();
        let names = [
            ("Subscriptions", subscriptions.keys().cloned().collect(), wanted(|it| it.package().to_owned())),
            ("ClusterServiceVersions", versions.keys().cloned().collect(), wanted(|it| it.name.to_owned())),
            ("Deployments", deployments.keys().cloned().collect::<BTreeSet<_>>(), wanted(Version::deployment)),
        ];
        let differ = names.iter().filter(|(_, found, wanted)| found != wanted);
        wrong.extend(differ.map(|(what, found, wanted)| format!("{what} {found:?} in the place of {wanted:?}")));
        wrong.extend(self.untrusted(world, &heads, &deployments).await?);
        for head in heads {
            let subscription = subscriptions.get(head.package()).and_then(|it| it.status.as_ref());
            if subscription.is_none_or(|it| it.installed_csv != head.name || it.state != State::AtLatestKnown) {
                wrong.push(format!("Subscription {} says {subscription:?}", head.package()));
            }
            let version = versions.get(head.name);
            let phase = version.and_then(|it| Some(&it.status.as_ref()?.phase));
            if phase != Some(&Phase::Succeeded) {
                wrong.push(format!("{} is {phase:?}", head.name));
            }
            let deployment = deployments.get(&head.deployment()).map(|it| (image(it), owners(it)));
            let expected = version.and_then(ResourceExt::uid).map(|uid| (head.image.to_owned(), vec![uid]));
            if deployment != expected {
                wrong.push(format!("Deployment {}: {deployment:?}, not {expected:?}", head.deployment()));
            }
        }
        Ok(wrong.into_iter().map(|it| format!("{}: {it}", self.name)).collect())
    }

    /// What the API server believes, and what pods have, of the certificates with which they answer: each is that of its Secret, and no
    /// webhook is left of an operator that is gone.
    async fn untrusted(
        &self,
        world: &World,
        heads: &[&Version],
        deployments: &BTreeMap<String, Deployment>,
    ) -> anyhow::Result<Vec<String>> {
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
        let labels = format!("olm.owner.namespace={}", self.name);
        let found = configurations.list(&ListParams::default().labels(&labels)).await?;
        let webhooks = found.iter().flat_map(|it| it.webhooks.iter().flatten());
        let believed: Vec<Vec<u8>> =
            webhooks.map(|it| it.client_config.ca_bundle.clone().unwrap_or_default().0).collect();
        let secrets: BTreeMap<String, Secret> = self.list(world).await?;
        let (mut authorities, mut wrong) = (Vec::new(), Vec::new());
        for head in heads.iter().filter(|head| head.answers) {
            let name = format!("{}-service-cert", head.deployment());
            let authority = secrets.get(&name).and_then(|it| it.data.as_ref()?.get("olmCAKey"));
            let authority = authority.map(|it| it.0.clone()).unwrap_or_default();
            let known = deployments.get(&head.deployment()).and_then(authority_of_pods);
            if known != Some(hex::encode(Sha256::digest(&authority))) {
                wrong.push(format!("pods of {} have not the certificate of {name}: {known:?}", head.name));
            }
            authorities.push(authority);
        }
        if believed != authorities {
            wrong.push(format!("{} webhooks do not believe {} authorities", believed.len(), authorities.len()));
        }
        Ok(wrong)
    }

    /// The objects of a kind by their names.
    async fn list<K>(&self, world: &World) -> anyhow::Result<BTreeMap<String, K>>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(world.client.clone(), &self.name);
        let found = api.list(&ListParams::default()).await?;
        Ok(found.into_iter().map(|object| (object.name_any(), object)).collect())
    }

    fn image(&self) -> String {
        format!("catalogs/{}:v1", self.name)
    }

    /// The catalog has so many versions of each operator from now on.
    async fn offer(&mut self, world: &World, count: usize) -> anyhow::Result<()> {
        let text = world.bundles.catalog(count);
        let files: [(&str, &[u8]); 1] = [("configs/catalog.json", text.as_bytes())];
        self.offered = push(&world.cluster.registry(), &self.image(), &files, &[]).await?;
        Ok(())
    }

    async fn subscribe(&self, world: &World) -> anyhow::Result<()> {
        let heads = world.bundles.heads(1);
        let packages = heads.iter().map(|head| head.package());
        let spec =
            |package| json!({"name": package, "channel": "stable", "source": "main", "sourceNamespace": self.name});
        let of = |package| self.object("operators.coreos.com/v1alpha1", "Subscription", package, spec(package));
        let objects: Vec<Value> = packages.map(of).collect();
        self.apply(world, &objects).await
    }

    async fn delete(&self, world: &World) -> anyhow::Result<()> {
        let all = ["delete", "subscriptions.operators.coreos.com,csv", "--all", "--wait=false", "-n", &self.name];
        retried("operators to be deleted", async || Ok(world.cluster.kubectl(all).await.map(drop)?)).await
    }

    /// Somebody deletes the Secrets with certificates, so that others are made.
    async fn spoil(&self, world: &World) -> anyhow::Result<()> {
        let all = ["delete", "secrets", "-l", "olm.owner.kind=ClusterServiceVersion", "--wait=false", "-n", &self.name];
        retried("Secrets to be deleted", async || Ok(world.cluster.kubectl(all).await.map(drop)?)).await
    }

    fn object(&self, api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": self.name}, "spec": spec})
    }

    async fn apply(&self, world: &World, objects: &[Value]) -> anyhow::Result<()> {
        let file = world.cluster.dir().join(format!("{}.json", self.name));
        files::write_json(&file, &json!({"apiVersion": "v1", "kind": "List", "items": objects}))?;
        let file = file.display().to_string();
        let apply = ["apply", "--server-side", "-f", &file];
        retried("objects to be written", async || Ok(world.cluster.kubectl(apply).await.map(drop)?)).await
    }
}

/// The image of its first container.
fn image(deployment: &Deployment) -> String {
    let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    spec.and_then(|pod| pod.containers.first()?.image.clone()).unwrap_or_default()
}

/// The hash of the authority of the certificate that its pods have.
fn authority_of_pods(deployment: &Deployment) -> Option<String> {
    let metadata = deployment.spec.as_ref()?.template.metadata.as_ref()?;
    metadata.annotations.as_ref()?.get("olmcahash").cloned()
}

fn owners(deployment: &Deployment) -> Vec<String> {
    deployment.owner_references().iter().map(|owner| owner.uid.clone()).collect()
}
