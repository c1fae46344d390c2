//! The handler loop for aarch64: its instructions.

/// Makes the frame, and saves the registers that `try_again` uses.
macro_rules! enter {
    () => {
        concat!(
            "stp x29, x30, [sp, #-32]!\n",
            ".cfi_def_cfa_offset 32\n",
            ".cfi_offset x29, -32\n",
            ".cfi_offset x30, -24\n",
            "mov x29, sp\n",
            "stp x19, x20, [sp, #16]\n",
            ".cfi_offset x19, -16\n",
            ".cfi_offset x20, -8\n",
        )
    };
}

/// Keeps the arguments, and runs the loop. Continues behind it with a block in x0, or at label 3 if
/// there is no handler.
macro_rules! try_again {
    () => {
        concat!(
            "mov x19, x0\n",
            "mov x20, x1\n",
            "2:\n",
            "ldr x0, [sp, #8]\n", // the caller
            "bl {handler}\n",
            "cbz x0, 3f\n",
            "blr x0\n",
            "mov x0, x19\n",
            "mov x1, x20\n",
            "bl {retry}\n",
            "cbz x0, 2b\n",
        )
    };
}

/// Calls the operator that `choose` of the derived operators found.
macro_rules! call_chosen {
    () => {
        "blr x16"
    };
}

/// Restores the registers that `enter` saved, and returns.
macro_rules! leave {
    () => {
        concat!(
            "ldp x19, x20, [sp, #16]\n",
            ".cfi_restore x19\n",
            ".cfi_restore x20\n",
            "ldp x29, x30, [sp], #32\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30\n",
            ".cfi_def_cfa_offset 0\n",
            "ret\n",
        )
    };
}

/// Gets the function that throws, and calls it.
macro_rules! throw {
    () => {
        "ldr x0, [sp, #8]\nbl {thrower}\nblr x0\nbrk #1"
    };
}

/// The frame as `enter` left it. Ends the exception in x0, and leaves NULL there.
macro_rules! land {
    () => {
        concat!(
            ".cfi_def_cfa_offset 32\n",
            ".cfi_offset x29, -32\n",
            ".cfi_offset x30, -24\n",
            ".cfi_offset x19, -16\n",
            ".cfi_offset x20, -8\n",
            "ldr x1, [sp, #8]\n",
            "bl {caught}\n",
            "mov x0, xzr\n",
        )
    };
}

/// Continues with `stop`, which gets its return address behind the arguments.
macro_rules! pass_caller {
    () => {
        "mov x5, x30\nb {stop}"
    };
}

pub(super) use {call_chosen, enter, land, leave, pass_caller, throw, try_again};
