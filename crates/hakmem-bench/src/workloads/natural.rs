//! Natural numbers of any size whose digits live in the measured heap, one block per number, as a
//! bignum library has them. Schoolbook algorithms: the numbers here have a few digits.

use crate::heap::{Heap, Subject, append};
use allocator_api2::vec::Vec;
use std::cmp::Ordering;

/// Bits of a digit.
const DIGIT: u32 = 32;

/// A natural number: digits to the base 2^32, the lowest first, the highest not zero.
pub struct Natural<A: Subject>(Vec<u32, Heap<A>>);

impl<A: Subject> Natural<A> {
    /// The number `value`.
    pub fn new(value: u128) -> Self {
        let mut digits = Vec::with_capacity_in(4, Heap::new());
        digits.extend((0..4).map(|i| (value >> (i * DIGIT)) as u32));
        Self::trimmed(digits)
    }

    /// Room for `n` digits, all zero. Always inlined: where an allocator's own code is so short
    /// that it is inlined here, the compiler would call this, and hand the three words back through
    /// memory.
    #[inline(always)]
    fn zeroes(n: usize) -> Vec<u32, Heap<A>> {
        let mut digits = Vec::with_capacity_in(n, Heap::new());
        digits.resize(n, 0);
        digits
    }

    fn trimmed(mut digits: Vec<u32, Heap<A>>) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Self(digits)
    }

    /// The lowest 128 bits.
    pub fn low(&self) -> u128 {
        let digits = self.0.iter().take(4).rev();
        digits.fold(0, |n, &d| n << DIGIT | u128::from(d))
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is 1.
    pub fn is_one(&self) -> bool {
        self.0.as_slice() == [1]
    }

    /// A copy in a block of its own.
    pub fn copy(&self) -> Self {
        let mut digits = Vec::with_capacity_in(self.0.len(), Heap::new());
        append(&mut digits, &self.0);
        Self(digits)
    }

    /// Which of the two is larger.
    pub fn compare(&self, other: &Self) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// `self` + `other`.
    pub fn plus(&self, other: &Self) -> Self {
        let n = self.0.len().max(other.0.len());
        let mut sum = Self::zeroes(n + 1);
        let mut carry = 0;
        for (i, digit) in sum.iter_mut().enumerate() {
            let at = |x: &Self| u64::from(x.0.get(i).copied().unwrap_or(0));
            let s = at(self) + at(other) + carry;
            *digit = s as u32;
            carry = s >> DIGIT;
        }
        Self::trimmed(sum)
    }

    /// `self` − `other`, which must not be larger.
    pub fn minus(&self, other: &Self) -> Self {
        let mut rest = self.copy().0;
        let mut borrow = false;
        for (i, digit) in rest.iter_mut().enumerate() {
            let (d, b) = digit.overflowing_sub(other.0.get(i).copied().unwrap_or(0));
            let (d, c) = d.overflowing_sub(u32::from(borrow));
            *digit = d;
            borrow = b | c;
        }
        debug_assert!(!borrow && other.0.len() <= self.0.len());
        Self::trimmed(rest)
    }

    /// `self` × `other`.
    pub fn times(&self, other: &Self) -> Self {
        let mut product = Self::zeroes(self.0.len() + other.0.len());
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0;
            for (j, &b) in other.0.iter().enumerate() {
                let p = u64::from(a) * u64::from(b) + u64::from(product[i + j]) + carry;
                product[i + j] = p as u32;
                carry = p >> DIGIT;
            }
            product[i + other.0.len()] = carry as u32;
        }
        Self::trimmed(product)
    }

    /// Quotient and remainder by a divisor of one digit.
    #[inline(always)]
    pub fn by_digit(&self, divisor: u32) -> (Self, u32) {
        let mut quotient = Self::zeroes(self.0.len());
        let mut rest = 0;
        for (q, &d) in quotient.iter_mut().zip(self.0.iter()).rev() {
            let n = rest << DIGIT | u64::from(d);
            *q = (n / u64::from(divisor)) as u32;
            rest = n % u64::from(divisor);
        }
        (Self::trimmed(quotient), rest as u32)
    }

    /// `self` × 2^`bits`, for less than a digit, with a digit more than `self` has, even if it is
    /// zero.
    fn shifted(&self, bits: u32) -> Vec<u32, Heap<A>> {
        let mut digits = Self::zeroes(self.0.len() + 1);
        for (i, &d) in self.0.iter().enumerate() {
            let wide = u64::from(d) << bits;
            digits[i] |= wide as u32;
            digits[i + 1] = (wide >> DIGIT) as u32;
        }
        digits
    }

    /// Quotient and remainder (Knuth, The Art of Computer Programming, 4.3.1, algorithm D).
    ///
    /// # Panics
    /// If the divisor is 0.
    pub fn by(&self, divisor: &Self) -> (Self, Self) {
        if self.compare(divisor) == Ordering::Less {
            return (Self::new(0), self.copy());
        }
        let [_, .., top] = divisor.0[..] else {
            let (quotient, rest) = self.by_digit(divisor.0[0]);
            return (quotient, Self::new(rest.into()));
        };
        // With its highest bit set, the divisor's first digits predict those of the quotient.
        let shift = top.leading_zeros();
        let v = Self::trimmed(divisor.shifted(shift)).0;
        let mut u = self.shifted(shift);
        let n = v.len();
        let (v1, v2) = (u64::from(v[n - 1]), u64::from(v[n - 2]));
        debug_assert!(v1 >> (DIGIT - 1) == 1);
        let mut quotient = Self::zeroes(u.len() - n);
        for j in (0..u.len() - n).rev() {
            let head = u64::from(u[j + n]) << DIGIT | u64::from(u[j + n - 1]);
            let (mut guess, mut rest) = (head / v1, head % v1);
            while guess >> DIGIT != 0 || guess * v2 > (rest << DIGIT | u64::from(u[j + n - 2])) {
                guess -= 1;
                rest += v1;
                if rest >> DIGIT != 0 {
                    break;
                }
            }
            let (mut carry, mut borrow) = (0, false);
            for i in 0..=n {
                let p = guess * u64::from(v.get(i).copied().unwrap_or(0)) + carry;
                carry = p >> DIGIT;
                let (d, b) = u[i + j].overflowing_sub(p as u32);
                let (d, c) = d.overflowing_sub(u32::from(borrow));
                u[i + j] = d;
                borrow = b | c;
            }
            if borrow {
                // The guess was one too large, which is rare.
                guess -= 1;
                let mut carry = 0;
                for i in 0..=n {
                    let s = u64::from(u[i + j]) + u64::from(v.get(i).copied().unwrap_or(0)) + carry;
                    u[i + j] = s as u32;
                    carry = s >> DIGIT;
                }
            }
            quotient[j] = guess as u32;
        }
        for i in 0..n {
            let wide = u64::from(u[i + 1]) << DIGIT | u64::from(u[i]);
            u[i] = (wide >> shift) as u32;
        }
        u.truncate(n);
        (Self::trimmed(quotient), Self::trimmed(u))
    }

    /// The remainder by `modulus`.
    pub fn modulo(&self, modulus: &Self) -> Self {
        self.by(modulus).1
    }

    /// The largest number whose square is not above `self` (Newton's iteration from above).
    pub fn root(&self) -> Self {
        if self.is_zero() {
            return Self::new(0);
        }
        let mut start = Self::zeroes(self.0.len() / 2 + 2);
        start[self.0.len() / 2 + 1] = 1;
        let mut x = Self(start);
        loop {
            let (y, _) = x.plus(&self.by(&x).0).by_digit(2);
            if y.compare(&x) != Ordering::Less {
                return x;
            }
            x = y;
        }
    }

    /// The greatest common divisor.
    pub fn gcd(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.copy(), other.copy());
        while !b.is_zero() {
            let rest = a.modulo(&b);
            a = b;
            b = rest;
        }
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::alloc::System;

    type N = Natural<System>;

    #[test]
    fn small_ones_agree_with_the_machine() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let draw = |rng: &mut Rng| {
                let wide = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
                wide >> rng.between(1, 127)
            };
            let (a, b) = (draw(&mut rng), draw(&mut rng).max(1));
            let (x, y) = (N::new(a), N::new(b));
            assert_eq!(x.plus(&y).low(), a + b);
            assert_eq!(x.times(&y).low(), a.wrapping_mul(b));
            assert_eq!(x.compare(&y), a.cmp(&b));
            let (q, r) = x.by(&y);
            assert_eq!((q.low(), r.low()), (a / b, a % b), "{a} / {b}");
            assert_eq!(x.root().low(), a.isqrt());
            if a >= b {
                assert_eq!(x.minus(&y).low(), a - b);
            }
        }
    }

    #[test]
    fn division_undoes_multiplication_of_large_ones() {
        let mut rng = Rng::new(2);
        for _ in 0..2000 {
            // Digits of all ones and all zeroes reach the rare steps of the division.
            let mut draw = |n| {
                let mut digits = N::zeroes(n);
                digits.fill_with(|| [0, u32::MAX, rng.bits() as u32][rng.below(3)]);
                digits.push(1 + rng.below(7) as u32);
                Natural(digits)
            };
            let (a, b, r): (N, N, N) = (draw(7), draw(4), draw(3));
            let (q, rest) = a.times(&b).plus(&r).by(&b);
            assert!(q.compare(&a) == Ordering::Equal && rest.compare(&r) == Ordering::Equal);
        }
        let (a, b) = (N::new(2 * 3 * 5 * 7), N::new(3 * 7 * 11));
        assert_eq!(a.gcd(&b).low(), 21);
    }
}
