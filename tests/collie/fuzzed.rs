//! What the fuzz targets try, as properties: whatever comes, it is answered as the wire says.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::oracle;

/// The names and values of the wire, in any place.
fn word() -> impl Strategy<Value = String> {
    let words = "requestId|text|turnId|steer|answer|optionIds|values|hash|target|pane|tab|workspace\
                 |title|sessionId|starterId|workspaceId|itemId|wire|min|max|p|w|w:t|a|b|n|t|new";
    prop_oneof![4 => words, 1 => r"\PC{0,6}"]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let fields = proptest::collection::hash_map(word(), inner.clone(), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_target_is_answered(
        method in "GET|POST|PUT",
        path in "(hello|state|history|history/[!-~]{0,4}|panes/p/events|[!-~]{0,20})",
        query in r"(\?(after=(INSTANCE:[0-9]{0,20}|[!-~]{0,9})|limit=[0-9-]{0,5}|[!-~]{0,9})(&limit=[0-9]{1,4})?)?",
    ) {
        oracle::target(format!("{method} /durable/v1/{path}{query}").as_bytes());
    }

    #[test]
    fn any_body_is_answered(route in any::<u8>(), body in any_json(), named in any::<bool>()) {
        let mut body = body;
        if let (Value::Object(fields), true) = (&mut body, named) {
            fields.insert("requestId".to_owned(), json!("r"));
        }
        oracle::body(&[&[route], body.to_string().as_bytes()].concat());
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        oracle::body(&bytes);
        oracle::target(&bytes);
    }
}
