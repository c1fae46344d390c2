//! What the derived operators do on aarch64: their instructions.

/// The address of a name, from the table of the dynamic linker.
macro_rules! load {
    ($register:literal, $($name:literal),*) => {
        concat!(
            "adrp ", $register, ", :got:", $($name,)* "\n",
            "ldr ", $register, ", [", $register, ", :got_lo12:", $($name,)* "]\n",
        )
    };
}

/// Continues with the operator of this name, wherever it is.
#[cfg(not(feature = "hardened"))]
macro_rules! jump {
    ($basic:literal) => {
        concat!($crate::operators::arch::load!("x16", $basic), "br x16")
    };
}

/// Continues with `own` if the operators of these names are this library's. Else continues behind
/// this, with the address of the first that is not in x16.
macro_rules! choose {
    ($($basic:literal)*) => {
        concat!($(
            ".weak hakmem_own", $basic, "\n",
            ".hidden hakmem_own", $basic, "\n",
            $crate::operators::arch::load!("x16", $basic),
            $crate::operators::arch::load!("x17", "hakmem_own", $basic),
            "cmp x16, x17\n",
            "ccmp x17, #0, #4, ne\n", // equal as well if x17 is 0
            "b.ne 3f\n",
        )* "b {own}\n3:\n")
    };
}

/// Continues with the operator that `choose` found.
#[cfg(feature = "hardened")]
macro_rules! jump_chosen {
    () => {
        "br x16"
    };
}

/// Continues with `or_null`, which calls the operator that `choose` found.
macro_rules! jump_or_null {
    () => {
        "b {or_null}"
    };
}

/// An operator gets pointer, size and alignment, and the one that it calls gets no size.
macro_rules! move_alignment {
    () => {
        "mov x1, x2"
    };
}

/// Begins a sum of differences.
#[cfg(feature = "hardened")]
macro_rules! begin {
    () => {
        "mov x0, xzr"
    };
}

/// Adds one: whether the operator of this name is not this library's.
#[cfg(feature = "hardened")]
macro_rules! differs {
    ($name:literal) => {
        concat!(
            ".weak hakmem_own",
            $name,
            "\n",
            ".hidden hakmem_own",
            $name,
            "\n",
            $crate::operators::arch::load!("x16", $name),
            $crate::operators::arch::load!("x17", "hakmem_own", $name),
            "eor x16, x16, x17\n",
            "cmp x17, #0\n",
            "csel x16, x16, xzr, ne\n", // no difference as well if x17 is 0
            "orr x0, x0, x16\n",
        )
    };
}

/// Returns the sum.
#[cfg(feature = "hardened")]
macro_rules! end {
    () => {
        "ret"
    };
}

#[cfg(not(feature = "hardened"))]
pub(super) use jump;
#[cfg(feature = "hardened")]
pub(super) use {begin, differs, end, jump_chosen};
pub(super) use {choose, jump_or_null, load, move_alignment};
