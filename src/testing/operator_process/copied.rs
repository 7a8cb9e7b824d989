//! Copies that are written, one step after the other.

use super::{Api, Failure, OperatorProcess, Part, key};
use crate::olm::operator::copies::book::{Job, Key, Live};
use crate::olm::operator::copies::{Content, compare, content};
use serde_json::{Value, json};

const CSV: &str = "ClusterServiceVersion";

/// Something that is done for a copy or an original, and is under way until it is performed.
#[derive(Clone, Debug)]
pub struct CopyJob {
    pub namespace: String,
    pub name: String,
    job: Job,
}

impl CopyJob {
    /// Whether something is written.
    pub fn writes(&self) -> bool {
        !matches!(self.job, Job::Read { .. })
    }
}

enum Done {
    Read(String, Box<Content>),
    Written(Live),
    Over,
}

impl OperatorProcess {
    /// What is begun next, if there is anything.
    pub fn copy_job(&mut self) -> Option<CopyJob> {
        let ((namespace, name), job) = self.book.next()?;
        Some(CopyJob { namespace, name, job })
    }

    /// Performs it. What fails is done again by [`OperatorProcess::copy_again`].
    pub fn copy(&mut self, job: &CopyJob, api: &mut dyn Api) -> Result<(), Failure> {
        let of = key(&job.namespace, &job.name);
        match perform(api, &of, &job.job) {
            Ok(Done::Read(version, content)) => self.book.on_read(&of, version, *content),
            Ok(Done::Written(live)) => drop(self.book.on_written(&of, live)),
            Ok(Done::Over) => self.book.on_end(&of),
            Err(failure) => {
                self.book.on_failed(&of, !job.writes());
                return Err(failure);
            }
        }
        Ok(())
    }

    /// The pause after a failure is over.
    pub fn copy_again(&mut self, job: &CopyJob) {
        self.book.on_end(&key(&job.namespace, &job.name));
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn perform(api: &mut dyn Api, (namespace, name): &Key, job: &Job) -> Result<Done, Failure> {
    match job {
        Job::Read { .. } => Ok(match api.get(CSV, namespace, name)? {
            Some(original) => Done::Read(text(&original, "/metadata/resourceVersion"), Box::new(content(&original))),
            None => Done::Over,
        }),
        Job::Delete { uid } => api.delete(CSV, namespace, name, uid).map(|()| Done::Over),
        Job::Write { content, live: None, .. } => match api.create(CSV, namespace, &content.object) {
            Err(Failure::Exists) => Ok(Done::Over),
            answer => put_status(api, (namespace, name), content, &answer?),
        },
        Job::Write { content, before, live: Some(live) } => {
            let known = before.as_ref().filter(|before| live.hash.as_ref() == Some(&before.hash));
            let (mut latest, (has_object, has_status)) = match known {
                Some(before) => {
                    let version = live.version.to_string();
                    (json!({"metadata": {"uid": live.uid, "resourceVersion": version}}), before.same(content))
                }
                None => {
                    let Some(found) = api.get(CSV, namespace, name)? else { return Ok(Done::Over) };
                    let same = compare(&found, content);
                    (found, same)
                }
            };
            if !has_object {
                let mut object = content.object.clone();
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.insert("namespace".to_owned(), namespace.as_str().into());
                    for part in ["uid", "resourceVersion"] {
                        metadata.insert(part.to_owned(), text(&latest, &format!("/metadata/{part}")).into());
                    }
                }
                latest = api.replace(CSV, namespace, &object, Part::Object)?;
            }
            match has_status {
                true => Ok(Done::Written(written(content, &latest))),
                false => put_status(api, (namespace, name), content, &latest),
            }
        }
    }
}

fn put_status(
    api: &mut dyn Api,
    (namespace, name): (&str, &str),
    content: &Content,
    latest: &Value,
) -> Result<Done, Failure> {
    let metadata = json!({"namespace": namespace, "name": name, "uid": text(latest, "/metadata/uid"),
        "resourceVersion": text(latest, "/metadata/resourceVersion")});
    let object = json!({"kind": CSV, "metadata": metadata, "status": content.status});
    let answer = api.replace(CSV, namespace, &object, Part::Status)?;
    Ok(Done::Written(written(content, &answer)))
}

fn written(content: &Content, answer: &Value) -> Live {
    Live {
        uid: text(answer, "/metadata/uid"),
        version: text(answer, "/metadata/resourceVersion").parse().unwrap_or_default(),
        from: text(&content.object, "/metadata/labels/olm.copiedFrom"),
        hash: Some(content.hash.clone()),
    }
}
