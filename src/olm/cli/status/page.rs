//! Operators and their catalogs as a page shows them: the sentences of the command, each with the time since when it is so, because a
//! page tells that by a clock of its own.

use super::objects::Objects;
use super::text::{Sentence, colour, sentences};
use super::view::{Row, View};
use crate::cli::layout::Colour;
use serde_json::{Value, json};

/// Whatever needs somebody comes first, and what is well last.
pub(crate) fn shown(objects: &Objects) -> Value {
    let mut rows = View::of(objects, None).rows;
    rows.sort_by_key(|row| match colour(row) {
        Colour::Bad => 0,
        Colour::Good => 2,
        _ => 1,
    });
    json!({
        "operators": rows.iter().map(operator).collect::<Vec<Value>>(),
        "catalogs": objects.catalogs,
    })
}

fn operator(row: &Row) -> Value {
    let mut sentences = sentences(row);
    // What is to be done is said apart.
    sentences.pop();
    let is_nothing = colour(row) == Colour::Good;
    json!({
        "key": format!("{}/{}", row.namespace, row.name),
        "tone": tone(colour(row)),
        "sentences": sentences.iter().map(sentence).collect::<Vec<Value>>(),
        "whatToDo": if is_nothing { "" } else { &row.what_to_do },
    })
}

fn sentence(it: &Sentence) -> Value {
    json!({"depth": it.depth, "text": it.text, "since": it.since, "rest": it.rest, "tone": tone(it.colour)})
}

fn tone(colour: Colour) -> &'static str {
    match colour {
        Colour::Good => "good",
        Colour::Busy => "busy",
        Colour::Bad => "bad",
        _ => "",
    }
}
