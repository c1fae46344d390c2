//! The list of behaviours. A program depends on each of them somewhere.

/// One behaviour, and the test of that name.
pub struct Behaviour {
    pub name: &'static str,
    /// The source of its C or C++ program.
    pub program: &'static str,
    /// Why it does not apply to `#[global_allocator]`; None: it does.
    pub rust: Option<&'static str>,
    /// `HAKMEM_…` options that it needs.
    pub options: &'static [(&'static str, &'static str)],
}

pub struct Section {
    pub title: &'static str,
    pub behaviours: &'static [Behaviour],
}

const fn c(program: &'static str, name: &'static str, why_not_rust: &'static str) -> Behaviour {
    Behaviour {
        name,
        program,
        rust: Some(why_not_rust),
        options: &[],
    }
}

/// Applies to Rust too.
const fn both(program: &'static str, name: &'static str) -> Behaviour {
    Behaviour {
        name,
        program,
        rust: None,
        options: &[],
    }
}

impl Behaviour {
    const fn without_scavenger(mut self) -> Self {
        self.options = &[("HAKMEM_SCAVENGER", "0")];
        self
    }
}

const NO_EMPTY: &str = "a Rust program asks for no empty block";
const C_FUNCTION: &str = "C functions";
const NO_USABLE_SIZE: &str = "a Rust program uses no more than it asked for";
const CPP: &str = "C++";
const PRELOADING: &str = "a matter of interposed symbols";
const SAME_CODE: &str = "the calls are the core's, the same for all front ends";

