//! Systems and processes, and what `hakmem doctor` says of them.

/// A system with nothing to say about it, and the process 42 on it.
pub const HEALTHY: [(&str, &str); 22] = [
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
    ("proc/sys/kernel/yama/ptrace_scope", "0\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/sys/vm/overcommit_kbytes", "0\n"),
    ("proc/sys/vm/overcommit_ratio", "50\n"),
    ("proc/sys/vm/max_map_count", "65530\n"),
    (
        "proc/meminfo",
        "MemTotal: 9 kB\nCommitLimit: 1000 kB\nCommitted_AS: 500 kB\n",
    ),
    (
        "proc/self/status",
        "Name:\thakmem\nCapEff:\t0000000000000000\n",
    ),
    ("proc/self/limits", LIMITS),
    ("proc/self/cgroup", "0::/user/shell\n"),
    (
        "proc/self/mountinfo",
        "30 1 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n",
    ),
    (
        "proc/42/status",
        "Name:\tprog\nTracerPid:\t0\nVmSize:\t 900 kB\nVmData:\t 900 kB\nSeccomp:\t0\n",
    ),
    ("proc/42/limits", LIMITS),
    ("proc/42/cgroup", "0::/app/web\n"),
    ("proc/42/maps", "one\ntwo\n"),
    ("proc/42/environ", "A=b\0C=d\0"),
    ("cg/app/web/memory.max", "max\n"),
    ("cg/app/web/memory.high", "max\n"),
    ("cg/app/web/memory.events", "oom 0\noom_kill 0\n"),
    ("calls/page_size", "4096"),
    ("calls/42", "served"),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n",
    ),
];
const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max data size             unlimited            unlimited            bytes
Max locked memory         8388608              8388608              bytes
Max address space         unlimited            unlimited            bytes
";

/// A file of the system and its text, and the finding: subject, verdict, words.
pub type Case = (
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
    &'static str,
);

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const DEFRAG: &str = "sys/kernel/mm/transparent_hugepage/defrag";
const SHMEM: &str = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
const COMMIT: &str = "proc/sys/vm/overcommit_memory";
const YAMA: &str = "proc/sys/kernel/yama/ptrace_scope";

const SIZE: &str = "sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
const SMALLER: &str = "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";

pub const OF_SYSTEM: [Case; 31] = [
    // A namespace of control groups, with a mount from outside.
    (
        &[
            ("proc/self/cgroup", "0::/\n"),
            (
                "proc/self/mountinfo",
                "30 1 0:26 /../.. /cg rw - cgroup2 cgroup2 rw\n",
            ),
            ("cg/memory.max", "max\n"),
        ],
        "control group",
        "note",
        "mount -t cgroup2 none /cg",
    ),
    (
        &[("proc/self/status", "CapEff: 0\nSeccomp:\t2\n")],
        "filter of system calls",
        "note",
        "A program that is started here inherits it.",
    ),
    (
        &[(YAMA, "")],
        "kernel.yama.ptrace_scope",
        "note",
        "not known",
    ),
    (
        &[("proc/self/mountinfo", "")],
        "control group",
        "note",
        "not known",
    ),
    (
        &[("proc/self/status", "CapEff: 0\nTHP_enabled:\t0\n")],
        "huge pages",
        "note",
        "PR_SET_THP_DISABLE",
    ),
    (
        &[(SIZE, "2097152\n")],
        "huge pages",
        "ok",
        "hakmem asks for them where",
    ),
    (
        &[(SIZE, "33554432\n")],
        "huge pages",
        "note",
        "madvise, of 32.0 MiB",
    ),
    (
        &[
            (SIZE, "536870912\n"),
            (SMALLER, "always inherit madvise [never]"),
        ],
        "huge pages",
        "note",
        "hugepages-2048kB",
    ),
    (
        &[
            (SIZE, "536870912\n"),
            (SMALLER, "always [inherit] madvise never"),
        ],
        "huge pages",
        "ok",
        "hakmem asks for them where",
    ),
    (
        &[(THP, "[always] madvise never")],
        "huge pages",
        "note",
        "HAKMEM_THP=never",
    ),
    (
        &[(THP, "always madvise [never]")],
        "huge pages",
        "note",
        "gets no huge pages",
    ),
    (
        &[(THP, "")],
        "huge pages",
        "note",
        "no transparent huge pages",
    ),
    (
        &[(DEFRAG, "[always] defer")],
        "making huge pages",
        "note",
        "may wait",
    ),
    (
        &[(DEFRAG, "always [defer]")],
        "making huge pages",
        "ok",
        "No page fault waits",
    ),
    (
        &[(SHMEM, "always [never]")],
        "huge pages of shared memory",
        "ok",
        "never",
    ),
    (
        &[(COMMIT, "2")],
        "vm.overcommit_memory",
        "note",
        "50 % of memory",
    ),
    (
        &[(COMMIT, "2"), ("proc/sys/vm/overcommit_kbytes", "2048")],
        "vm.overcommit_memory",
        "note",
        "2.0 MiB of memory",
    ),
    (
        &[
            (COMMIT, "2"),
            ("proc/meminfo", "CommitLimit: 1000 kB\nCommitted_AS: 951 kB"),
        ],
        "vm.overcommit_memory",
        "problem",
        "951.0 KiB of 1000.0 KiB",
    ),
    (
        &[("proc/sys/vm/max_map_count", "1000")],
        "vm.max_map_count",
        "note",
        "65530",
    ),
    (
        &[("calls/page_size", "16384")],
        "system page",
        "note",
        "less goes back",
    ),
    (
        &[("calls/page_size", "8192")],
        "system page",
        "problem",
        "never tried",
    ),
    (
        &[("proc/sys/kernel/osrelease", "5.10.1")],
        "kernel",
        "note",
        "page by page.",
    ),
    (
        &[("proc/sys/kernel/osrelease", "4.9")],
        "kernel",
        "note",
        "sleeping threads stay",
    ),
    (
        &[("calls/madvise", "22")],
        "MADV_POPULATE_WRITE",
        "note",
        "Invalid argument",
    ),
    (
        &[("calls/membarrier", "38")],
        "membarrier",
        "note",
        "thread_idle",
    ),
    (
        &[("calls/process_vm_readv", "1")],
        "process_vm_readv",
        "note",
        "not permitted",
    ),
    (
        &[(YAMA, "1")],
        "kernel.yama.ptrace_scope",
        "note",
        "hakmem top PROG works",
    ),
    (
        &[
            (YAMA, "1"),
            ("proc/self/status", "CapEff:\t0000000000080000"),
        ],
        "kernel.yama.ptrace_scope",
        "ok",
        "right to look",
    ),
    (
        &[(YAMA, "2")],
        "kernel.yama.ptrace_scope",
        "note",
        "Only root",
    ),
    (
        &[(YAMA, "3")],
        "kernel.yama.ptrace_scope",
        "note",
        "HAKMEM_STATS",
    ),
    (
        &[(
            "proc/self/limits",
            "Max address space  1073741824 1073741824 bytes",
        )],
        "RLIMIT_AS",
        "note",
        "1.0 GiB",
    ),
];

