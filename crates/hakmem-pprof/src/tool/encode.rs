//! pprof's format: the messages of its `profile.proto`, gzipped.

use super::hidden;
use super::profile::Profile;
use super::symbols::Place;
use flate2::{Compression, write::GzEncoder};
use prost::Message;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;
use std::rc::Rc;

#[derive(Clone, PartialEq, Message)]
pub struct Whole {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "7")]
    drop_frames: i64,
    #[prost(int64, tag = "8")]
    keep_frames: i64,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "3")]
    num: i64,
    #[prost(int64, tag = "4")]
    num_unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Numbers things in the order of their coming.
struct Numbered<K> {
    numbers: HashMap<K, usize>,
}

impl<K: Hash + Eq> Numbered<K> {
    fn new() -> Self {
        Self {
            numbers: HashMap::new(),
        }
    }

    /// Its number from 0 on, and whether it is new.
    fn of(&mut self, key: K) -> (usize, bool) {
        let next = self.numbers.len();
        let number = *self.numbers.entry(key).or_insert(next);
        (number, number == next)
    }
}

struct Builder {
    whole: Whole,
    /// Functions and lines are in it.
    symbols: bool,
    strings: Numbered<String>,
    functions: Numbered<(String, Option<String>)>,
    /// By place: parts of one address are several.
    locations: Numbered<*const Place>,
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        let (number, is_new) = self.strings.of(text.to_owned());
        if is_new {
            self.whole.string_table.push(text.to_owned());
        }
        number as i64
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType {
            r#type: self.string(name),
            unit: self.string(unit),
        }
    }

    fn location(&mut self, place: &Place) -> u64 {
        let (number, is_new) = self.locations.of(place);
        let id = number as u64 + 1;
        if is_new {
            let mut line = vec![];
            let frames = if self.symbols { &*place.frames } else { &[] };
            for frame in frames {
                let (number, is_new) = self
                    .functions
                    .of((frame.linked.clone(), frame.file.clone()));
                let function_id = number as u64 + 1;
                if is_new {
                    let function = Function {
                        id: function_id,
                        name: self.string(&frame.function),
                        system_name: self.string(&frame.linked),
                        filename: self.string(frame.file.as_deref().unwrap_or("")),
                    };
                    self.whole.function.push(function);
                }
                line.push(Line {
                    function_id,
                    line: frame.line.into(),
                });
            }
            let mapping_id = place.map.map_or(0, |i| i as u64 + 1);
            self.whole.location.push(Location {
                id,
                mapping_id,
                address: place.address,
                line,
            });
        }
        id
    }
}

/// The profile as pprof reads it. Without `symbols` it has addresses, and pprof looks for their
/// names.
pub fn encode(profile: &Profile, symbols: bool) -> Vec<u8> {
    let mut b = Builder {
        whole: Whole::default(),
        symbols,
        strings: Numbered::new(),
        functions: Numbered::new(),
        locations: Numbered::new(),
    };
    b.string(""); // The first must be empty.
    for (name, unit) in [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ] {
        let of = b.value_type(name, unit);
        b.whole.sample_type.push(of);
    }
    b.whole.default_sample_type = b.string("inuse_space");
    b.whole.period_type = Some(b.value_type("space", "bytes"));
    b.whole.period = profile.interval as i64;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    b.whole.time_nanos = now.map_or(0, |t| t.as_nanos() as i64);
    // With names, what is hidden is gone already.
    if !symbols && !profile.hides_none {
        b.whole.drop_frames = b.string(hidden::DROPPED);
        b.whole.keep_frames = b.string(hidden::KEPT);
    }
    for (i, file) in profile.files.iter().enumerate() {
        let mapping = Mapping {
            id: i as u64 + 1,
            memory_start: file.start,
            memory_limit: file.end,
            file_offset: file.offset,
            filename: b.string(&file.path),
            build_id: b.string(&file.build_id),
            has_functions: symbols,
            has_filenames: symbols,
            has_line_numbers: symbols,
            has_inline_frames: symbols,
        };
        b.whole.mapping.push(mapping);
    }
    let (key, num_unit) = (b.string("bytes"), b.string("bytes"));
    for sample in &profile.samples {
        let location_id = sample
            .stack
            .iter()
            .map(|place: &Rc<Place>| b.location(place))
            .collect();
        let value = [sample.all, sample.all_bytes, sample.live, sample.live_bytes]
            .map(|v| v.round() as i64)
            .to_vec();
        let label = vec![Label {
            key,
            num: sample.size as i64,
            num_unit,
        }];
        b.whole.sample.push(Sample {
            location_id,
            value,
            label,
        });
    }
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all(&b.whole.encode_to_vec())
        .expect("writing to a Vec");
    gz.finish().expect("writing to a Vec")
}
