//! Factoring by continued fractions (Morrison and Brillhart, "A method of factoring and the
//! factorization of F7", 1975) on numbers of one block each. Nearly all blocks are tiny and
//! short-lived, and trial division recurses through the factor base with a quotient alive on each
//! level.

use super::natural::Natural;
use crate::heap::{Heap, Subject};
use crate::meter::Meter;
use allocator_api2::vec::Vec;

/// Primes of a factor base; with the sign, their parities fit one word.
const BASE: usize = 63;
/// Relations that are gathered at most; which of them a combination uses fits one word, too.
const RELATIONS: usize = 128;
/// Products of two primes of 34 and 35 bits.
const NUMBERS: [u128; 8] = [
    156_163_888_134_979_284_731,
    213_703_495_912_518_892_451,
    279_243_103_421_079_938_461,
    352_782_712_081_655_884_739,
    434_322_318_093_942_946_379,
    523_861_925_211_525_431_821,
    621_401_533_238_863_731_407,
    726_941_141_201_381_899_993,
];

/// A square that is the product of the base's primes, modulo the number: the parities of its
/// exponents, the root.
struct Relation<A: Subject> {
    parity: u64,
    exponents: Vec<u8, Heap<A>>,
    root: Natural<A>,
}

/// The continued fraction of the root of a number, step by step. Names as in the paper.
struct Expansion<A: Subject> {
    n: Natural<A>,
    g: Natural<A>,
    p: Natural<A>,
    q: [Natural<A>; 2],
    a: [Natural<A>; 2],
    positive: bool,
}

impl<A: Subject> Expansion<A> {
    fn new(number: u128) -> Self {
        let n = Natural::new(number);
        let g = n.root();
        let q = n.minus(&g.times(&g));
        Self {
            p: g.copy(),
            q: [Natural::new(1), q],
            a: [Natural::new(1), g.copy()],
            positive: true,
            n,
            g,
        }
    }

    /// One step: afterwards `a[0]`² ≡ ±`q[0]` modulo `n`, minus unless `positive`.
    fn step(&mut self) {
        let (quotient, rest) = self.g.plus(&self.p).by(&self.q[1]);
        let p = self.g.minus(&rest);
        // (n − p²) / q, which divides.
        let q = self.n.minus(&p.times(&p)).by(&self.q[1]).0;
        let a = quotient.times(&self.a[1]).plus(&self.a[0]).modulo(&self.n);
        self.p = p;
        self.q.swap(0, 1);
        self.q[1] = q;
        self.a.swap(0, 1);
        self.a[1] = a;
        self.positive = !self.positive;
    }
}

/// Divides `value` by the primes from the `i`-th on, as often as they go in; whether nothing but 1
/// is left.
fn smooth<A: Subject>(value: &Natural<A>, primes: &[u32], i: usize, exponents: &mut [u8]) -> bool {
    if i == primes.len() || value.is_one() {
        return value.is_one();
    }
    let (quotient, rest) = value.by_digit(primes[i]);
    if rest == 0 {
        exponents[i] += 1;
        smooth(&quotient, primes, i, exponents)
    } else {
        smooth(value, primes, i + 1, exponents)
    }
}

/// The primes modulo which `number` is a square: only these divide the values of its expansion.
fn factor_base(number: u128) -> [u32; BASE] {
    let mut base = [2; BASE];
    let mut found = 1;
    let mut p = 3_u32;
    while found < BASE {
        let prime = (3..)
            .step_by(2)
            .take_while(|d| d * d <= p)
            .all(|d| !p.is_multiple_of(d));
        let residue = (number % u128::from(p)) as u32;
        if prime && (1..p).any(|x| x * x % p == residue) {
            base[found] = p;
            found += 1;
        }
        p += 2;
    }
    base
}

