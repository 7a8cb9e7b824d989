use super::*;
use futures::stream;
use serde_json::json;

#[tokio::test]
async fn error_counts_only_until_the_config_map_was_read() {
    let failed = || Read::Failed("no".to_owned());
    let map = || Read::Value(json!({"data": {"ack": "true", "nonsense": 7}}));
    let value = Read::Value(BTreeMap::from([("ack".to_owned(), "true".to_owned())]));
    for (states, expected) in [
        (vec![], None),
        (vec![failed()], Some(Read::Failed("no".to_owned()))),
        (vec![failed(), map()], Some(value.clone())),
        (vec![map(), failed()], Some(value)),
        (vec![map(), Read::Absent, failed()], Some(Read::Absent)),
        (vec![Read::Value(json!({}))], Some(Read::Value(BTreeMap::new()))),
    ] {
        let (tell, told) = watch::channel(None);
        follow_one(stream::iter(states.clone()).boxed(), tell).await;
        assert_eq!(*told.borrow(), expected, "{states:?}");
    }
}
