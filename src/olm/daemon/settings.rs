//! What the process is configured by. Some flags are those of the programs that it takes the place of: they are accepted, so that a
//! Deployment can be taken over, and told of where they have no meaning here.

use crate::merge::quantity;
use crate::net::proxy::Proxies;
use crate::olm::api::{GLOBAL_CATALOG_NAMESPACE, LEASE, NAMESPACE, PACKAGE_SERVICE};
use crate::olm::duration;
use crate::olm::source::pod::ImageAccess;
use crate::olm::work::certificate::Identity;
use crate::olm::work::operators::OperatorSettings;
use crate::olm::work::{catalogs, plans, subscriptions};
use crate::process::serving::Serving;
use crate::process::settings::{LeaseSettings, SettingsError, address};
use crate::serve::tls;
use clap::{ArgAction, Args, ValueEnum};
use jiff::SignedDuration;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Run the controller of operators: read catalogs, serve what they offer, and keep their status current
#[derive(Args, Debug)]
pub(crate) struct Settings {
    /// The release that this process belongs to: it is published once its work is done.
    #[arg(long, env = "RELEASE_VERSION", value_name = "VERSION")]
    pub release_version: String,
    /// Pull spec of the image of this process.
    #[arg(long, env = "OPERATOR_IMAGE", value_name = "IMAGE", default_value = "")]
    pub image: String,
    /// Namespace whose catalogs are visible in all others.
    #[arg(long = "namespace", alias = "global-namespace", default_value = GLOBAL_CATALOG_NAMESPACE, value_name = "NAME")]
    global_namespace: String,
    /// The same, and comes before --namespace.
    #[arg(long, env = "GLOBAL_CATALOG_NAMESPACE", value_name = "NAME", hide = true)]
    global_catalog_namespace: Option<String>,
    /// Namespace of this process.
    #[arg(long = "pod-namespace", env = "POD_NAMESPACE", default_value = NAMESPACE, value_name = "NAME")]
    pub namespace: String,
    /// Address of this process, to which Services of catalogs lead.
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pod_ip: Option<IpAddr>,
    #[command(flatten)]
    reports: Reports,
    #[command(flatten)]
    pub(super) servers: Servers,
    /// Address of /healthz and /readyz (HTTP) for the kubelet, which ask nobody who they are; empty disables it.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub listen_health: String,
    /// Folder for the contents of catalogs; nobody else may use it.
    #[arg(long, default_value = "/var/cache/olm", value_name = "DIR")]
    catalog_cache_dir: PathBuf,
    /// How much of it is kept of what no catalog needs any more.
    #[arg(long, default_value = "2Gi", value_name = "QUANTITY")]
    catalog_cache_size: String,
    /// Which catalogs of images are served by pods: only those that nothing else can read, or that ask for one (auto); or all (pod).
    #[arg(long, value_enum, default_value_t = CatalogServing::Auto, value_name = "WAY")]
    catalog_serving: CatalogServing,
    /// How images of catalogs and bundles are read: by this process, and where a registry refuses it or cannot be reached through the nodes of
    /// pods (auto); never so (direct); or always so (pod).
    #[arg(long, value_enum, default_value_t = Access::Auto, value_name = "WAY")]
    image_access: Access,
    /// HTTP proxy (http://HOST:PORT) for servers of catalogs that CatalogSources name by their address; empty for none. Services of the
    /// cluster are reached without it.
    #[arg(long, env = "GRPC_PROXY", value_name = "URL", default_value = "", hide_env_values = true)]
    grpc_proxy: String,
    /// Hosts and networks that are reached without that proxy, separated by commas.
    #[arg(long, env = "NO_PROXY", value_name = "LIST", default_value = "")]
    no_proxy: String,
    /// Pods of catalogs get a user of their own, and not root, where they are restricted.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = false, action = ArgAction::Set)]
    set_workload_user_id: bool,
    /// How long fetching a bundle may take, as in 10m; 0 for as long as it takes. OperatorGroups may say something else.
    #[arg(long, default_value = "10m", value_name = "DURATION")]
    bundle_unpack_timeout: String,
    /// How long steps of an InstallPlan that fail are tried again before the plan has failed, as in 1m.
    #[arg(long, default_value = "1m", value_name = "DURATION")]
    install_plan_retry_timeout: String,
    /// What this process does besides reading and serving catalogs: writing what catalogs need; finding and planning what is
    /// installed for Subscriptions, and carrying out plans; keeping operators.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LOOP",
        default_values_t = [Loop::Catalogs, Loop::Subscriptions, Loop::Operators])]
    pub loops: Vec<Loop>,
    /// Namespaces, separated by commas, in which operators for all namespaces appear even if OLMConfig says that they are not copied.
    #[arg(long = "protectedCopiedCSVNamespaces", value_delimiter = ',', value_name = "LIST")]
    protected_namespaces: Vec<String>,
    /// Copies of operators for all namespaces are not written: the API of packages has ClusterServiceVersions besides, in which each
    /// namespace sees them all the same. Processes that share the work need it together.
    #[arg(long)]
    virtual_copies: bool,
    /// Kubeconfig instead of the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub lease: LeaseSettings,
    #[command(flatten)]
    older: Older,
}

