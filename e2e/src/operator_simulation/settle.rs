//! Objects of any form, and what becomes of them where nothing goes wrong: the same by the same process that simulations run.

use super::store::{KINDS, Store, text};
use super::world::World;
use super::{Controller, Simulation, Tally, checks, start};
use crate::random::SeededRandom;
use cvo::testing::operator_process::Part;
use serde_json::Value;
use std::time::Duration;

/// Rounds until everybody is at rest.
const UNTIL_REST: usize = 120;

/// What there is once everybody is at rest, by kinds. The status of an object is kept.
///
/// # Errors
/// What does not hold, or what is written again and again.
pub fn settle(objects: &[Value]) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let mut world = World::empty(SeededRandom::new(1, 1, 1), Store::new(start()));
    for object in objects {
        let (kind, namespace) = (text(object, "/kind"), text(object, "/metadata/namespace"));
        if world.store.create(kind, namespace, object).is_ok() && object.get("status").is_some() {
            let name = text(object, "/metadata/name");
            let _done = world.store.patch(kind, (namespace, name), object, Part::Status);
        }
    }
    world.calm_down();
    let controllers = vec![Controller::start(0, &world.store)];
    let mut simulation =
        Simulation { world, controllers, elapsed: Duration::ZERO, processes: 1, tally: Tally::default() };
    simulation.until_rest(UNTIL_REST)?;
    checks::at_rest(&simulation.world, &mut simulation.tally)?;
    simulation.look_again()?;
    let all = KINDS.iter().flat_map(|kind| simulation.world.store.all(kind).map(|(_, _, it)| (*kind, (**it).clone())));
    Ok(all.collect())
}
