//! Answers to who asks for ClusterServiceVersions, which are read from the API server one by one while they are written.

use super::CsvSource;
use super::answer::{accepts_gzip, answer, json};
use super::body::{Answer, Writers};
use super::unknown;
use crate::olm::operator::copies::shown::ShownCsv;
use crate::olm::packages::csvs::{self, Body, PLURAL, page};
use crate::olm::packages::form::Form;
use crate::olm::packages::list::ListMetadata;
use crate::olm::packages::request::Request;
use crate::olm::packages::status::Status;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The answer to a request that is allowed.
pub(super) async fn respond(
    request: Request,
    source: &Arc<dyn CsvSource>,
    writers: &Writers,
    parts: &Parts,
) -> Result<Response, Status> {
    let shown = source.shown();
    let shown = shown.ok_or_else(|| Status::unavailable("operators have not been read yet; try again"))?;
    let accepts_gzip = accepts_gzip(&parts.headers);
    match request {
        // The length is not known before everything is written.
        Request::Csvs { .. } if parts.method == Method::HEAD => Ok(json(unknown(), false)),
        Request::Csvs { namespace, query, form } => {
            let (source, runtime) = (source.clone(), Handle::current());
            let written = writers.write(Answer::List, accepts_gzip, move |out| {
                let page = page(&shown, &namespace, &query);
                let mut list = csvs::begin(out, form, &page.metadata)?;
                for csv in &page.items {
                    let body = match form.has_objects() {
                        false => None,
                        true => match runtime.block_on(source.body(csv.clone())).map_err(io::Error::other)? {
                            // It is gone since the page was made.
                            None => continue,
                            body => body,
                        },
                    };
                    csvs::item(&mut list, csv, body.as_deref())?;
                }
                list.end().map(drop)
            });
            answer(written.await)
        }
        Request::Csv { namespace, name, form } => {
            let missing = || Status::no_object(PLURAL, &name);
            let csv = shown.get(&namespace, &name).ok_or_else(missing)?;
            let body = match form.has_objects() {
                false => None,
                true => {
                    let read = source.body(csv.clone()).await.map_err(Status::unavailable)?;
                    Some(read.ok_or_else(missing)?)
                }
            };
            one(csv, form, body, writers, accepts_gzip).await
        }
        _ => Err(Status::no_resource()),
    }
}

/// `body`: all of it, where the form has that.
async fn one(
    csv: ShownCsv,
    form: Form,
    body: Option<Arc<Body>>,
    writers: &Writers,
    accepts_gzip: bool,
) -> Result<Response, Status> {
    let written = writers.write(Answer::Single, accepts_gzip, move |out| match (form, &body) {
        (Form::Object, Some(body)) => body.write(&csv.namespace, out),
        (Form::Object | Form::Metadata, _) => csvs::write_metadata(&csv, out),
        (Form::Table(_), body) => {
            let mut table = csvs::begin(out, form, &ListMetadata::default())?;
            csvs::item(&mut table, &csv, body.as_deref())?;
            table.end().map(drop)
        }
    });
    answer(written.await)
}
