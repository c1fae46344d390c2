//! What the derived operators do on x86-64: their instructions.

/// Continues with the operator of this name, wherever it is.
#[cfg(not(feature = "hardened"))]
macro_rules! jump {
    ($basic:literal) => {
        concat!("jmp qword ptr [rip + ", $basic, "@GOTPCREL]")
    };
}

/// Continues with `own` if the operators of these names are this library's. Else continues behind
/// this, with the address of the first that is not in rax.
macro_rules! choose {
    ($($basic:literal)*) => {
        concat!($(
            ".weak hakmem_own", $basic, "\n",
            ".hidden hakmem_own", $basic, "\n",
            "mov rax, qword ptr [rip + ", $basic, "@GOTPCREL]\n",
            "mov rcx, qword ptr [rip + hakmem_own", $basic, "@GOTPCREL]\n",
            "cmp rax, rcx\n",
            "je 2f\n",
            "test rcx, rcx\n",
            "jne 3f\n",
            "2:\n",
        )* "jmp {own}\n3:\n")
    };
}

/// Continues with the operator that `choose` found.
#[cfg(feature = "hardened")]
macro_rules! jump_chosen {
    () => {
        "jmp rax"
    };
}

/// Continues with `or_null`, which calls the operator that `choose` found.
macro_rules! jump_or_null {
    () => {
        "jmp {or_null}"
    };
}

/// An operator gets pointer, size and alignment, and the one that it calls gets no size.
macro_rules! move_alignment {
    () => {
        "mov rsi, rdx"
    };
}

/// Begins a sum of differences.
#[cfg(feature = "hardened")]
macro_rules! begin {
    () => {
        "xor eax, eax"
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
            "mov rcx, qword ptr [rip + ",
            $name,
            "@GOTPCREL]\n",
            "mov rdx, qword ptr [rip + hakmem_own",
            $name,
            "@GOTPCREL]\n",
            "xor rcx, rdx\n",
            "test rdx, rdx\n",
            "cmovz rcx, rdx\n", // no difference as well if rdx is 0
            "or rax, rcx\n",
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
pub(super) use {choose, jump_or_null, move_alignment};
