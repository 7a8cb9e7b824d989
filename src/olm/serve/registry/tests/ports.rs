//! Which catalog is asked on which port, and what happens when catalogs come and go.

use super::*;
use futures::StreamExt;

fn two() -> Catalogs {
    catalogs(vec![("one", "widgets", content(&widgets())), ("two", "long", long(2000, 1000, true))])
}

async fn names(client: &RegistryClient) -> Vec<String> {
    client.packages().map_ok(|it| it.name).try_collect().await.unwrap()
}

#[tokio::test]
async fn shared_port_serves_the_catalog_that_the_authority_names() {
    let running = start_with(Limits::default(), two()).await;
    for (authority, expected) in
        [("widgets.one.svc:50051", vec!["gears", "widgets"]), ("long.two.svc.cluster.local", vec!["a"])]
    {
        assert_eq!(names(&client_of(running.address, authority).await).await, expected);
    }
}

#[tokio::test]
async fn unknown_authority_is_not_found_and_told_how_to_ask() {
    let running = start_with(Limits::default(), two()).await;
    let authority = running.address.to_string();
    let client = client_of(running.address, &authority).await;
    let (code, message) = refusal(&client, ListPackageRequest {}).await;
    assert_eq!(code, Code::NotFound);
    for part in [&authority, "<service>.<namespace>.svc:50051", "served are widgets.one.svc, long.two.svc"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn own_port_serves_its_catalog_whatever_the_authority() {
    let running = start_with(Limits::default(), two()).await;
    let (widgets, long) = (running.open("one", "widgets").await, running.open("two", "long").await);
    for authority in ["127.0.0.1:50051", "long.two.svc:50051", "other"] {
        assert_eq!(names(&client_of(widgets, authority).await).await, ["gears", "widgets"]);
        assert_eq!(names(&client_of(long, authority).await).await, ["a"]);
    }
}

#[tokio::test]
async fn own_port_may_be_given_by_the_name_of_the_service() {
    let running = start_with(Limits::default(), catalogs(vec![("one", "my.catalog", content(&widgets()))])).await;
    let own = running.open("one", "my-catalog").await;
    assert_eq!(names(&client_of(own, "x").await).await, ["gears", "widgets"]);
}

#[tokio::test]
async fn port_is_open_only_while_its_catalog_is_served() {
    let running = start_with(Limits::default(), two()).await;
    let own = running.open("one", "widgets").await;
    let client = client_of(own, "x").await;
    assert_eq!(names(&client).await, ["gears", "widgets"]);

    running.serve(catalogs(vec![("two", "long", long(1, 1, true))]));
    until(async || TcpStream::connect(own).await.is_err()).await;
    until(async || client.channel().state != Connection::Ready).await;

    running.serve(two());
    wait_for(&client, Connection::Ready).await;
    assert_eq!(names(&client).await, ["gears", "widgets"]);
}

#[tokio::test]
async fn port_may_move_to_another_catalog() {
    let running = start_with(Limits::default(), two()).await;
    let own = running.open("one", "widgets").await;
    let before = client_of(own, "x").await;
    running.ports.send_replace(Arc::new([(("two".to_owned(), "long".to_owned()), own.port())].into()));
    until(async || before.channel().state != Connection::Ready).await;
    assert_eq!(names(&client_of(own, "x").await).await, ["a"]);
}

#[tokio::test]
async fn port_that_is_taken_hinders_no_other() {
    let running = start_with(Limits::default(), two()).await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    running.ports.send_modify(|ports| {
        Arc::make_mut(ports).insert(("one".to_owned(), "widgets".to_owned()), port);
    });
    let own = running.open("two", "long").await;
    assert_eq!(names(&client_of(own, "x").await).await, ["a"]);
}

#[tokio::test]
async fn open_answer_of_a_removed_catalog_ends_and_others_go_on() {
    let mut served = two();
    served.extend(catalogs(vec![("two", "other", long(2000, 1000, true))]));
    let running = start_with(Limits::default(), served.clone()).await;
    let (removed, kept) =
        (client_of(running.address, "long.two.svc").await, client_of(running.address, "other.two.svc").await);
    let (mut removed_answer, mut kept_answer) = (Box::pin(removed.bundles()), Box::pin(kept.bundles()));
    removed_answer.next().await.unwrap().unwrap();
    kept_answer.next().await.unwrap().unwrap();

    served.remove(&("two".to_owned(), "long".to_owned()));
    running.serve(served);
    let error = removed_answer.try_collect::<Vec<_>>().await.unwrap_err();
    let expected = "the catalog long of namespace two is not served now; see the status of its CatalogSource";
    assert!(
        matches!(&error, RegistryError::Status { code: Code::Unavailable, message, .. } if message == expected),
        "{error}"
    );
    assert_eq!(kept_answer.try_collect::<Vec<_>>().await.unwrap().len(), 1999);
}

#[tokio::test]
async fn answer_that_has_begun_is_of_one_content_when_a_new_one_comes() {
    let running = start_with(Limits::default(), catalogs(vec![("two", "long", long(2000, 1000, true))])).await;
    let client = client_of(running.address, "long.two.svc").await;
    let mut answer = Box::pin(client.bundles());
    answer.next().await.unwrap().unwrap();
    running.serve(catalogs(vec![("two", "long", long(5, 7, true))]));
    assert_eq!(client.bundles().try_collect::<Vec<_>>().await.unwrap().len(), 5);
    let rest: Vec<Bundle> = answer.try_collect().await.unwrap();
    assert_eq!(rest.len(), 1999);
    assert!(rest.iter().all(|it| it.properties[1].value.len() > 1000));
}

#[tokio::test]
async fn server_that_stops_finishes_what_has_begun() {
    let running = start_with(Limits::default(), two()).await;
    let client = client_of(running.address, "long.two.svc").await;
    let mut answer = Box::pin(client.bundles());
    answer.next().await.unwrap().unwrap();
    running.stop.cancel();
    until(async || TcpStream::connect(running.address).await.is_err()).await;
    assert_eq!(answer.try_collect::<Vec<_>>().await.unwrap().len(), 1999);
    tokio::time::timeout(Duration::from_secs(5), running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn server_that_stops_does_not_wait_for_ever() {
    let limits = Limits { closing: Duration::from_millis(100), ..Limits::default() };
    let running = start_with(limits, two()).await;
    let client = client_of(running.address, "long.two.svc").await;
    let mut answer = Box::pin(client.bundles());
    answer.next().await.unwrap().unwrap();
    running.stop.cancel();
    tokio::time::timeout(Duration::from_secs(5), running.task).await.unwrap().unwrap();
    assert!(answer.try_collect::<Vec<_>>().await.is_err());
}

#[tokio::test]
async fn taken_shared_port_is_an_error() {
    let running = start().await;
    let error = Server::bind(running.address, Limits::default()).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot listen on {}", running.address)));
}
