//! Lines of the kernel's files, without memory for a whole file.

use core::ffi::CStr;

/// Bytes of the longest line that is looked at.
pub(super) const LINE: usize = 2048;

/// Calls `f` for each line of a file, without its end. For none, if the file cannot be opened.
/// Leaves lines out that are too long.
pub fn each_line_of(name: &CStr, f: &mut dyn FnMut(&[u8])) {
    super::own::with_file(name, |read| each_line(read, f));
}

/// Calls `f` for each line of what `read` gives piece by piece, until it gives nothing. Leaves
/// lines out that are too long.
pub(super) fn each_line(read: &mut dyn FnMut(&mut [u8]) -> usize, f: &mut dyn FnMut(&[u8])) {
    let mut buffer = [0; LINE];
    let (mut len, mut is_cut) = (0, false);
    loop {
        let n = read(&mut buffer[len..]);
        if n == 0 {
            break;
        }
        // What was read before has no end of a line.
        let (mut from, mut seen) = (0, len);
        len += n;
        while let Some(at) = buffer[seen..len].iter().position(|&byte| byte == b'\n') {
            let end = seen + at;
            if !core::mem::take(&mut is_cut) {
                f(&buffer[from..end]);
            }
            (from, seen) = (end + 1, end + 1);
        }
        buffer.copy_within(from..len, 0);
        len -= from;
        if len == LINE {
            (len, is_cut) = (0, true);
        }
    }
    if len > 0 && !is_cut {
        f(&buffer[..len]);
    }
}
