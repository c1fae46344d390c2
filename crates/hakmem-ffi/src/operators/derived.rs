//! The operators that end in another operator, as the standard says ([new.delete]).
//!
//! 1. Each jumps to the operator that the standard names. The dynamic linker knows where that is:
//!    in this library, or in the program that replaced it. build.rs lists all forms, so that
//!    the linker does not bind those here that are asked for: eight are jumped to, and the hardened
//!    build asks whether the program has any form.
//! 2. The forms with nothrow stop the exception of a program's operator, and return NULL. Without
//!    such an operator they need no exception, and so no C++ runtime.
//! 3. The hardened build keeps the array forms apart from the plain ones, and checks sizes. So
//!    there each form is a function of its own, unless the program replaced the operator.
//! 4. build.rs defines `hakmem_own…` as this library's operator of that name, however the name is
//!    bound. A program with the static library has no such symbol, and cannot replace an operator.
//! 5. The functions pass the registers of the arguments on as they are. So they name no arguments.

#[cfg(not(feature = "hardened"))]
use super::arch::jump;
#[cfg(feature = "hardened")]
use super::arch::{begin, differs, end, jump_chosen};
use super::arch::{choose, jump_or_null, move_alignment};
use super::{new_aligned_nothrow, new_nothrow};
use crate::bad_alloc::chosen_or_null;
use core::arch::naked_asm;

/// Operators that jump to another one. That may jump on to a second one.
macro_rules! jumps {
    ($(
        $name:ident = $basic:literal $($next:literal)? $([$prepare:ident])?,
        $own:ident $array:literal;
    )*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[unsafe(link_section = ".text.hot.hakmem")]
        #[cfg(not(feature = "hardened"))]
        pub unsafe extern "C-unwind" fn $name() {
            naked_asm!($($prepare!(),)? jump!($basic))
        }

        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(feature = "hardened")]
        pub unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                choose!($basic $($next)?),
                $($prepare!(),)?
                jump_chosen!(),
                own = sym super::$own::<$array>,
            )
        }
    )*};
}

/// Operators that return NULL where another one throws. That may call a second one.
macro_rules! nothrow {
    ($($name:ident = $basic:literal $($next:literal)?, $own:ident $array:literal;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                choose!($basic $($next)?),
                jump_or_null!(),
                own = sym $own::<$array>,
                or_null = sym chosen_or_null,
            )
        }
    )*};
}

jumps! {
    _Znam = "_Znwm", new true;
    _ZnamSt11align_val_t = "_ZnwmSt11align_val_t", new_aligned true;
    _ZdaPv = "_ZdlPv", delete true;
    _ZdaPvSt11align_val_t = "_ZdlPvSt11align_val_t", delete true;
    _ZdlPvm = "_ZdlPv", delete_sized false;
    _ZdaPvm = "_ZdaPv" "_ZdlPv", delete_sized true;
    _ZdlPvmSt11align_val_t = "_ZdlPvSt11align_val_t" [move_alignment], delete_sized false;
    _ZdaPvmSt11align_val_t = "_ZdaPvSt11align_val_t" "_ZdlPvSt11align_val_t" [move_alignment],
        delete_sized true;
    _ZdlPvRKSt9nothrow_t = "_ZdlPv", delete false;
    _ZdaPvRKSt9nothrow_t = "_ZdaPv" "_ZdlPv", delete true;
    _ZdlPvSt11align_val_tRKSt9nothrow_t = "_ZdlPvSt11align_val_t", delete false;
    _ZdaPvSt11align_val_tRKSt9nothrow_t = "_ZdaPvSt11align_val_t" "_ZdlPvSt11align_val_t",
        delete true;
}

nothrow! {
    _ZnwmRKSt9nothrow_t = "_Znwm", new_nothrow false;
    _ZnamRKSt9nothrow_t = "_Znam" "_Znwm", new_nothrow true;
    _ZnwmSt11align_val_tRKSt9nothrow_t = "_ZnwmSt11align_val_t", new_aligned_nothrow false;
    _ZnamSt11align_val_tRKSt9nothrow_t = "_ZnamSt11align_val_t" "_ZnwmSt11align_val_t",
        new_aligned_nothrow true;
}

/// True if the program has an operator of its own, of any form. Those that it does not replace are
/// ours.
#[cfg(feature = "hardened")]
pub fn has_own_operators() -> bool {
    #[unsafe(naked)]
    extern "C" fn differences() -> usize {
        naked_asm!(
            begin!(),
            differs!("_Znwm"),
            differs!("_Znam"),
            differs!("_ZdlPv"),
            differs!("_ZdaPv"),
            differs!("_ZnwmSt11align_val_t"),
            differs!("_ZnamSt11align_val_t"),
            differs!("_ZdlPvSt11align_val_t"),
            differs!("_ZdaPvSt11align_val_t"),
            differs!("_ZnwmRKSt9nothrow_t"),
            differs!("_ZnamRKSt9nothrow_t"),
            differs!("_ZnwmSt11align_val_tRKSt9nothrow_t"),
            differs!("_ZnamSt11align_val_tRKSt9nothrow_t"),
            differs!("_ZdlPvm"),
            differs!("_ZdaPvm"),
            differs!("_ZdlPvmSt11align_val_t"),
            differs!("_ZdaPvmSt11align_val_t"),
            differs!("_ZdlPvRKSt9nothrow_t"),
            differs!("_ZdaPvRKSt9nothrow_t"),
            differs!("_ZdlPvSt11align_val_tRKSt9nothrow_t"),
            differs!("_ZdaPvSt11align_val_tRKSt9nothrow_t"),
            end!(),
        )
    }
    differences() != 0
}
