//! Files of a release image, in memory.

use super::blocking::Blocking;
use super::image::Image;
use super::layer::Gathered;
use super::place::size_of;
use super::{RegistryError, Repository};
use std::time::Duration;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;

/// For all of a layer, which may be large and come by a slow line.
const LAYER_TIMEOUT: Duration = Duration::from_secs(3600);

impl Repository {
    /// Reads the files under `prefixes` from the image's layers, topmost first, until `enough` says so.
    pub(crate) async fn gather(
        &self,
        image: &Image,
        prefixes: &[&str],
        enough: impl Fn(&Gathered) -> bool,
    ) -> Result<Gathered, RegistryError> {
        let mut gathered = Gathered::under(prefixes);
        let stop = CancellationToken::new();
        let _stopped = stop.clone().drop_guard();
        for descriptor in image.manifest.layers.iter().rev() {
            let attempt = format!("pull layer {}", descriptor.digest);
            let size = size_of(descriptor).map_err(|cause| self.failed(attempt.clone(), cause, ""))?;
            let body = StreamReader::new(self.content(descriptor).await?);
            let body = Blocking::new(body, size, LAYER_TIMEOUT, stop.clone());
            // Unpacking uses the CPU, so it must not block the threads of the runtime.
            let read = tokio::task::spawn_blocking(move || {
                let result = gathered.read_layer(body);
                (gathered, result)
            });
            let (back, result) = read.await.map_err(|e| self.failed(attempt, e, ""))?;
            gathered = back;
            let place = || format!("{}, layer {}", self.reference, descriptor.digest);
            result.map_err(|source| RegistryError::Layer { image: place(), source })?;
            if enough(&gathered) {
                break;
            }
        }
        let failed = |source| RegistryError::Layer { image: self.reference.to_string(), source };
        gathered.follow_links().map_err(failed)?;
        Ok(gathered)
    }
}