/// A proper factor from the relations, if a combination of them gives one (Gaussian elimination
/// over the parities).
fn combine<A: Subject>(relations: &[Relation<A>], base: &[u32], n: &Natural<A>) -> Option<u128> {
    let mut rows: Vec<(u64, u128), Heap<A>> = Vec::with_capacity_in(relations.len(), Heap::new());
    for (i, relation) in relations.iter().enumerate() {
        let (mut parity, mut used) = (relation.parity, 1_u128 << i);
        for &(p, u) in &rows {
            if p != 0 && parity & (1 << p.trailing_zeros()) != 0 {
                parity ^= p;
                used ^= u;
            }
        }
        rows.push((parity, used));
        if parity == 0
            && let Some(factor) = divisor(relations, used, base, n)
        {
            return Some(factor);
        }
    }
    None
}

/// The common divisor of the number and x − y, for the x² ≡ y² that the relations in `used`
/// multiply to.
fn divisor<A: Subject>(
    relations: &[Relation<A>],
    used: u128,
    base: &[u32],
    n: &Natural<A>,
) -> Option<u128> {
    let chosen = || (0..relations.len()).filter(|i| used >> i & 1 == 1);
    let mut x = Natural::new(1);
    for i in chosen() {
        x = x.times(&relations[i].root).modulo(n);
    }
    let mut y = Natural::new(1);
    for (k, &prime) in base.iter().enumerate() {
        let total: u32 = chosen().map(|i| u32::from(relations[i].exponents[k])).sum();
        for _ in 0..total / 2 {
            y = y.times(&Natural::new(prime.into())).modulo(n);
        }
    }
    let factor = n.plus(&x).minus(&y).gcd(n);
    (!factor.is_one() && factor.low() != n.low()).then(|| factor.low())
}

/// Works at `number` for at most `steps` steps, which it counts down; the factor, if they sufficed.
fn factor<A: Subject>(number: u128, steps: &mut u64) -> Option<u128> {
    let base = factor_base(number);
    let mut expansion = Expansion::<A>::new(number);
    let mut relations: Vec<Relation<A>, Heap<A>> = Vec::new_in(Heap::new());
    while *steps > 0 && relations.len() < RELATIONS {
        *steps -= 1;
        expansion.step();
        let mut exponents = Vec::with_capacity_in(BASE, Heap::new());
        exponents.resize(BASE, 0);
        if !smooth(&expansion.q[0], &base, 0, &mut exponents) {
            continue;
        }
        let parities = exponents.iter().enumerate();
        let parity = parities.fold(0, |p, (k, &e)| p | u64::from(e & 1) << k);
        relations.push(Relation {
            parity: parity | u64::from(!expansion.positive) << BASE,
            exponents,
            root: expansion.a[0].copy(),
        });
        // More relations than columns depend on each other for certain; each dependency is worth a
        // try.
        if relations.len() > BASE
            && let Some(factor) = combine(&relations, &base, &expansion.n)
        {
            return Some(factor);
        }
    }
    None
}

/// Factors the numbers in turn with `steps` steps together; the sum of the factors found.
fn work<A: Subject>(mut steps: u64) -> u128 {
    let mut sum = 0;
    for number in NUMBERS.into_iter().cycle() {
        if steps == 0 {
            break;
        }
        if let Some(factor) = factor::<A>(number, &mut steps) {
            assert_eq!(number % factor, 0, "{factor} does not divide {number}");
            sum += factor;
        }
    }
    sum
}

/// The workload; an operation is a step of an expansion.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| std::hint::black_box(work::<A>(ops)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn every_number_is_factored() {
        for number in NUMBERS {
            let mut steps = 1_000_000;
            let found = factor::<System>(number, &mut steps).expect("a factor");
            assert!(found > 1 && found < number && number % found == 0);
            println!("{number}: {} steps", 1_000_000 - steps);
        }
    }

    #[test]
    fn the_work_is_the_same_on_every_allocator() {
        let sum = work::<System>(20_000);
        assert!(sum > 0);
        assert_eq!(sum, work::<hakmem_core::Hakmem>(20_000));
    }
}
