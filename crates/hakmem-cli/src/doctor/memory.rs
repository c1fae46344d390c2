//! How the system hands out memory: huge pages, overcommitted memory, maps, the system page.

use super::finding::{Finding, Verdict};
use super::root::Root;
use crate::summary::bytes;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
/// hakmem asks for huge pages in pieces of so many bytes.
const SEGMENT: u64 = 2 << 20;
/// The kernel's default.
const MAPS: u64 = 65530;

/// What the system says, and what the process may have of it.
pub fn findings(root: &Root, process: &str) -> Vec<Finding> {
    let all = [
        switched_off(root, process).or_else(|| huge_pages(root)),
        compaction(root),
        shared(root),
        overcommit(root),
        maps(root),
        page_size(root),
    ];
    all.into_iter().flatten().collect()
}

/// The word in brackets.
fn chosen(root: &Root, file: &str) -> Option<String> {
    let text = root.read(&format!("{THP}/{file}"))?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The subject of findings about huge pages.
const HUGE_PAGES: &str = "huge pages";

/// A process, or the one that started it, may have switched huge pages off for itself.
fn switched_off(root: &Root, process: &str) -> Option<Finding> {
    let enabled = root.field(&format!("/proc/{process}/status"), "THP_enabled")?;
    (enabled == "0").then(|| {
        Finding::new(
            Verdict::Note,
            HUGE_PAGES,
            "off for the process",
            "The process, or one that started it, called prctl with PR_SET_THP_DISABLE. hakmem \
             gets no huge pages, and HAKMEM_THP has no effect.",
            "For a program with a large heap, leave that call out.",
        )
    })
}

fn huge_pages(root: &Root) -> Option<Finding> {
    let Some(word) = chosen(root, "enabled") else {
        return Some(Finding::new(
            Verdict::Note,
            HUGE_PAGES,
            "none",
            "This kernel has no transparent huge pages, so HAKMEM_THP has no effect.",
            "Large heaps cost more page faults than elsewhere. Nothing need be done.",
        ));
    };
    if word != "never"
        && let Some(size) = root.number(&format!("{THP}/hpage_pmd_size"))
        && size > SEGMENT
        && matches!(
            chosen(root, "hugepages-2048kB/enabled").as_deref(),
            None | Some("never")
        )
    {
        return Some(Finding::new(
            Verdict::Note,
            HUGE_PAGES,
            &format!("{word}, of {}", bytes(size)),
            "hakmem asks for huge pages in pieces of 2 MiB. This kernel makes none so small.",
            "With Linux 6.8 or later, write \"inherit\" to \
             /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled.",
        ));
    }
    Some(match word.as_str() {
        "madvise" => Finding::ok(
            HUGE_PAGES,
            &word,
            "hakmem asks for them where small blocks fill a segment. HAKMEM_THP changes that.",
        ),
        "always" => Finding::new(
            Verdict::Note,
            HUGE_PAGES,
            &word,
            "The kernel gives huge pages to memory that did not ask for them. So memory that is \
             used in part may be resident as a whole.",
            "If resident memory is too high, set HAKMEM_THP=never for the program, or \"madvise\" \
             for the system.",
        ),
        _ => Finding::new(
            Verdict::Note,
            HUGE_PAGES,
            &word,
            "hakmem gets no huge pages. HAKMEM_THP has no effect.",
            "For a program with a large heap, write \"madvise\" to \
             /sys/kernel/mm/transparent_hugepage/enabled.",
        ),
    })
}

fn compaction(root: &Root) -> Option<Finding> {
    const SUBJECT: &str = "making huge pages";
    let word = chosen(root, "defrag")?;
    Some(match word.as_str() {
        "always" => Finding::new(
            Verdict::Note,
            SUBJECT,
            &word,
            "A page fault may wait while the kernel moves memory to make a huge page.",
            "Where latency counts, write \"defer+madvise\" or \"defer\" to \
             /sys/kernel/mm/transparent_hugepage/defrag.",
        ),
        "madvise" | "defer+madvise" => Finding::ok(
            SUBJECT,
            &word,
            "A page fault may wait for a huge page only where hakmem asked for one. Where latency \
             counts, HAKMEM_THP=never avoids that.",
        ),
        _ => Finding::ok(SUBJECT, &word, "No page fault waits for a huge page."),
    })
}

fn shared(root: &Root) -> Option<Finding> {
    let word = chosen(root, "shmem_enabled")?;
    Some(Finding::ok(
        "huge pages of shared memory",
        &word,
        "All memory of hakmem is private. This setting does not concern it.",
    ))
}

fn overcommit(root: &Root) -> Option<Finding> {
    const SUBJECT: &str = "vm.overcommit_memory";
    let mode = root.number("/proc/sys/vm/overcommit_memory")?;
    if mode != 2 {
        return Some(Finding::ok(
            SUBJECT,
            &mode.to_string(),
            "hakmem's reserved address space does not count as memory.",
        ));
    }
    let of = |name| root.kib_field("/proc/meminfo", name);
    let (limit, used) = (of("CommitLimit"), of("Committed_AS"));
    let ratio = match root.number("/proc/sys/vm/overcommit_kbytes") {
        Some(kib @ 1..) => format!("{} of memory", bytes(kib << 10)),
        _ => {
            let ratio = root.number("/proc/sys/vm/overcommit_ratio");
            format!("{} % of memory", ratio.unwrap_or(50))
        }
    };
    let meaning = "The system counts memory that can be written, used or not. The address space \
                   that hakmem reserves does not count. Memory that it gave back counts until a \
                   run of eight segments is free.";
    Some(match (used, limit) {
        (Some(used), Some(limit)) if used > limit / 20 * 19 => Finding::new(
            Verdict::Problem,
            SUBJECT,
            &format!("2, {} of {} are taken", bytes(used), bytes(limit)),
            format!("{meaning} Allocations fail when the limit is reached."),
            "Raise vm.overcommit_ratio, or add swap.",
        ),
        _ => Finding::new(
            Verdict::Note,
            SUBJECT,
            &format!("2, {ratio} and swap"),
            meaning,
            "If malloc fails early, raise vm.overcommit_ratio, and set HAKMEM_HUGE_CACHE_MIB=0.",
        ),
    })
}

fn maps(root: &Root) -> Option<Finding> {
    const SUBJECT: &str = "vm.max_map_count";
    let most = root.number("/proc/sys/vm/max_map_count")?;
    Some(if most >= MAPS {
        Finding::ok(
            SUBJECT,
            &most.to_string(),
            "Enough: memory of one kind is one map, however much it is.",
        )
    } else {
        Finding::new(
            Verdict::Note,
            SUBJECT,
            &most.to_string(),
            "The kernel's default is 65530. Segments without huge pages, huge blocks that moved, \
             and sampled guards are maps of their own.",
            "Raise it (sysctl vm.max_map_count=65530) before you use HAKMEM_GUARD_SAMPLE.",
        )
    })
}

fn page_size(root: &Root) -> Option<Finding> {
    const SUBJECT: &str = "system page";
    let size = root.page_size()?;
    let found = bytes(size);
    Some(match size {
        4096 => Finding::ok(SUBJECT, &found, "This is what hakmem is developed with."),
        16_384 | 65_536 => Finding::new(
            Verdict::Note,
            SUBJECT,
            &found,
            "hakmem gives memory back in pieces of this size. So less goes back between live \
             blocks than with 4 KiB.",
            "Nothing need be done.",
        ),
        _ => Finding::new(
            Verdict::Problem,
            SUBJECT,
            &found,
            "hakmem was never tried with this size.",
            "Use a kernel with system pages of 4, 16 or 64 KiB.",
        ),
    })
}
