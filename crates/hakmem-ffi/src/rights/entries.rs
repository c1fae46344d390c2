//! The functions of assembly: the same on every processor but for their code.

/// Makes them of the arguments of [`naked_asm`](core::arch::naked_asm), and `setxid` of
/// instructions.
macro_rules! entries {
    (
        prctl { $($prctl:tt)* }
        syscall { $($syscall:tt)* }
        call { $($call:tt)* }
        fail { $($fail:tt)* }
        setxid { $($setxid:literal,)* }
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
            core::arch::naked_asm!($($prctl)*)
        }

        /// # Safety
        /// The contract of `syscall`: the arguments are as the system call of that number asks.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn syscall(
            number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> c_long {
            core::arch::naked_asm!($($syscall)*)
        }

        /// Makes a system call as the C library's `syscall` does.
        ///
        /// # Safety
        /// The arguments are as the system call of that number asks.
        #[unsafe(naked)]
        pub unsafe extern "C" fn call(
            number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> c_long {
            core::arch::naked_asm!($($call)*)
        }

        /// Sets errno and returns -1. Others jump here, with the kernel's negated error number in
        /// the register of results.
        #[unsafe(naked)]
        unsafe extern "C" fn fail() -> c_long {
            core::arch::naked_asm!($($fail)*)
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
                    $($setxid,)*
                    out(reg) change,
                    options(pure, readonly, nostack, preserves_flags)
                );
            }
            change
        }
    };
}
pub(super) use entries;
