//! The handler loop for x86-64: its instructions.

/// Makes the frame, and saves the registers that `try_again` uses.
macro_rules! enter {
    () => {
        concat!(
            "push rbx\n",
            ".cfi_adjust_cfa_offset 8\n",
            ".cfi_rel_offset rbx, 0\n",
            "push r14\n",
            ".cfi_adjust_cfa_offset 8\n",
            ".cfi_rel_offset r14, 0\n",
            "push rsi\n", // for the stack's alignment
            ".cfi_adjust_cfa_offset 8\n",
        )
    };
}

/// Keeps the arguments, and runs the loop. Continues behind it with a block in rax, or at label 3
/// if there is no handler.
macro_rules! try_again {
    () => {
        concat!(
            "mov rbx, rdi\n",
            "mov r14, rsi\n",
            "2:\n",
            "mov rdi, [rsp + 24]\n", // the caller
            "call {handler}\n",
            "test rax, rax\n",
            "jz 3f\n",
            "call rax\n",
            "mov rdi, rbx\n",
            "mov rsi, r14\n",
            "call {retry}\n",
            "test rax, rax\n",
            "jz 2b\n",
        )
    };
}

/// Calls the operator that `choose` of the derived operators found.
macro_rules! call_chosen {
    () => {
        "call rax"
    };
}

/// Restores the registers that `enter` saved, and returns.
macro_rules! leave {
    () => {
        concat!(
            "add rsp, 8\n",
            ".cfi_adjust_cfa_offset -8\n",
            "pop r14\n",
            ".cfi_adjust_cfa_offset -8\n",
            ".cfi_restore r14\n",
            "pop rbx\n",
            ".cfi_adjust_cfa_offset -8\n",
            ".cfi_restore rbx\n",
            "ret\n",
        )
    };
}

/// Gets the function that throws, and calls it.
macro_rules! throw {
    () => {
        "mov rdi, [rsp + 24]\ncall {thrower}\ncall rax\nud2"
    };
}

/// The frame as `enter` left it. Ends the exception in rax, and leaves NULL there.
macro_rules! land {
    () => {
        concat!(
            ".cfi_def_cfa_offset 32\n",
            ".cfi_offset rbx, -16\n",
            ".cfi_offset r14, -24\n",
            "mov rdi, rax\n",
            "mov rsi, [rsp + 24]\n",
            "call {caught}\n",
            "xor eax, eax\n",
        )
    };
}

/// Continues with `stop`, which gets its return address behind the arguments.
macro_rules! pass_caller {
    () => {
        "mov r9, [rsp]\njmp {stop}"
    };
}

pub(super) use {call_chosen, enter, land, leave, pass_caller, throw, try_again};
