//! Data structures of real programs, on vectors that live in the measured heap.

use crate::heap::{Heap, Subject, append};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use allocator_api2::vec::Vec;

/// Strings that live at the same time.
const LIVE: usize = 1000;

fn string<A: Subject>(length: usize, rng: &mut Rng) -> Vec<u8, Heap<A>> {
    let mut text = Vec::new_in(Heap::new());
    while text.len() < length {
        let word = rng.bits().to_le_bytes();
        append(&mut text, &word);
    }
    text
}

/// The workload of strings that grow by appending words.
pub fn strings<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut live = Table::<Option<Vec<u8, Heap<A>>>>::filled(LIVE, |_| None);
    let mut rng = Rng::new(700);
    meter.measure(|| {
        for _ in 0..ops {
            let slot = &mut live[rng.below(LIVE)];
            // Short ones are the rule: the length is the smaller of two draws.
            let length = rng.between(10, 2000).min(rng.between(10, 2000));
            *slot = Some(string(length, &mut rng));
        }
        live.clear();
    });
}

type Member<A> = (Vec<u8, Heap<A>>, Value<A>);

/// A JSON value; its numbers and truth values need no block and stand for each other here.
enum Value<A: Subject> {
    Number(f64),
    Text(Vec<u8, Heap<A>>),
    List(Vec<Value<A>, Heap<A>>),
    Object(Vec<Member<A>, Heap<A>>),
}

/// A value with `budget` values in it, itself included, roughly.
fn value<A: Subject>(budget: usize, rng: &mut Rng) -> Value<A> {
    if budget <= 2 {
        return match rng.below(2) {
            0 => Value::Number(budget as f64),
            _ => Value::Text(string(rng.between(4, 40), rng)),
        };
    }
    let fanout = rng.between(2, 12).min(budget);
    let share = budget / fanout;
    if rng.below(3) == 0 {
        let mut list = Vec::new_in(Heap::new());
        for _ in 0..fanout {
            list.push(value(share, rng));
        }
        Value::List(list)
    } else {
        let mut object = Vec::new_in(Heap::new());
        for _ in 0..fanout {
            object.push((string(rng.between(3, 16), rng), value(share, rng)));
        }
        Value::Object(object)
    }
}

/// How many values are in it, so that the tree is used and not only made.
fn count<A: Subject>(value: &Value<A>) -> usize {
    1 + match value {
        Value::Number(n) => usize::from(n.is_nan()),
        Value::Text(text) => usize::from(text.is_empty()),
        Value::List(list) => list.iter().map(count).sum(),
        Value::Object(object) => object.iter().map(|(_, v)| count(v)).sum(),
    }
}

/// The workload of trees.
pub fn trees<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut rng = Rng::new(800);
    meter.measure(|| {
        for _ in 0..ops {
            let tree = value::<A>(20_000, &mut rng);
            assert!(count(&tree) > 1000, "a tree came out too small");
        }
    });
}