impl Settings {
    /// Name of the Lease. Processes that do different parts of the work each hold one of their own.
    pub(crate) fn lease_name(&self) -> String {
        let all =
            [(Loop::Catalogs, "catalogs"), (Loop::Subscriptions, "subscriptions"), (Loop::Operators, "operators")];
        let here: Vec<&str> = all.iter().filter(|(part, _)| self.loops.contains(part)).map(|(_, name)| *name).collect();
        if here.len() == all.len() { LEASE.to_owned() } else { format!("{LEASE}-{}", here.join("-")) }
    }
}

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Loop {
    Catalogs,
    Subscriptions,
    Operators,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Access {
    Auto,
    Direct,
    Pod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CatalogServing {
    Auto,
    Pod,
}

/// What the update of the cluster is told.
#[derive(Args, Clone, Debug)]
struct Reports {
    /// ClusterOperator of the controller; empty for none.
    #[arg(long = "writeStatusName", default_value = "", value_name = "NAME")]
    write_status_name: String,
    /// ClusterOperator of the catalogs; empty for none.
    #[arg(long = "writeCatalogStatusName", default_value = "", value_name = "NAME")]
    write_catalog_status_name: String,
    /// ClusterOperator of the API of packages; empty for none.
    #[arg(long = "writePackageServerStatusName", default_value = "", value_name = "NAME")]
    write_package_server_status_name: String,
    /// ClusterOperator of the default catalogs; empty for none.
    #[arg(long = "writeMarketplaceStatusName", default_value = "", value_name = "NAME")]
    write_marketplace_status_name: String,
}

/// Where it is asked.
#[derive(Args, Clone, Debug)]
pub(crate) struct Servers {
    /// Address of the metrics (HTTPS), for clients with the certificate of the platform's Prometheus or with the token of one who
    /// may get the path /metrics; empty disables it.
    #[arg(long, default_value = "0.0.0.0:8443", value_name = "ADDRESS")]
    listen: String,
    /// Certificate of the metrics server; self-signed if none is given, and until it is there.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the metrics server's certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Port of the API of packages (HTTPS), for API servers; 0 disables it.
    #[arg(long, default_value_t = 5443, value_name = "PORT")]
    pub secure_port: u16,
    /// Service of the API of packages, in the namespace of this process.
    #[arg(long, default_value = PACKAGE_SERVICE, value_name = "NAME")]
    pub packages_service: String,
    /// Secret with the certificate of that Service, which all replicas serve with.
    #[arg(long, default_value = "packageserver-service-cert", value_name = "NAME")]
    pub packages_secret: String,
    /// Address at which all catalogs are asked for (gRPC); empty disables it.
    #[arg(long, default_value = "0.0.0.0:50051", value_name = "ADDRESS")]
    pub listen_catalogs: String,
    /// Ports of which each catalog gets one, so that its Service leads to it alone.
    #[arg(long, default_value = "50052-51074", value_name = "FIRST-LAST")]
    catalog_ports: String,
}

/// Flags of the programs that this process takes the place of, without meaning here.
#[derive(Args, Clone, Debug)]
struct Older {
    #[arg(long, hide = true)]
    interval: Option<String>,
    #[arg(long = "configmapServerImage", hide = true)]
    config_map_server_image: Option<String>,
    #[arg(long = "opmImage", hide = true)]
    opm_image: Option<String>,
    #[arg(long = "util-image", hide = true)]
    util_image: Option<String>,
    #[arg(long = "watchedNamespaces", hide = true)]
    watched_namespaces: Option<String>,
    #[arg(long, hide = true)]
    client_ca: Option<String>,
    #[arg(long, hide = true)]
    workers: Option<String>,
}

impl Settings {
    /// What the controller of catalogs needs of it.
    pub(super) fn of_controller(&self) -> Result<catalogs::Settings, SettingsError> {
        let reports = self.reports.clone();
        let proxies = Proxies::for_grpc(&self.grpc_proxy, &self.no_proxy).map_err(SettingsError)?;
        Ok(catalogs::Settings {
            version: self.release_version.clone(),
            namespace: self.namespace.clone(),
            global_namespace: self.global_namespace().to_owned(),
            address: self.pod_ip,
            ports: ports(&self.servers.catalog_ports)?,
            operators: catalogs::Operators {
                lifecycle: reports.write_status_name,
                catalog: reports.write_catalog_status_name,
                packages: reports.write_package_server_status_name,
                marketplace: reports.write_marketplace_status_name,
            },
            pods: Arc::new(catalogs::PodSettings {
                always: self.catalog_serving == CatalogServing::Pod,
                access: match self.image_access {
                    Access::Auto => ImageAccess::Auto,
                    Access::Direct => ImageAccess::Direct,
                    Access::Pod => ImageAccess::Pod,
                },
                set_user: self.set_workload_user_id,
                server_image: self.image.clone(),
            }),
            proxies: Arc::new(proxies),
        })
    }

    /// What the controller of Subscriptions needs of it.
    pub(super) fn of_subscriptions(&self) -> Result<subscriptions::Settings, SettingsError> {
        let timeout = time("--bundle-unpack-timeout", &self.bundle_unpack_timeout)?;
        Ok(subscriptions::Settings {
            version: self.release_version.clone(),
            global_namespace: self.global_namespace().to_owned(),
            unpack_timeout: Duration::try_from(timeout).unwrap_or_default(),
        })
    }

    /// What the controller of InstallPlans needs of it.
    pub(super) fn of_plans(&self) -> Result<plans::Settings, SettingsError> {
        let retried = time("--install-plan-retry-timeout", &self.install_plan_retry_timeout)?;
        Ok(plans::Settings { namespace: self.namespace.clone(), retried })
    }

    pub(super) fn of_operators(&self) -> OperatorSettings {
        let protected = self.protected_namespaces.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        OperatorSettings {
            keeps: self.loops.contains(&Loop::Operators),
            protected: protected.map(str::to_owned).collect(),
            virtual_copies: self.virtual_copies,
            release: self.release_version.clone(),
        }
    }

    /// The namespace whose catalogs all others see.
    pub(super) fn global_namespace(&self) -> &str {
        let namespace = self.global_catalog_namespace.as_ref().filter(|name| !name.is_empty());
        namespace.unwrap_or(&self.global_namespace)
    }

    /// Under which name packages are asked for, and where the certificate for that is.
    pub(super) fn packages_identity(&self) -> Identity {
        Identity {
            namespace: self.namespace.clone(),
            service: self.servers.packages_service.clone(),
            secret: self.servers.packages_secret.clone(),
        }
    }

    /// The folder of contents, and how much is kept there.
    pub(super) fn cache(&self) -> Result<(PathBuf, u64), SettingsError> {
        let text = &self.catalog_cache_size;
        let size = quantity::parts(text, 1).and_then(|size| u64::try_from(size).ok());
        let wrong = || SettingsError(format!("--catalog-cache-size {text:?} is no quantity of bytes such as 2Gi"));
        Ok((self.catalog_cache_dir.clone(), size.ok_or_else(wrong)?))
    }

    pub(super) fn serving(&self) -> Result<Option<Serving>, SettingsError> {
        let Some(listen) = address("--listen", &self.servers.listen)? else { return Ok(None) };
        let files = self.servers.tls_cert.clone().zip(self.servers.tls_key.clone());
        let files = files.map(|(certificate, key)| tls::Files { certificate, key });
        let flags = tls::Flags::new(None, Vec::new()).map_err(|error| SettingsError(error.to_string()))?;
        Ok(Some(Serving { listen, files, flags }))
    }

    pub(super) fn tell_what_has_no_meaning(&self) {
        let given = self.older.given();
        if !given.is_empty() {
            tracing::info!(flags = given.join(" "), "these flags have no meaning here; take them out");
        }
    }
}

impl Older {
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--interval", &self.interval),
            ("--configmapServerImage", &self.config_map_server_image),
            ("--opmImage", &self.opm_image),
            ("--util-image", &self.util_image),
            ("--watchedNamespaces", &self.watched_namespaces),
            ("--client-ca", &self.client_ca),
            ("--workers", &self.workers),
        ];
        all.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect()
    }
}