pub const OF_PROCESS: [Case; 21] = [
    (
        &[("proc/42/status", "Name: p\nTHP_enabled:\t0\n")],
        "huge pages",
        "note",
        "PR_SET_THP_DISABLE",
    ),
    (
        &[("calls/42", "kernel")],
        "hakmem in the process",
        "note",
        "Nothing need be done.",
    ),
    (
        &[
            ("cg/app/memory.high", "1048576"),
            ("proc/42/environ", "HAKMEM_LIMIT_PERCENT=80"),
        ],
        "memory.high",
        "note",
        "With HAKMEM_LIMIT_PERCENT, hakmem takes a share of the lowest limit",
    ),
    (
        &[("proc/42/limits", "Max data size  1048576 9 bytes")],
        "RLIMIT_DATA",
        "note",
        "1.0 MiB",
    ),
    (
        &[("proc/42/limits", "Max data size  1000000 9 bytes")],
        "RLIMIT_DATA",
        "problem",
        "fail",
    ),
    (
        &[("proc/42/limits", "Max address space 921700 9 b")],
        "RLIMIT_AS",
        "problem",
        "900.0 KiB",
    ),
    (
        &[("proc/42/limits", "Max locked memory unlimited")],
        "RLIMIT_MEMLOCK",
        "ok",
        "works",
    ),
    (
        &[
            ("cg/app/memory.max", "1048576"),
            ("cg/app/memory.current", "524288"),
        ],
        "memory.max",
        "note",
        "512.0 KiB of 1.0 MiB",
    ),
    (
        &[
            ("cg/app/web/memory.high", "100"),
            ("cg/app/web/memory.current", "91"),
        ],
        "memory.high",
        "problem",
        "slows",
    ),
    (
        &[("cg/app/web/memory.events", "oom_kill 3")],
        "memory.events",
        "problem",
        "oom_kill 3",
    ),
    (
        &[
            ("proc/42/cgroup", "4:cpu,memory:/docker/1\n0::/"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 /docker/1 /v1 rw - cgroup cgroup rw,memory\n",
            ),
            ("v1/memory.limit_in_bytes", "1048576"),
            ("v1/memory.usage_in_bytes", "1024"),
        ],
        "memory.limit_in_bytes",
        "note",
        "1.0 KiB of 1.0 MiB",
    ),
    (
        &[
            ("proc/42/cgroup", "4:memory:/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /v1 rw - cgroup cgroup rw,memory\n",
            ),
            ("v1/memory.limit_in_bytes", "9223372036854771712"),
        ],
        "memory.limit_in_bytes",
        "ok",
        "no limit",
    ),
    (&[("proc/42/cgroup", "")], "control group", "ok", "none"),
    (
        &[("calls/42", "without")],
        "hakmem in the process",
        "problem",
        "does not run on hakmem",
    ),
    (
        &[("calls/42", "forbidden")],
        "hakmem in the process",
        "problem",
        "CAP_SYS_PTRACE",
    ),
    (
        &[("calls/42", "others")],
        "hakmem in the process",
        "problem",
        "it is root's, and you are nobody.",
    ),
    (
        &[("calls/42", "served filtered")],
        "hakmem in the process",
        "note",
        "profile --pid refuses it",
    ),
    (
        &[("proc/42/status", "Name: p\nSeccomp: 2")],
        "filter of system calls",
        "note",
        "clone",
    ),
    (
        &[("proc/42/status", "Name: p\nSeccomp: 1")],
        "filter of system calls",
        "problem",
        "read",
    ),
    (
        &[("proc/42/status", "Name: p\nTracerPid: 7")],
        "tracer",
        "note",
        "process 7",
    ),
    (
        &[("proc/sys/vm/max_map_count", "2")],
        "maps",
        "problem",
        "2 of 2",
    ),
];
