//! A profile as values: stacks with names, and what they stand for.

use super::module::Look;
use super::{raw, symbols};
use std::collections::HashMap;
use std::rc::Rc;

/// No program allocates more: an exbibyte.
const MOST_BYTES: f64 = (1u64 << 60) as f64;

/// A profile with names, scaled to what it stands for.
pub struct Profile {
    pub interval: u64,
    /// All functions are shown.
    pub hides_none: bool,
    pub samples: Vec<Sample>,
    /// In the order of `Place::map`.
    pub files: Vec<File>,
}

/// What samples of blocks of one size by one stack stand for.
pub struct Sample {
    /// Bytes of a block.
    pub size: u64,
    pub all: f64,
    pub all_bytes: f64,
    pub live: f64,
    pub live_bytes: f64,
    /// Nearest first.
    pub stack: Vec<Rc<symbols::Place>>,
}

impl Sample {
    fn none(size: u64, stack: Vec<Rc<symbols::Place>>) -> Self {
        Self {
            size,
            all: 0.0,
            all_bytes: 0.0,
            live: 0.0,
            live_bytes: 0.0,
            stack,
        }
    }

    /// Each sample counts by its own interval.
    fn add(&mut self, raw: &raw::Sample) {
        let (weight, size) = (raw.weight(), self.size as f64);
        let (all, live) = (raw.all as f64 * weight, raw.live as f64 * weight);
        self.all += all;
        self.all_bytes += all * size;
        self.live += live;
        self.live_bytes += live * size;
    }
}

/// A map of a file.
pub struct File {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: String,
    pub build_id: String,
}

impl Profile {
    /// The error is for the user to read.
    pub fn of(raw: &raw::Raw, all_frames: bool, look: Look) -> Result<Self, String> {
        let mut symbols = symbols::Symbols::new(raw, look)?;
        let mut samples: Vec<Sample> = Vec::new();
        // Those at several intervals are one here.
        let mut numbers = HashMap::new();
        for sample in &raw.samples {
            let number = *numbers
                .entry((sample.size, &*sample.stack))
                .or_insert_with(|| {
                    samples.push(Sample::none(
                        sample.size,
                        symbols.stack(&sample.stack, all_frames),
                    ));
                    samples.len() - 1
                });
            samples[number].add(sample);
        }
        if samples.iter().map(|s| s.all_bytes).sum::<f64>() > MOST_BYTES {
            return Err("the profile has more bytes than can be".into());
        }
        let files = raw.maps.iter().map(|map| File {
            start: map.start,
            end: map.end,
            offset: map.offset,
            path: map.path.clone(),
            build_id: symbols.build_id(&map.path).to_owned(),
        });
        Ok(Self {
            interval: raw.interval,
            hides_none: all_frames,
            samples,
            files: files.collect(),
        })
    }
}
