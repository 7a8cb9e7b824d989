use super::*;
use crate::cluster_version::graph;
use crate::cluster_version::rollout::Outcome;
use crate::merge::Applied;
use crate::object::manifest::Origin;
use crate::release::api::Release;
use crate::release::load;

const FILE: &[u8] = br#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}"#;

/// Its only object was brought back three times at this moment.
fn contested(at: Timestamp) -> Rollout {
    let manifests = load::manifests_of(Origin::Release, "0000_10_a_1", FILE).unwrap();
    let plan = Plan {
        release: Release::default(),
        mode: Mode::Reconcile,
        graph: graph::build::build(&manifests, Mode::Reconcile, None),
        own_deployment: ObjectId::default(),
        hand_over: false,
        unfinished_pass: false,
        manifests,
    };
    let (mut rollout, mut commands) = Rollout::start(plan, Clocks::default(), at);
    for _ in 0..4 {
        let Some(Command::Reconcile(request)) = commands.pop() else { panic!("{commands:?}") };
        let applied = Some(Applied::Updated { fields: vec![".data".into()], by: None });
        rollout.on(Event::Reconciled(request, Box::new(Outcome { applied, ..Outcome::default() })), at);
        commands = rollout.on(Event::Changed { position: 0, content: true }, at);
    }
    rollout
}

#[tokio::test]
async fn end_of_a_conflict_is_published_although_nothing_happens() {
    let begun = Timestamp::now() - Duration::from_millis(599_700);
    let mut rollout = contested(begun);
    let (view, published) = watch::channel(Arc::new(rollout.view(begun)));
    let mut publication = Publication { view, at: Instant::now(), outdated: true, conflict_ends: None };
    let conflicts = |number: usize| assert_eq!(published.borrow().conflicts.len(), number);
    let due = async |publication: &Publication| tokio::time::timeout(Duration::from_secs(60), publication.due()).await;
    due(&publication).await.unwrap();
    assert!(publication.at.elapsed() >= MOMENT, "what happens in one moment is published together");
    publication.publish(&mut rollout);
    conflicts(1);
    due(&publication).await.unwrap();
    publication.publish(&mut rollout);
    conflicts(0);
    tokio::time::pause();
    assert!(due(&publication).await.is_err(), "nothing more is due by time alone");
}
