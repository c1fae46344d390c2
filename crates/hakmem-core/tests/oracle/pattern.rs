//! The pattern that tests write into blocks. It differs for each place and each seed. So a test
//! notices bytes that come from elsewhere.
//!
//! The functions copy windows of a table, and compare blocks with them. The tests spend most of
//! their time here, and a loop over bytes or words is slow in a debug build.

/// How many bytes of a block are a copy of neighbouring bytes of the table.
const WINDOW: usize = 32 << 10;

static TABLE: [u8; 2 * WINDOW] = table();
static ZEROS: [u8; WINDOW] = [0; WINDOW];

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

const fn table() -> [u8; 2 * WINDOW] {
    let mut table = [0; 2 * WINDOW];
    let (mut x, mut i) = (1_u64, 0);
    while i < table.len() {
        x = x.wrapping_mul(MIX) ^ x >> 29;
        table[i] = (x >> 56) as u8;
        i += 1;
    }
    table
}

/// The bytes of window `i` of a block. They begin at another place of the table for each window and
/// seed.
fn window(seed: u64, i: usize, len: usize) -> &'static [u8] {
    let mixed = (seed.wrapping_add((i as u64) << 40) ^ seed << 17).wrapping_mul(MIX);
    let begin = (mixed >> 40) as usize % WINDOW;
    &TABLE[begin..begin + len]
}

/// Fills `len` bytes from `start`.
///
/// # Safety
/// The caller may write these bytes, and no other thread uses them.
pub unsafe fn fill(start: *mut u8, len: usize, seed: u64) {
    for (i, at) in (0..len).step_by(WINDOW).enumerate() {
        let from = window(seed, i, WINDOW.min(len - at));
        // SAFETY: the window is within the `len` bytes, which the caller may write. The table is
        // constant, so it overlaps no block.
        unsafe {
            start
                .add(at)
                .copy_from_nonoverlapping(from.as_ptr(), from.len())
        };
    }
}

/// The first byte that is not as `fill` left it: its place, its value, and the value before.
pub fn difference(bytes: &[u8], seed: u64) -> Option<(usize, u8, u8)> {
    let windows = bytes.chunks(WINDOW).enumerate();
    let pairs = windows.map(|(i, found)| (i, found, window(seed, i, found.len())));
    first(pairs)
}

/// The first byte that is not zero: its place and its value.
pub fn not_zero(bytes: &[u8]) -> Option<(usize, u8)> {
    let windows = bytes.chunks(WINDOW).enumerate();
    let pairs = windows.map(|(i, found)| (i, found, &ZEROS[..found.len()]));
    first(pairs).map(|(at, found, _)| (at, found))
}

fn first<'a>(
    mut pairs: impl Iterator<Item = (usize, &'a [u8], &'a [u8])>,
) -> Option<(usize, u8, u8)> {
    let (i, found, expected) = pairs.find(|(_, found, expected)| found != expected)?;
    let at = (0..found.len()).find(|&at| found[at] != expected[at])?;
    Some((i * WINDOW + at, found[at], expected[at]))
}
