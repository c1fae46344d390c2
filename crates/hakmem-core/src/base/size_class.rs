//! Size classes: which block size serves a request.
//!
//! | sizes in bytes | classes |
//! |---|---|
//! | 16 to 128 | a multiple of 16 each |
//! | 8, 24, 40, 56 | only for an alignment of 8 or less; never for the C front end |
//! | 128 to 64 KiB | four in each doubling |
//! | 64 above 1, 2 and 4 KiB | for 1, 2 or 4 KiB and the header of a string or a buffer |
//! | 4416 | for 4 KiB and up to 320 bytes, such as a page of a database |
//!
//! Above 64 bytes at most 20 % of a block is lost to rounding, 10 % on average. Larger requests
//! have no class: they get whole slots or segments.

/// Number of classes.
pub const CLASSES: usize = 52;
/// A request of at most this size finds its class in a table.
pub const SMALL_MAX: usize = 1024;
/// The largest request that has a class, and the size of the largest class.
pub const MEDIUM_MAX: usize = 64 << 10;
/// Length of the table for alignment 16. It has an entry for each multiple of 16.
pub const TABLE16: usize = SMALL_MAX / 16 + 1;
/// Length of the table for alignment 8. It has an entry for each multiple of 8.
pub const TABLE8: usize = SMALL_MAX / 8 + 1;

/// The first class that `LISTED` does not have: 160 bytes.
const FIRST_COMPUTED: usize = 12;
const LISTED: [u32; FIRST_COMPUTED] = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128];

/// The first class above `SMALL_MAX`.
pub const FIRST_LONG: usize = FIRST_COMPUTED + 12;
/// The classes above `SMALL_MAX` up to 8 KiB: four in each doubling, and those for a power of two
/// with a header.
const LONG: [u32; 16] = [
    1088, 1280, 1536, 1792, 2048, 2112, 2560, 3072, 3584, 4096, 4160, 4416, 5120, 6144, 7168, 8192,
];
/// The first class above 8 KiB: the first of the medium ones.
pub const FIRST_MEDIUM: usize = FIRST_LONG + LONG.len();

/// The block size of a class.
const fn compute_size(class: usize) -> u32 {
    if class < FIRST_COMPUTED {
        return LISTED[class];
    } else if class < FIRST_LONG {
        return quarters(128, class - FIRST_COMPUTED);
    } else if class >= FIRST_MEDIUM {
        return quarters(8 << 10, class - FIRST_MEDIUM);
    }
    LONG[class - FIRST_LONG]
}

/// The size of class `i` of a series that begins above `from`, with four classes in each doubling.
const fn quarters(from: u32, i: usize) -> u32 {
    let power = from << (i / 4);
    power + (i % 4 + 1) as u32 * (power / 4)
}

/// Block size of each class in bytes, ascending.
pub static SIZES: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = compute_size(class);
        class += 1;
    }
    sizes
};

/// A power of two, so that a remainder keeps an index in range, without a branch.
const INVERSES_ROOM: usize = CLASSES.next_power_of_two();
/// For each class 2⁶⁴ divided by its size, rounded up. [`is_start`] uses it.
static INVERSES: [u64; INVERSES_ROOM] = inverses(None);
/// The same, but for blocks in pages of several slots that of `MEDIUM_UNIT`. [`may_start`] uses it.
static UNIT_INVERSES: [u64; INVERSES_ROOM] = inverses(Some(MEDIUM_UNIT));

/// For each class 2⁶⁴ divided by its size, or by `medium` from `FIRST_MEDIUM` on, rounded up.
const fn inverses(medium: Option<usize>) -> [u64; INVERSES_ROOM] {
    let mut inverses = [0; INVERSES_ROOM];
    let mut class = 0;
    while class < CLASSES {
        let unit = match medium {
            Some(unit) if class >= FIRST_MEDIUM => unit,
            _ => compute_size(class) as usize,
        };
        inverses[class] = u64::MAX / unit as u64 + 1;
        class += 1;
    }
    inverses
}

