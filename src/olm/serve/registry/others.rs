//! Services that each gRPC server has: health, by which probes ask whether it is there, and reflection, by which clients learn its
//! methods.

use super::calls::{Request, Response};
use crate::olm::registry::{descriptors, messages};
use std::convert::Infallible;
use tonic::Status;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{FILE_DESCRIPTOR_SET, HealthCheckRequest, HealthCheckResponse};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

/// Services by the beginning of the path of their methods.
#[derive(Clone)]
pub(super) struct Others(Vec<(&'static str, BoxCloneSyncService<Request, Response, Infallible>)>);

impl Others {
    pub(super) fn new() -> Self {
        let mut all = Others(vec![("/grpc.health.v1.Health/", BoxCloneSyncService::new(HealthServer::new(Serving)))]);
        let builder = || {
            tonic_reflection::server::Builder::configure()
                .register_file_descriptor_set(descriptors::files(messages::described()))
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        };
        let (v1, v1alpha) = (builder().build_v1(), builder().build_v1alpha());
        match v1 {
            Ok(service) => all.0.push(("/grpc.reflection.v1.ServerReflection/", BoxCloneSyncService::new(service))),
            Err(error) => tracing::error!(%error, "there is no reflection of the API of catalogs"),
        }
        match v1alpha {
            Ok(service) => {
                all.0.push(("/grpc.reflection.v1alpha.ServerReflection/", BoxCloneSyncService::new(service)))
            }
            Err(error) => tracing::error!(%error, "there is no older reflection of the API of catalogs"),
        }
        all
    }

    /// Answers a request for one of these services; all other methods are unknown.
    pub(super) async fn answer(&self, request: Request) -> Response {
        let path = request.uri().path();
        let Some((_, service)) = self.0.iter().find(|(prefix, _)| path.starts_with(prefix)) else {
            return Status::unimplemented(format!("there is no method {path:?}")).into_http();
        };
        match service.clone().oneshot(request).await {
            Ok(response) => response,
            Err(error) => match error {},
        }
    }
}

/// Whoever reaches the server is served, by whatever name it asks.
struct Serving;

#[tonic::async_trait]
impl Health for Serving {
    async fn check(
        &self,
        _request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
        Ok(tonic::Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() }))
    }

    type WatchStream = futures::stream::Empty<Result<HealthCheckResponse, Status>>;

    /// Clients take a server without it for healthy as long as they are connected.
    async fn watch(
        &self,
        _request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("health cannot be watched here: it is served as long as there is a connection"))
    }
}
