//! The functions of assembly: the same on every processor but for their code.

/// Makes them of their instructions. Those of `syscall` have constants of the processor's own.
macro_rules! entries {
    (
        prctl { $($prctl:tt)* }
        syscall($($constant:tt)*) { $($syscall:tt)* }
        call { $($call:tt)* }
        fail { $($fail:tt)* }
        setxid { $($setxid:tt)* }
    ) => {
        /// # Safety
        /// The contract of `prctl`: the arguments are as the option asks.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn prctl(
            option: core::ffi::c_int,
            a: core::ffi::c_ulong,
            b: core::ffi::c_ulong,
            c: core::ffi::c_ulong,
            d: core::ffi::c_ulong,
        ) -> core::ffi::c_int {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($prctl)*
                ".cfi_endproc",
                numbers = const $crate::rights::OPTIONS,
                number = const libc::SYS_prctl,
                watched = sym $crate::rights::watched_prctl,
                fail = sym fail,
            )
        }

        /// # Safety
        /// The contract of `syscall`: the arguments are as the system call of that number asks.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn syscall(
            number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> c_long {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($syscall)*
                ".cfi_endproc",
                $($constant)*
                watched = sym $crate::rights::watched_syscall,
                call = sym call,
            )
        }

        /// Makes a system call as the C library's `syscall` does.
        ///
        /// # Safety
        /// The arguments are as the system call of that number asks.
        #[unsafe(naked)]
        pub unsafe extern "C" fn call(
            number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> c_long {
            core::arch::naked_asm!(".cfi_startproc", $($call)* ".cfi_endproc", fail = sym fail)
        }

        /// Sets errno and returns -1. Others jump here, with the kernel's negated error number in
        /// the register of results.
        #[unsafe(naked)]
        unsafe extern "C" fn fail() -> c_long {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($fail)*
                ".cfi_endproc",
                errno = sym libc::__errno_location,
            )
        }

        /// The address of `__nptl_setxid`. 0 but in fully static programs that start threads. Each
        /// object file says itself that the symbol is weak: the compiler may put this function into
        /// any.
        pub fn setxid() -> usize {
            let change: usize;
            // SAFETY: this reads one word of the global offset table, which every kind of program
            // has.
            unsafe {
                core::arch::asm!(
                    ".weak __nptl_setxid",
                    ".hidden __nptl_setxid",
                    $($setxid)*
                    out(reg) change,
                    options(pure, readonly, nostack, preserves_flags)
                );
            }
            change
        }
    };
}
pub(super) use entries;