/// True if a block of `class` starts `offset` bytes into a page: `offset` is a multiple of the
/// size.
///
/// The product of `offset` and the inverse is `offset / size` in units of 2⁶⁴, and a little more,
/// as the inverse is rounded up. The excess stays below one inverse. So the product modulo 2⁶⁴ is
/// below the inverse for multiples of the size, and for no other offset.
#[inline(always)]
pub fn is_start(class: u8, offset: u32) -> bool {
    let inverse = INVERSES[usize::from(class) % INVERSES_ROOM];
    u64::from(offset).wrapping_mul(inverse) < inverse
}

/// The number of the block of `class` that has the byte `offset` bytes into its page: the quotient
/// of `offset` and the size, without a division. The excess of the product over the quotient (see
/// [`is_start`]) is below one part in 2³² of it, so no offset has that of the next block.
#[inline(always)]
pub fn number_at(class: u8, offset: u32) -> u32 {
    let inverse = INVERSES[usize::from(class) % INVERSES_ROOM];
    ((u128::from(offset) * u128::from(inverse)) >> 64) as u32
}

/// True if a block of `class` may start `offset` bytes into a slot of its page. A page of one slot
/// starts where the slot does, so the answer is certain. In a further slot of a larger page, any
/// multiple of `MEDIUM_UNIT` will do. One formula for both has no branch.
#[inline(always)]
pub fn may_start(class: u8, offset: u32) -> bool {
    let inverse = UNIT_INVERSES[usize::from(class) % INVERSES_ROOM];
    u64::from(offset).wrapping_mul(inverse) < inverse
}

/// The sizes of all blocks in pages of several slots are multiples of this.
pub const MEDIUM_UNIT: usize = 2048;
const _: () = {
    let mut class = 0;
    while class < CLASSES {
        assert!(
            span_of(compute_size(class)) == 1
                || (compute_size(class) as usize).is_multiple_of(MEDIUM_UNIT)
        );
        class += 1;
    }
};