/// A duration that is not negative.
fn time(flag: &str, text: &str) -> Result<SignedDuration, SettingsError> {
    let time = duration::parse(text).ok().filter(|time| !time.is_negative());
    time.ok_or_else(|| SettingsError(format!("{flag} {text:?} is no duration such as 10m")))
}

/// `FIRST-LAST`.
fn ports(text: &str) -> Result<RangeInclusive<u16>, SettingsError> {
    let range = text.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?);
        (first > 0 && first <= last).then_some(first..=last)
    });
    range.ok_or_else(|| {
        SettingsError(format!("--catalog-ports {text:?} is not a range of ports such as 50052-51074: FIRST-LAST"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::yaml;
    use clap::Parser;
    use serde_json::Value;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    fn parsed(arguments: &[&str]) -> Settings {
        let all = ["olm", "--release-version=1.0.0"].into_iter().chain(arguments.iter().copied());
        Line::try_parse_from(all).unwrap().settings
    }

    #[test]
    fn arguments_of_the_deployment_are_understood() {
        let text = include_bytes!("../../../manifests/olm/0000_50_olm_50_deployment.yaml");
        let documents = yaml::documents(text).unwrap();
        let arguments = documents[0].value.pointer("/spec/template/spec/containers/0/args").unwrap();
        let arguments: Vec<&str> = arguments.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(arguments[..2], ["olm", "start"]);
        let settings = Line::try_parse_from(&arguments[1..]).unwrap().settings;
        let of_controller = settings.of_controller().unwrap();
        assert_eq!(of_controller.ports, 50052..=51074);
        assert_eq!(of_controller.global_namespace, GLOBAL_CATALOG_NAMESPACE);
        let names: Vec<&String> = {
            let names = &of_controller.operators;
            [&names.lifecycle, &names.catalog, &names.packages, &names.marketplace].into()
        };
        assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
        assert_eq!(settings.cache().unwrap(), (PathBuf::from("/var/cache/olm"), 2 << 30));
        assert!(settings.serving().unwrap().unwrap().files.is_some());
        assert_eq!(settings.older.given(), [""; 0]);
    }

    #[test]
    fn processes_that_share_the_work_do_not_share_the_lease() {
        assert_eq!(parsed(&[]).lease_name(), "olm-operator");
        let all = "--loops=operators,subscriptions,catalogs";
        assert_eq!(parsed(&[all]).lease_name(), "olm-operator", "the same in another order");
        assert_eq!(parsed(&["--loops=catalogs,subscriptions"]).lease_name(), "olm-operator-catalogs-subscriptions");
        assert_eq!(parsed(&["--loops=operators"]).lease_name(), "olm-operator-operators");
    }

    #[test]
    fn flags_of_the_programs_before_are_accepted_and_told_of() {
        let settings = parsed(&["--interval=15m", "--opmImage=a", "--set-workload-user-id", "--util-image=b"]);
        assert_eq!(settings.older.given(), ["--interval", "--opmImage", "--util-image"]);
        assert!(settings.of_controller().unwrap().pods.set_user);
        assert!(!parsed(&[]).of_controller().unwrap().pods.set_user);
        assert!(parsed(&["--catalog-serving=pod"]).of_controller().unwrap().pods.always);
    }

    #[test]
    fn copies_are_written_unless_they_are_to_be_virtual() {
        assert!(!parsed(&[]).of_operators().virtual_copies);
        assert!(parsed(&["--virtual-copies"]).of_operators().virtual_copies);
    }

    #[test]
    fn namespace_of_the_environment_comes_before_the_flag() {
        let settings = parsed(&["--namespace=a", "--global-catalog-namespace=b"]);
        assert_eq!(settings.of_controller().unwrap().global_namespace, "b");
        assert_eq!(parsed(&["--global-namespace=a"]).of_controller().unwrap().global_namespace, "a");
    }

    #[test]
    fn ranges_and_sizes_that_are_none_are_refused_with_an_example() {
        for text in ["", "50052", "50052-", "2-1", "0-1", "1-70000"] {
            let error = ports(text).unwrap_err().to_string();
            assert!(error.contains("50052-51074"), "{text}: {error}");
        }
        for text in ["", "ten", "-1m"] {
            let error = parsed(&[&format!("--bundle-unpack-timeout={text}")]).of_subscriptions().unwrap_err();
            assert!(error.to_string().contains("10m"), "{text}: {error}");
            let error = parsed(&[&format!("--install-plan-retry-timeout={text}")]).of_plans().unwrap_err();
            assert!(error.to_string().contains("--install-plan-retry-timeout"), "{text}: {error}");
        }
        for text in ["", "2 gigabytes", "-1Gi"] {
            let error = parsed(&[&format!("--catalog-cache-size={text}")]);
            assert!(error.cache().unwrap_err().to_string().contains("2Gi"), "{text}");
        }
    }
}
