//! Two-level logic minimisation (Brayton and others, "Logic minimization algorithms for VLSI
//! synthesis", 1984, the book of espresso): covers of cubes that are cofactored, complemented and
//! merged recursively, so that lists of blocks live for a call, for a recursion, or for as long as
//! their function.

use crate::heap::{Heap, Subject, append};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use allocator_api2::vec::Vec;

/// A product term: for each variable which of its values are in it, bit 0 for false and bit 1 for
/// true.
type Cube<A> = Vec<u8, Heap<A>>;
/// A sum of products.
type Cover<A> = Vec<Cube<A>, Heap<A>>;

/// Both values: the variable does not matter.
const ANY: u8 = 0b11;
/// Minimised functions that are kept.
const KEPT: usize = 64;

fn copy<A: Subject>(cube: &[u8]) -> Cube<A> {
    let mut new = Vec::with_capacity_in(cube.len(), Heap::new());
    append(&mut new, cube);
    new
}

fn is_universe(cube: &[u8]) -> bool {
    cube.iter().all(|&c| c == ANY)
}

fn meet(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).all(|(a, b)| a & b != 0)
}

fn contains(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).all(|(a, b)| a & b == *b)
}

/// The cubes of a cover that meet `cube`, as seen from inside it.
fn cofactor<'a, A: Subject>(cover: impl Iterator<Item = &'a Cube<A>>, cube: &[u8]) -> Cover<A> {
    let mut inside = Vec::new_in(Heap::new());
    for c in cover.filter(|c| meet(c, cube)) {
        let mut seen = copy(c);
        for (s, &restricted) in seen.iter_mut().zip(cube) {
            if restricted != ANY {
                *s = ANY;
            }
        }
        inside.push(seen);
    }
    inside
}

/// The variable that most cubes depend on; `None` if there is none.
fn splitter<A: Subject>(cover: &Cover<A>, variables: usize) -> Option<usize> {
    let uses = |v: usize| cover.iter().filter(|c| c[v] != ANY).count();
    (0..variables)
        .max_by_key(|&v| uses(v))
        .filter(|&v| uses(v) > 0)
}

/// The half space where variable `v` has the one value that `bit` names.
fn half<A: Subject>(variables: usize, v: usize, bit: u8) -> Cube<A> {
    let mut cube = Vec::with_capacity_in(variables, Heap::new());
    cube.resize(variables, ANY);
    cube[v] = bit;
    cube
}

/// Whether the cover is true everywhere.
fn tautology<A: Subject>(cover: &Cover<A>, variables: usize) -> bool {
    if cover.iter().any(|c| is_universe(c)) {
        return true;
    }
    let Some(v) = splitter(cover, variables) else {
        return false;
    };
    [0b01, 0b10].into_iter().all(|bit| {
        tautology(
            &cofactor(cover.iter(), &half::<A>(variables, v, bit)),
            variables,
        )
    })
}

/// A cover of everything outside `cover` (Shannon's expansion; what both halves share is merged).
fn complement<A: Subject>(cover: &Cover<A>, variables: usize) -> Cover<A> {
    let mut outside = Vec::new_in(Heap::new());
    if cover.iter().any(|c| is_universe(c)) {
        return outside;
    }
    let Some(v) = splitter(cover, variables) else {
        let mut all = Vec::with_capacity_in(variables, Heap::new());
        all.resize(variables, ANY);
        outside.push(all);
        return outside;
    };
    let [mut low, high] = [0b01, 0b10].map(|bit| {
        complement(
            &cofactor(cover.iter(), &half::<A>(variables, v, bit)),
            variables,
        )
    });
    low.iter_mut().for_each(|c| c[v] = 0b01);
    for mut cube in high {
        let same = |c: &&mut Cube<A>| (0..variables).all(|i| i == v || c[i] == cube[i]);
        if let Some(twin) = low.iter_mut().find(same) {
            twin[v] = ANY;
        } else {
            cube[v] = 0b10;
            low.push(cube);
        }
    }
    low
}

