//! Misuse: pointers that are not ours are left alone and counted, unless they can be nobody's;
//! these, and pointers of ours that are not live blocks, end the program with one line that names
//! them. Sizes and alignments out of range are in abi_c.

use crate::common;

use common::{Language, Link, Reports, assert_aborted, compile, finish, preload};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

fn misuse(name: &str) -> (Output, Reports) {
    misuse_with(name, "forward")
}

fn misuse_with(name: &str, foreign: &str) -> (Output, Reports) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile(Language::C, "bad_input.c", Link::Plain));
    let mut command = Command::new(program);
    command.env("HAKMEM_FOREIGN", foreign);
    let reports = preload(command.arg(name));
    (finish(&mut command), reports)
}

/// The last pointer that the program printed.
fn pointer(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .last()
        .expect("the program prints the pointer")
        .to_owned()
}

fn survives(name: &str) -> Reports {
    survives_with(name, "forward")
}

fn survives_with(name: &str, foreign: &str) -> Reports {
    let (output, reports) = misuse_with(name, foreign);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name}: {}: {stderr}",
        output.status
    );
    reports.assert_served();
    reports
}

fn aborts(name: &str) {
    let (output, reports) = misuse(name);
    reports.assert_loaded();
    assert_aborted(&output, &pointer(&output));
}

/// The abort may come late or, if no harm was done, not at all; but no block is ever handed out
/// twice.
fn does_no_harm(name: &str) {
    let (output, reports) = misuse(name);
    reports.assert_loaded();
    if output.status.success() {
        common::skipped(&format!("{name}: the misuse was survived without a report"));
    } else {
        assert_aborted(&output, "0x");
    }
}

/// No allocator hands out such a pointer.
const NOBODYS: [&str; 13] = [
    "on_stack",
    "on_stack_realloc",
    "on_stack_of_thread",
    "in_environment",
    "in_variables",
    "in_variables_realloc",
    "in_constants",
    "in_code",
    "in_library",
    "first_64_kib",
    "kernels_half",
    "no_address",
    "misaligned",
];

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn pointers_that_are_nobodys() {
    NOBODYS.into_iter().for_each(aborts);
}

#[test]
fn pointers_that_are_nobodys_are_left_alone_if_wished() {
    for name in ["on_stack", "in_variables", "in_library", "first_64_kib"] {
        assert_eq!(survives_with(name, "leak").foreign_frees(), 1, "{name}");
    }
}

#[test]
fn foreign_pointer_to_a_mapping() {
    assert_eq!(survives("foreign_mapping").foreign_frees(), 2);
}

#[test]
fn foreign_pointer_to_nowhere() {
    assert_eq!(survives("foreign_wild").foreign_frees(), 1);
}

#[test]
fn usable_size_of_a_foreign_pointer() {
    survives("foreign_usable_size");
}

#[test]
fn realloc_of_a_foreign_pointer() {
    survives("foreign_realloc");
}

/// Blocks of the allocator behind us go back to it, and are resized by it.
#[test]
fn block_of_the_next_allocator() {
    assert!(survives("next_allocator").foreign_frees() > 20);
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn pointer_eight_bytes_into_a_block() {
    aborts("inside_by_8");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn pointer_one_byte_into_a_block() {
    aborts("inside_by_1");
}

/// A multiple of 16 too: to move a block is slow enough to look at where it starts.
#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn realloc_of_a_pointer_into_a_block() {
    aborts("realloc_inside_by_8");
    aborts("realloc_inside_by_16");
    aborts("realloc_inside_medium");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn pointer_into_a_large_block() {
    aborts("inside_large");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn pointer_into_a_thp_block() {
    aborts("inside_thp");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn pointer_never_given_out() {
    aborts("never_given_out");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn double_free_at_once() {
    does_no_harm("twice_at_once");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn double_free_later() {
    does_no_harm("twice_later");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn double_free_of_a_medium_block() {
    does_no_harm("twice_medium");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn double_free_of_a_large_block() {
    aborts("twice_large");
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn double_free_of_a_thp_block() {
    aborts("twice_thp");
}
