//! `hakmem-trials threads`: the memory of many threads that each allocate little.
//!
//! Each figure is from a process of its own, in which the library is preloaded. The threads
//! allocate their blocks, and wait until the main thread has read how much is resident.

use clap::Args;
use hakmem_bench::report::markdown;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::{env, fs, io, thread};

/// Blocks of each thread …
const BLOCKS: usize = 32;
/// … the largest of which has so many bytes.
const LARGEST: usize = 512;
/// Bytes of a thread's stack.
const STACK: usize = 64 << 10;

/// `hakmem-trials threads`.
#[derive(Debug, Args)]
pub struct Options {
    /// The numbers of threads
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100,1000,5000",
        value_name = "N,…"
    )]
    threads: Vec<usize>,
    /// Libraries to preload, beside the C library as it is
    #[arg(long, value_delimiter = ',', value_name = "NAME=FILE,…", value_parser = library)]
    preload: Vec<(String, PathBuf)>,
    /// Be the process with so many threads
    #[arg(long, hide = true)]
    hold: Option<usize>,
    /// Blocks of each thread of that process
    #[arg(long, hide = true, default_value_t = BLOCKS)]
    blocks: usize,
}

fn library(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected NAME=FILE")?;
    let file = fs::canonicalize(file).map_err(|e| format!("{file}: {e}"))?;
    Ok((name.to_owned(), file))
}

/// Measures, and prints a table.
pub fn run(options: &Options) -> io::Result<bool> {
    if let Some(threads) = options.hold {
        println!("{}", hold(threads, options.blocks)?);
        return Ok(true);
    }
    let mut rows = vec![row("no blocks", None, 0, options)?];
    rows.push(row("system", None, BLOCKS, options)?);
    for (name, file) in &options.preload {
        rows.push(row(name, Some(file), BLOCKS, options)?);
    }
    let columns = options
        .threads
        .iter()
        .map(|n| format!("{n} threads, KiB each"));
    let columns: Vec<String> = [String::from("library")]
        .into_iter()
        .chain(columns)
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    print!("{}", markdown(&columns, &rows));
    Ok(true)
}

fn row(
    name: &str,
    file: Option<&Path>,
    blocks: usize,
    options: &Options,
) -> io::Result<Vec<String>> {
    let mut row = vec![name.to_owned()];
    for &threads in &options.threads {
        let bytes = measure(file, threads, blocks)?;
        row.push(format!("{:.1}", bytes as f64 / threads as f64 / 1024.0));
    }
    Ok(row)
}

/// The bytes that `threads` threads made resident, in a process under `file`.
fn measure(file: Option<&Path>, threads: usize, blocks: usize) -> io::Result<u64> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["threads", "--hold", &threads.to_string()])
        .args(["--blocks", &blocks.to_string()])
        .env_remove("LD_PRELOAD")
        .stderr(Stdio::inherit());
    if let Some(file) = file {
        command.env("LD_PRELOAD", file);
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_whitespace();
    let (bytes, server) = (words.next(), words.next().unwrap_or(""));
    let bytes = bytes.and_then(|word| word.parse().ok());
    let bytes = bytes.filter(|_| output.status.success());
    let bytes =
        bytes.ok_or_else(|| io::Error::other(format!("{threads} threads: {}", output.status)))?;
    match file {
        Some(file) if fs::canonicalize(server)? != file => Err(io::Error::other(format!(
            "{} did not serve malloc",
            file.display()
        ))),
        _ => Ok(bytes),
    }
}

/// Starts the threads, and returns by how many bytes the resident memory grew, and the file that
/// `malloc` is from.
fn hold(threads: usize, blocks: usize) -> io::Result<String> {
    let (begun, end) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let before = resident()?;
    thread::scope(|scope| {
        for number in 0..threads {
            let (begun, end) = (&begun, &end);
            let own = move || {
                let blocks: Vec<usize> = (0..blocks).map(|i| allocate(number, i)).collect();
                begun.wait();
                end.wait();
                blocks.into_iter().for_each(free);
            };
            thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, own)?;
        }
        begun.wait();
        let after = resident();
        end.wait();
        Ok(format!("{} {}", after?.saturating_sub(before), server()))
    })
}

/// Allocates and fills a block, and returns its address.
fn allocate(thread: usize, i: usize) -> usize {
    let size = 1 + (thread * 31 + i * 97) % LARGEST;
    // SAFETY: any size may be asked for. The block has `size` bytes.
    unsafe {
        let p = libc::malloc(size);
        assert!(!p.is_null(), "out of memory");
        libc::memset(p, 1, size);
        p.expose_provenance()
    }
}

fn free(p: usize) {
    // SAFETY: the block is from `allocate`, and is freed once.
    unsafe { libc::free(std::ptr::with_exposed_provenance_mut(p)) };
}

/// Bytes of this process that are resident.
fn resident() -> io::Result<u64> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|rest| {
        rest.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| io::Error::other("smaps_rollup has no Rss"))
}

/// The file that `malloc` is from.
fn server() -> String {
    // SAFETY: all zero bytes are such a record. `dladdr` fills it, and its name is a string that
    // lives as long as the library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let malloc = libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        if libc::dladdr(malloc, &raw mut info) == 0 {
            return String::new();
        }
        CStr::from_ptr(info.dli_fname)
            .to_string_lossy()
            .into_owned()
    }
}