/// Each cube made as large as it can be without leaving the function; cubes that are inside another
/// are dropped.
fn expand<A: Subject>(on: &Cover<A>, off: &Cover<A>) -> Cover<A> {
    let mut primes: Cover<A> = Vec::new_in(Heap::new());
    for cube in on {
        let mut prime = copy(cube);
        for v in 0..prime.len() {
            let before = std::mem::replace(&mut prime[v], ANY);
            if off.iter().any(|o| meet(o, &prime)) {
                prime[v] = before;
            }
        }
        if !primes.iter().any(|p| contains(p, &prime)) {
            primes.retain(|p| !contains(&prime, p));
            primes.push(prime);
        }
    }
    primes
}

/// Drops each cube that the others cover without it.
fn irredundant<A: Subject>(mut cover: Cover<A>, variables: usize) -> Cover<A> {
    let mut i = 0;
    while i < cover.len() {
        let others = cover.iter().enumerate().filter(|(j, _)| *j != i);
        let rest = cofactor(others.map(|(_, c)| c), &cover[i]);
        if tautology(&rest, variables) {
            cover.swap_remove(i);
        } else {
            i += 1;
        }
    }
    cover
}

fn minimise<A: Subject>(on: &Cover<A>, variables: usize) -> Cover<A> {
    let off = complement(on, variables);
    irredundant(expand(on, &off), variables)
}

/// A function of 8–12 variables as a sum of 12–32 products, each of which depends on about half of
/// the variables.
fn function<A: Subject>(rng: &mut Rng) -> (Cover<A>, usize) {
    let variables = rng.between(8, 12);
    let mut cover = Vec::new_in(Heap::new());
    for _ in 0..rng.between(12, 32) {
        let mut cube = Vec::with_capacity_in(variables, Heap::new());
        cube.extend((0..variables).map(|_| [0b01, 0b10, ANY, ANY][rng.below(4)]));
        cover.push(cube);
    }
    (cover, variables)
}

/// Minimises random functions and keeps the newest; the literals left in all of them.
fn work<A: Subject>(functions: u64, kept: &mut Table<Option<Cover<A>>>) -> usize {
    let mut rng = Rng::new(1100);
    let mut literals = 0;
    for i in 0..functions as usize {
        let (on, variables) = function(&mut rng);
        let small = minimise(&on, variables);
        literals += small.iter().flatten().filter(|&&c| c != ANY).count();
        kept[i % KEPT] = Some(small);
    }
    kept.clear();
    literals
}

/// The workload; an operation is a function minimised.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut kept = Table::filled(KEPT, |_| None);
    meter.measure(|| std::hint::black_box(work::<A>(ops, &mut kept)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    fn holds(cover: &Cover<System>, point: &[u8]) -> bool {
        cover.iter().any(|c| meet(c, point))
    }

    #[test]
    fn a_minimised_function_is_the_same_function_in_no_more_terms() {
        let mut rng = Rng::new(3);
        for _ in 0..10 {
            let (on, variables) = function::<System>(&mut rng);
            let small = minimise(&on, variables);
            let off = complement(&on, variables);
            assert!(small.len() <= on.len());
            for point in 0..1_usize << variables {
                let point: std::vec::Vec<u8> =
                    (0..variables).map(|v| 1 << (point >> v & 1)).collect();
                assert_eq!(holds(&small, &point), holds(&on, &point), "{point:?}");
                assert_ne!(holds(&off, &point), holds(&on, &point), "{point:?}");
            }
        }
    }

    #[test]
    fn the_work_is_the_same_on_every_allocator() {
        let literals = work::<System>(70, &mut Table::filled(KEPT, |_| None));
        assert!(literals > 70);
        let again = work::<hakmem_core::Hakmem>(70, &mut Table::filled(KEPT, |_| None));
        assert_eq!(literals, again);
    }
}
