//! Bodies that attract each other, in an octree that is built anew for each step (Barnes and Hut,
//! "A hierarchical O(N log N) force-calculation algorithm", 1986).

use crate::heap::{Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

const BODIES: usize = 4000;
/// Bodies that a leaf may hold.
const LEAF: usize = 4;
/// Bodies take turns to be accelerated, an eighth of them each step, so that building trees is not
/// lost in arithmetic.
const TURNS: usize = 8;
/// A cell is one mass for bodies at a distance of at least its side by this.
const OPENING: f64 = 1.0;
/// Squared distance below which attraction grows no further.
const SOFTENING: f64 = 1e-4;
const STEP: f64 = 1e-4;

type Vector = [f64; 3];

#[derive(Clone, Copy)]
struct Body {
    place: Vector,
    speed: Vector,
}

enum Tree<A: Subject> {
    Leaf(Vec<u32, Heap<A>>),
    Cell(Box<Cell<A>, Heap<A>>),
}

struct Cell<A: Subject> {
    /// How many bodies, all of mass 1 / `BODIES`, and where on average.
    bodies: f64,
    middle: Vector,
    children: [Option<Tree<A>>; 8],
}

/// A cube in space.
#[derive(Clone, Copy)]
struct Cube {
    centre: Vector,
    half: f64,
}

impl Cube {
    const ALL: Self = Self {
        centre: [0.5; 3],
        half: 0.5,
    };

    fn octant(&self, place: &Vector) -> usize {
        let bit = |d: usize| usize::from(place[d] >= self.centre[d]) << d;
        bit(0) | bit(1) | bit(2)
    }

    fn child(&self, octant: usize) -> Self {
        let half = self.half / 2.0;
        let side = |d: usize| if octant >> d & 1 == 1 { half } else { -half };
        Self {
            centre: std::array::from_fn(|d| self.centre[d] + side(d)),
            half,
        }
    }
}

fn insert<A: Subject>(slot: &mut Option<Tree<A>>, cube: Cube, body: u32, all: &[Body]) {
    match slot {
        None => {
            let mut leaf = Vec::new_in(Heap::new());
            leaf.push(body);
            *slot = Some(Tree::Leaf(leaf));
        }
        // Bodies closer than that share a leaf however many they are.
        Some(Tree::Leaf(leaf)) if leaf.len() < LEAF || cube.half < 1e-9 => leaf.push(body),
        Some(Tree::Leaf(leaf)) => {
            let full = std::mem::replace(leaf, Vec::new_in(Heap::new()));
            let empty = Cell {
                bodies: 0.0,
                middle: [0.0; 3],
                children: [const { None }; 8],
            };
            let mut cell = Box::new_in(empty, Heap::new());
            for &b in full.iter().chain([&body]) {
                add(&mut cell, cube, b, all);
            }
            *slot = Some(Tree::Cell(cell));
        }
        Some(Tree::Cell(cell)) => add(cell, cube, body, all),
    }
}

fn add<A: Subject>(cell: &mut Cell<A>, cube: Cube, body: u32, all: &[Body]) {
    let place = &all[body as usize].place;
    cell.bodies += 1.0;
    for (middle, x) in cell.middle.iter_mut().zip(place) {
        *middle += (x - *middle) / cell.bodies;
    }
    let octant = cube.octant(place);
    insert(&mut cell.children[octant], cube.child(octant), body, all);
}

fn attract(force: &mut Vector, from: &Vector, to: &Vector, bodies: f64) {
    let away: Vector = std::array::from_fn(|d| to[d] - from[d]);
    let square = away.iter().map(|x| x * x).sum::<f64>() + SOFTENING;
    let strength = bodies / BODIES as f64 / (square * square.sqrt());
    for d in 0..3 {
        force[d] += away[d] * strength;
    }
}

/// Adds to `force` how the tree attracts what is at `place`.
fn pull<A: Subject>(tree: &Tree<A>, half: f64, place: &Vector, all: &[Body], force: &mut Vector) {
    match tree {
        Tree::Leaf(leaf) => {
            for &b in leaf {
                attract(force, place, &all[b as usize].place, 1.0);
            }
        }
        Tree::Cell(cell) => {
            let square: f64 = (0..3).map(|d| (cell.middle[d] - place[d]).powi(2)).sum();
            if square * OPENING * OPENING > 4.0 * half * half {
                attract(force, place, &cell.middle, cell.bodies);
            } else {
                for child in cell.children.iter().flatten() {
                    pull(child, half / 2.0, place, all, force);
                }
            }
        }
    }
}

fn build<A: Subject>(bodies: &[Body]) -> Option<Tree<A>> {
    let mut root = None;
    for b in 0..bodies.len() as u32 {
        insert(&mut root, Cube::ALL, b, bodies);
    }
    root
}

fn step<A: Subject>(bodies: &mut [Body], turn: usize) {
    let root = build::<A>(bodies).expect("there are bodies");
    for i in (turn % TURNS..bodies.len()).step_by(TURNS) {
        let mut force = [0.0; 3];
        pull(&root, Cube::ALL.half, &bodies[i].place, bodies, &mut force);
        for (speed, f) in bodies[i].speed.iter_mut().zip(force) {
            *speed += f * STEP * TURNS as f64;
        }
    }
    drop(root);
    for body in bodies {
        for d in 0..3 {
            body.place[d] += body.speed[d] * STEP;
            // Walls keep them in the cube of the tree.
            if !(0.0..1.0).contains(&body.place[d]) {
                body.speed[d] = -body.speed[d];
                body.place[d] = body.place[d].clamp(0.0, 0.999_999);
            }
        }
    }
}

/// Bodies in a few clusters, as stars are.
fn bodies() -> Table<Body> {
    let mut rng = Rng::new(1200);
    let mut unit = || rng.bits() as f64 / u64::MAX as f64;
    Table::filled(BODIES, |i| {
        let cluster = (i % 5) as f64 / 5.0;
        // The product of two draws lies near the middle of the cluster more often than not.
        let mut at = |middle: f64| (middle + 0.2 * unit() * unit()).min(0.999);
        Body {
            place: [at(cluster), at(1.0 - cluster), at(cluster * cluster)],
            speed: [0.0; 3],
        }
    })
}

/// The workload; an operation is a step.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut bodies = bodies();
    meter.measure(|| (0..ops as usize).for_each(|turn| step::<A>(&mut bodies, turn)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn the_tree_attracts_about_as_the_bodies_do() {
        let bodies = bodies();
        let root = build::<System>(&bodies).expect("there are bodies");
        let length = |v: Vector| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let (mut forces, mut errors) = (0.0, 0.0);
        for i in (0..BODIES).step_by(17) {
            let (mut exact, mut approximate) = ([0.0; 3], [0.0; 3]);
            for b in bodies.iter() {
                attract(&mut exact, &bodies[i].place, &b.place, 1.0);
            }
            pull(
                &root,
                Cube::ALL.half,
                &bodies[i].place,
                &bodies,
                &mut approximate,
            );
            forces += length(exact);
            errors += length(std::array::from_fn(|d| exact[d] - approximate[d]));
        }
        assert!(
            errors > 0.0 && errors < 0.06 * forces,
            "{errors} of {forces}"
        );
    }

    #[test]
    fn the_work_is_the_same_on_every_allocator() {
        let (mut a, mut b, start) = (bodies(), bodies(), bodies());
        for turn in 0..4 {
            step::<System>(&mut a, turn);
            step::<hakmem_core::Hakmem>(&mut b, turn);
        }
        let same = |x: &[Body], y: &[Body]| x.iter().zip(y).all(|(x, y)| x.place == y.place);
        assert!(same(&a, &b) && !same(&a, &start));
    }
}
