//! Buffers that grow by `realloc` and are written as they do.

use super::large::PAGE;
use crate::heap::{Heap, Subject};
use crate::meter::Meter;

/// One buffer doubled from 16 bytes to `end`, one byte written in each new page.
pub fn double_to<A: Subject>(end: usize) {
    let mut buffer = Heap::<A>::new().block(16);
    while buffer.size() < end {
        let old = buffer.size();
        buffer.resize((old * 2).min(end));
        buffer.write_every(old, PAGE);
    }
}

/// The workload of such buffers.
pub fn doubling<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        for _ in 0..ops {
            double_to::<A>(64 << 20);
        }
    });
}

/// The workload of one such buffer that grows until it has `mib` MiB.
pub fn doubling_to<A: Subject>(mib: u64, meter: &mut Meter) {
    meter.measure(|| double_to::<A>((mib as usize) << 20));
}

/// Buffers grown by half from 1 MiB to 256 MiB, all of their bytes written.
pub fn huge<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        for _ in 0..ops {
            by_half::<A>(256 << 20);
        }
    });
}

/// One buffer grown by half from 1 MiB to `end`, all of its bytes written.
pub fn by_half<A: Subject>(end: usize) {
    let mut buffer = Heap::<A>::new().block(1 << 20);
    buffer.write_all(0, 1);
    while buffer.size() < end {
        let old = buffer.size();
        buffer.resize((old + old / 2).min(end));
        buffer.write_all(old, 2);
    }
    assert_eq!(
        (buffer.read(0), buffer.read(end - 1)),
        (1, 2),
        "realloc lost the contents"
    );
}