pub const SECTIONS: &[Section] = &[
    Section {
        title: "C, POSIX, glibc",
        behaviours: &[
            c(
                "blocks.c",
                "empty_requests_get_blocks_of_their_own",
                NO_EMPTY,
            ),
            c(
                "blocks.c",
                "realloc_to_zero_frees_and_returns_null",
                NO_EMPTY,
            ),
            both("blocks.c", "requests_above_ptrdiff_max_fail_with_enomem"),
            c(
                "blocks.c",
                "sizes_that_wrap_around_fail_with_enomem",
                "a Layout cannot wrap around",
            ),
            both("blocks.c", "failed_realloc_keeps_the_block"),
            both("blocks.c", "free_preserves_errno"),
            both("signals.c", "free_preserves_errno_when_the_system_refuses").without_scavenger(),
            c(
                "blocks.c",
                "every_block_is_aligned_to_16",
                "each Layout names its alignment",
            ),
            both("aligned.c", "alignments_are_met"),
            c(
                "aligned.c",
                "aligned_alloc_refuses_alignments_that_are_no_power_of_two",
                C_FUNCTION,
            ),
            c(
                "aligned.c",
                "posix_memalign_refuses_and_leaves_the_pointer",
                C_FUNCTION,
            ),
            c("aligned.c", "posix_memalign_leaves_errno", C_FUNCTION),
            c("aligned.c", "memalign_rounds_odd_alignments_up", C_FUNCTION),
            c("aligned.c", "valloc_and_pvalloc_give_pages", C_FUNCTION),
            c("sizes.c", "usable_size_is_constant", NO_USABLE_SIZE),
            c("sizes.c", "usable_size_is_writable", NO_USABLE_SIZE),
            c(
                "sizes.c",
                "realloc_copies_the_whole_usable_size",
                NO_USABLE_SIZE,
            ),
            c(
                "sizes.c",
                "growing_to_the_usable_size_stays_in_place",
                NO_USABLE_SIZE,
            ),
            c(
                "fortified.c",
                "fortified_programs_use_the_usable_size",
                NO_USABLE_SIZE,
            ),
            c("relatives.c", "reallocarray_overflow_is_enomem", C_FUNCTION),
            c(
                "relatives.c",
                "free_sized_and_free_aligned_sized_free",
                C_FUNCTION,
            ),
            c("relatives.c", "reallocf_frees_when_it_fails", C_FUNCTION),
            c(
                "relatives.c",
                "reallocarr_reports_by_its_result",
                C_FUNCTION,
            ),
            c("relatives.c", "cfree_frees", C_FUNCTION),
            c(
                "relatives.c",
                "libc_aliases_are_the_same_allocator",
                C_FUNCTION,
            ),
            c("figures.c", "mallopt_accepts_glibcs_options", C_FUNCTION),
            c(
                "figures.c",
                "malloc_trim_gives_free_memory_back",
                C_FUNCTION,
            ),
            c("figures.c", "mallinfo_counts", C_FUNCTION),
            c(
                "figures.c",
                "mallinfo_tells_mapped_and_free_blocks",
                C_FUNCTION,
            ),
            c("figures.c", "malloc_info_writes_xml", C_FUNCTION),
            c("figures.c", "malloc_stats_writes_to_stderr", C_FUNCTION),
            both("zeroes.c", "calloc_clears_recycled_memory"),
            c("zeroes.c", "calloc_clears_the_usable_size", NO_USABLE_SIZE),
            c(
                "zeroes.c",
                "calloc_clears_the_usable_size_of_locked_memory",
                NO_USABLE_SIZE,
            ),
            both("zeroes.c", "calloc_clears_locked_memory"),
        ],
    },
    Section {
        title: "C++",
        behaviours: &[
            c("operators.cpp", "every_form_of_new_and_delete_works", CPP),
            c("operators.cpp", "every_operator_is_the_allocators", CPP),
            c("operators.cpp", "new_throws_bad_alloc", CPP),
            c("operators.cpp", "nothrow_new_returns_null", CPP),
            c(
                "operators.cpp",
                "new_handler_is_called_until_it_gives_up",
                CPP,
            ),
            c("operators.cpp", "new_handler_may_throw", CPP),
            c("operators.cpp", "new_handler_may_free_memory", CPP),
            c("operators.cpp", "new_handler_may_longjmp", CPP),
            c("operators.cpp", "sized_delete_forgives_a_wrong_size", CPP),
            both("operators.cpp", "containers_and_threads_share_blocks"),
            both(
                "operators.cpp",
                "thread_local_destructors_free_and_allocate",
            ),
        ],
    },
    Section {
        title: "A process's life",
        behaviours: &[
            both("start.c", "malloc_is_called_before_any_constructor"),
            c(
                "libraries.c",
                "loader_resizes_what_it_allocated_before_the_switch",
                PRELOADING,
            ),
            c("start.c", "blocks_of_the_loader_are_left_alone", PRELOADING),
            c(
                "initialising.c",
                "what_is_called_while_initialising_may_allocate",
                PRELOADING,
            ),
            both("start.c", "exit_handlers_and_destructors_allocate"),
            c(
                "libraries.c",
                "thread_local_storage_fits_what_the_loader_sets_aside",
                "a program's own storage has no limit",
            ),
            both(
                "threads.c",
                "thread_destructors_free_and_allocate_after_our_hook",
            ),
            both("threads.c", "ended_threads_leave_their_memory_to_others"),
            c(
                "threads.c",
                "first_thread_may_end_before_the_process",
                "the end of main is the end of a Rust program",
            ),
            both(
                "libraries.c",
                "library_that_carries_the_allocator_is_closed",
            ),
            both("libraries.c", "two_copies_live_in_one_process"),
            both(
                "forks.c",
                "child_of_a_threaded_process_allocates_and_forks_again",
            ),
            both("forks.c", "fork_beside_the_first_blocks_of_threads"),
            both("forks.c", "signal_handler_forks_inside_the_allocator"),
            c(
                "forks.c",
                "vfork_child_allocates_and_runs_a_program",
                "vfork returns twice, which Rust forbids",
            ),
            c(
                "foreign.c",
                "foreign_pointers_are_told_without_reading_them",
                "dealloc gets what alloc gave, or it is undefined",
            ),
            c(
                "libraries.c",
                "blocks_of_the_c_librarys_malloc_go_back_to_it",
                "dealloc gets what alloc gave, or it is undefined",
            ),
            c(
                "libraries.c",
                "deepbound_library_shares_the_programs_malloc",
                PRELOADING,
            ),
            c(
                "libraries.c",
                "dlopen_searches_the_callers_runpath",
                PRELOADING,
            ),
            c("signals.c", "sandboxed_program_allocates", SAME_CODE).without_scavenger(),
            c(
                "signals.c",
                "longjmp_passes_over_frames_that_allocated",
                "longjmp over Rust frames is undefined",
            ),
            c(
                "threads.c",
                "allocation_is_no_cancellation_point",
                "cancelling Rust frames is undefined",
            ),
            c(
                "threads.c",
                "reports_are_no_cancellation_points",
                C_FUNCTION,
            ),
            both("signals.c", "handler_on_an_alternate_stack_allocates"),
            both("threads.c", "threads_with_stacks_of_64_kib_allocate"),
        ],
    },
    Section {
        title: "Resources",
        behaviours: &[
            both(
                "limits.c",
                "address_space_limit_ends_with_enomem_and_recovers",
            ),
            both("limits.c", "address_space_limit_is_lowered_while_running"),
            both("limits.c", "reserved_address_space_is_not_charged"),
            both("limits.c", "many_small_blocks_end_with_enomem_and_recover"),
            both("limits.c", "map_count_limit_keeps_memory_usable"),
            both("limits.c", "mlockall_future_locks_what_is_used_alone"),
            both("limits.c", "small_programs_stay_small_with_huge_pages"),
            c(
                "page_size.c",
                "page_size_is_read_at_run_time",
                "only C functions give pages",
            ),
            both("aligned.c", "blocks_lie_below_47_bits"),
        ],
    },
];

/// All behaviours, in the page's order.
pub fn all() -> impl Iterator<Item = &'static Behaviour> {
    SECTIONS.iter().flat_map(|section| section.behaviours)
}
