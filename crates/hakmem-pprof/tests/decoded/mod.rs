//! The file for pprof, read field by field as its `profile.proto` has them, by a decoder that is
//! not the encoder's.
#![allow(dead_code, reason = "each test uses its own part")]

use flate2::read::GzDecoder;
use quick_protobuf::BytesReader;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

#[derive(Debug, Default)]
pub struct Pprof {
    pub strings: Vec<String>,
    pub types: Vec<(usize, usize)>,
    pub samples: Vec<(Vec<u64>, Vec<i64>)>,
    /// Id, and the functions' ids with lines.
    pub locations: BTreeMap<u64, Vec<(u64, i64)>>,
    /// Id, and the name.
    pub functions: BTreeMap<u64, usize>,
    /// Id, and the source file.
    pub files: BTreeMap<u64, usize>,
    pub drop_frames: usize,
    pub keep_frames: usize,
    /// The file, its build id, and whether it says that it has names.
    pub mappings: Vec<(usize, usize, bool)>,
    pub period: i64,
    pub default_type: usize,
}

fn message(bytes: &[u8], mut field: impl FnMut(u32, &mut BytesReader, &[u8])) {
    let mut reader = BytesReader::from_bytes(bytes);
    while !reader.is_eof() {
        let tag = reader.next_tag(bytes).unwrap();
        field(tag, &mut reader, bytes);
    }
}

/// Numbers that are packed into one field.
fn packed(bytes: &[u8]) -> Vec<u64> {
    let mut reader = BytesReader::from_bytes(bytes);
    let mut all = vec![];
    while !reader.is_eof() {
        all.push(reader.read_uint64(bytes).unwrap());
    }
    all
}

/// Field and wire type, as they stand together.
const fn varint(field: u32) -> u32 {
    field << 3
}
const fn bytes(field: u32) -> u32 {
    field << 3 | 2
}

/// The integers of a message, by their fields.
fn integers(bytes: &[u8]) -> BTreeMap<u32, u64> {
    let mut all = BTreeMap::new();
    message(bytes, |tag, r, all_bytes| {
        assert_eq!(tag, varint(tag >> 3), "an integer");
        all.insert(tag >> 3, r.read_uint64(all_bytes).unwrap());
    });
    all
}

fn of(integers: &BTreeMap<u32, u64>, field: u32) -> usize {
    integers.get(&field).copied().unwrap_or(0) as usize
}

fn sample(content: &[u8]) -> (Vec<u64>, Vec<i64>) {
    let mut sample = (vec![], vec![]);
    message(content, |tag, r, all| {
        let numbers = packed(r.read_bytes(all).unwrap());
        match tag >> 3 {
            1 => sample.0 = numbers,
            2 => sample.1 = numbers.into_iter().map(|n| n as i64).collect(),
            _ => {}
        }
    });
    sample
}

fn mapping(content: &[u8]) -> (usize, usize, bool) {
    let fields = integers(content);
    (of(&fields, 5), of(&fields, 6), of(&fields, 7) == 1)
}

/// Its id, and its lines.
fn location(content: &[u8]) -> (u64, Vec<(u64, i64)>) {
    let (mut id, mut lines) = (0, vec![]);
    message(content, |tag, r, all| {
        if tag == bytes(4) {
            let line = integers(r.read_bytes(all).unwrap());
            lines.push((of(&line, 1) as u64, of(&line, 2) as i64));
            return;
        }
        let value = r.read_uint64(all).unwrap();
        if tag == varint(1) {
            id = value;
        }
    });
    (id, lines)
}

/// Of a file.
pub fn decode_file(file: &Path) -> Pprof {
    decode(&std::fs::read(file).unwrap())
}

/// Of the bytes of a file.
pub fn decode(file: &[u8]) -> Pprof {
    const TYPE: u32 = bytes(1);
    const SAMPLE: u32 = bytes(2);
    const MAPPING: u32 = bytes(3);
    const LOCATION: u32 = bytes(4);
    const FUNCTION: u32 = bytes(5);
    const STRING: u32 = bytes(6);
    const DROP_FRAMES: u32 = varint(7);
    const KEEP_FRAMES: u32 = varint(8);
    const PERIOD: u32 = varint(12);
    const DEFAULT: u32 = varint(14);
    let mut whole = Vec::new();
    GzDecoder::new(file).read_to_end(&mut whole).unwrap();
    let mut p = Pprof::default();
    message(&whole, |tag, r, all| match tag {
        TYPE => {
            let kind = integers(r.read_bytes(all).unwrap());
            p.types.push((of(&kind, 1), of(&kind, 2)));
        }
        SAMPLE => p.samples.push(sample(r.read_bytes(all).unwrap())),
        MAPPING => p.mappings.push(mapping(r.read_bytes(all).unwrap())),
        LOCATION => {
            let (id, lines) = location(r.read_bytes(all).unwrap());
            p.locations.insert(id, lines);
        }
        FUNCTION => {
            let function = integers(r.read_bytes(all).unwrap());
            let id = of(&function, 1) as u64;
            p.files.insert(id, of(&function, 4));
            p.functions.insert(id, of(&function, 2));
        }
        STRING => p.strings.push(r.read_string(all).unwrap().to_owned()),
        DROP_FRAMES => p.drop_frames = r.read_int64(all).unwrap() as usize,
        KEEP_FRAMES => p.keep_frames = r.read_int64(all).unwrap() as usize,
        PERIOD => p.period = r.read_int64(all).unwrap(),
        DEFAULT => p.default_type = r.read_int64(all).unwrap() as usize,
        other => r.read_unknown(all, other).unwrap(),
    });
    p
}