/// The table for blocks aligned to `step`: the class of the smallest fitting size, for each
/// multiple of `step`.
const fn fill<const N: usize>(step: usize) -> [u8; N] {
    let mut table = [0; N];
    let mut i = 0;
    while i < N {
        let size = if i == 0 { 1 } else { i * step };
        let mut class = 0;
        while (compute_size(class) as usize) < size
            || !(compute_size(class) as usize).is_multiple_of(step)
        {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
}

/// The number of slots of a page for blocks of `size` bytes: one up to 8 KiB, eight above. So a
/// page holds at least eight blocks.
pub const fn span_of(size: u32) -> u32 {
    if size <= 8 << 10 { 1 } else { 8 }
}

/// For blocks aligned to 16: index (n + 15) / 16 has the class of a request of `n` bytes. Every
/// heap has a copy, which the fast path finds without another address.
pub const CLASS16: [u8; TABLE16] = {
    let mut table = fill(16);
    table[0] = NOTHING as u8;
    table
};
/// Stands for a request of 0 bytes in `CLASS16`. It is no class: its list is always empty.
pub const NOTHING: usize = CLASSES;
/// For blocks aligned to 8: index (n + 7) / 8 has the class of a request of `n` bytes.
pub static CLASS8: [u8; TABLE8] = fill(8);

/// For requests above SMALL_MAX: index (n + 63) / 64 has the class of a request of `n` bytes. All
/// sizes from there on are multiples of 64.
static CLASS64: [u8; MEDIUM_MAX / 64 + 1] = fill(64);

/// Class of a request of SMALL_MAX < `n` ≤ MEDIUM_MAX bytes. O(1).
#[inline]
pub const fn computed(n: usize) -> usize {
    CLASS64[n.div_ceil(64)] as usize
}

/// Class of a request of `n` ≤ MEDIUM_MAX bytes with blocks aligned to 16.
#[inline]
pub fn of16(n: usize) -> usize {
    if n <= SMALL_MAX { usize::from(CLASS16[n.max(1).div_ceil(16)]) } else { computed(n) }
}

/// Class of a request of `n` ≤ MEDIUM_MAX bytes with blocks aligned to 8.
#[inline]
pub fn of8(n: usize) -> usize {
    if n <= SMALL_MAX { usize::from(CLASS8[n.div_ceil(8)]) } else { computed(n) }
}

/// The smallest class for `n` bytes whose blocks are all aligned to `align`, a power of two. Pages
/// start at multiples of 64 KiB, so the size must be a multiple of `align`. Returns None if there
/// is no such class. O(1): at most 6 steps.
pub fn of_aligned(n: usize, align: usize) -> Option<usize> {
    let n = n.max(align);
    if n > MEDIUM_MAX {
        return None;
    }
    (of8(n)..CLASSES).find(|&class| is_multiple(class, align))
}

/// [`of_aligned`] for most of the small requests, 0 bytes not among them; None: ask that. The size
/// of such a class is at least the next multiple of `align`. Mostly that is the size of a class.
#[inline(always)]
pub fn of_aligned_small(n: usize, align: usize) -> Option<usize> {
    if n.max(align) > SMALL_MAX {
        return None;
    }
    let class = CLASS8.get(((n + align - 1) & !(align - 1)).div_ceil(8))?;
    let class = usize::from(*class);
    is_multiple(class, align).then_some(class)
}

/// True if the blocks of the class are all aligned to `align`, a power of two.
#[inline(always)]
fn is_multiple(class: usize, align: usize) -> bool {
    SIZES[class] as usize & (align - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_the_smallest_class_that_fits() {
        for n in 0..=MEDIUM_MAX {
            let fits = |align: u32| {
                SIZES
                    .iter()
                    .position(|&s| s as usize >= n.max(1) && s % align == 0)
                    .expect("some class fits")
            };
            assert_eq!(of8(n), fits(8), "{n}");
            assert_eq!(of16(n), fits(16), "{n}");
        }
    }

    #[test]
    fn small_aligned_requests_get_the_same_class() {
        let aligns = [32, 64, 128, 256, 512, 1024, 4096];
        let mut known = 0;
        for (n, align) in (0..=SMALL_MAX + 1).flat_map(|n| aligns.map(|align| (n, align))) {
            if let Some(class) = of_aligned_small(n, align) {
                assert_eq!(Some(class), of_aligned(n, align), "{n} at {align}");
                known += 1;
            }
        }
        assert!(known > 4 * SMALL_MAX, "{known}");
        assert_eq!(of_aligned_small(usize::MAX, 32), None);
    }

    #[test]
    fn blocks_start_at_multiples_of_their_size() {
        for (class, size) in SIZES.into_iter().enumerate() {
            for offset in 0..span_of(size) * (64 << 10) {
                assert_eq!(
                    is_start(class as u8, offset),
                    offset.is_multiple_of(size),
                    "{offset} of {size}"
                );
                assert_eq!(number_at(class as u8, offset), offset / size);
            }
        }
        assert!(!is_start(u8::MAX, 0), "a page that was closed");
        let far = u32::MAX;
        assert!(
            (0..CLASSES as u8)
                .all(|class| number_at(class, far) == far / SIZES[usize::from(class)])
        );
    }

    #[test]
    fn sizes_ascend_and_lose_at_most_a_quarter() {
        assert!(SIZES.is_sorted());
        assert_eq!(SIZES[CLASSES - 1] as usize, MEDIUM_MAX);
        for pair in SIZES.windows(2).skip(FIRST_COMPUTED) {
            assert!(pair[1] * 4 <= pair[0] * 5, "{pair:?}");
        }
    }

    #[test]
    fn aligned_classes_are_aligned() {
        for shift in 0..=16 {
            let align = 1 << shift;
            for n in [1, 24, 100, 1000, 1025, 5000, 40000, 65536] {
                let class = of_aligned(n, align).expect("up to 64 KiB there is one");
                assert!(
                    SIZES[class] as usize >= n && (SIZES[class] as usize).is_multiple_of(align)
                );
            }
        }
        assert_eq!(of_aligned(65537, 16), None);
    }
}
