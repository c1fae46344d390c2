//! Colours of functions in a picture: those of one crate, namespace or source file have one hue,
//! and no other module has it while there are hues left.

use super::hidden::{trait_of, type_of};
use super::symbols::Frame;
use inferno::flamegraph::color::Color;
use std::collections::BTreeMap;

/// Hues at the same distance from each other, in degrees, and the same again between them.
const HUES: u32 = 12;
const DISTANCE: u32 = 360 / HUES;
/// From one hue to the one that is tried next. It has no factor in common with `HUES`.
const STEP: u32 = 5;

/// The modules' hues in degrees.
#[derive(Debug, Default)]
pub struct Hues(BTreeMap<String, u32>);

impl Hues {
    /// Of modules with their bytes. Each has the hue that its name asks for, unless one with more
    /// bytes has it: the same module has the same colour in most pictures.
    pub fn new<'a>(modules: impl Iterator<Item = (&'a str, f64)>) -> Self {
        let mut bytes = BTreeMap::<&str, f64>::new();
        for (module, n) in modules {
            *bytes.entry(module).or_default() += n;
        }
        let mut by_bytes: Vec<_> = bytes.into_iter().collect();
        by_bytes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut hues = BTreeMap::new();
        let mut taken = [false; 2 * HUES as usize];
        for (module, _) in by_bytes {
            let first = hash(module) % HUES;
            let ring = (0..HUES).map(|n| (first + n * STEP) % HUES);
            let mut wanted = ring.clone().chain(ring.map(|n| n + HUES));
            let free = wanted.find(|&n| !taken[n as usize]);
            if let Some(n) = free {
                taken[n as usize] = true;
            }
            let n = free.unwrap_or(first);
            let hue = n % HUES * DISTANCE + n / HUES * DISTANCE / 2;
            hues.insert(module.to_owned(), hue);
        }
        Self(hues)
    }

    /// The colour of a function in the file `map`. Black letters can be read on all of them.
    pub fn of(&self, frame: &Frame, map: &str) -> Color {
        let hue = self.0.get(module(frame, map)).copied().unwrap_or(0);
        // Functions of one module beside each other are told apart by their lightness.
        let lightness = 68 + hash(&frame.function) % 13;
        from_hue(hue.into(), 0.62, f64::from(lightness) / 100.0)
    }
}

/// The crate or the outermost namespace; else the source file, else the file that the code was
/// mapped from.
pub fn module<'a>(frame: &'a Frame, map: &'a str) -> &'a str {
    let name = &frame.function;
    let paths = [Some(type_of(name)), trait_of(name)];
    let mut paths = paths.into_iter().flatten().filter_map(|path| {
        let (first, _) = path.split_once("::")?;
        // Of `&mut a::T` it is `a`.
        first
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
    });
    let file = || {
        let path = frame.file.as_deref().unwrap_or(map);
        path.rsplit('/').next().unwrap_or(path)
    };
    paths.find(|path| !path.is_empty()).unwrap_or_else(file)
}

/// FNV-1a: the same in every run.
fn hash(text: &str) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    let hash = text.bytes().fold(2_166_136_261, mix);
    hash ^ hash >> 16
}

/// `hue` in degrees, the others from 0 to 1.
fn from_hue(hue: f64, saturation: f64, lightness: f64) -> Color {
    let wide = saturation * lightness.min(1.0 - lightness);
    let part = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let value = lightness - wide * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    Color {
        r: part(0.0),
        g: part(8.0),
        b: part(4.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_a_crate_a_namespace_or_a_file() {
        for (function, file, want) in [
            ("tokio::runtime::poll", Some("/c/tokio/src/a.rs"), "tokio"),
            (
                "<axum::Json<serde_json::Value> as core::Clone>::clone",
                None,
                "axum",
            ),
            (
                "<&mut serde_json::Value as core::Clone>::clone",
                None,
                "serde_json",
            ),
            ("<F as axum::Handler<T>>::call", None, "axum"),
            ("llvm::Pass::run", None, "llvm"),
            ("main", Some("/home/me/main.c"), "main.c"),
            ("PyTuple_New", None, "python3"),
        ] {
            let frame = Frame {
                function: function.into(),
                linked: String::new(),
                file: file.map(str::to_owned),
                line: 1,
            };
            assert_eq!(module(&frame, "/usr/bin/python3"), want, "{function}");
        }
    }

    #[test]
    fn modules_have_hues_of_their_own() {
        let names: Vec<String> = (0..30).map(|n| format!("module_{n}")).collect();
        let hues = |names: &[String]| {
            let by_bytes = names.iter().enumerate();
            Hues::new(by_bytes.map(|(i, name)| (name.as_str(), -(i as f64)))).0
        };
        let different = |n: usize| {
            let all = hues(&names[..n]);
            assert_eq!(all.len(), n);
            let all: std::collections::BTreeSet<_> = all.into_values().collect();
            all.len()
        };
        assert_eq!((different(12), different(24), different(30)), (12, 24, 24));
        // The one with the most bytes has the same, whatever there is beside it.
        let most = &names[0];
        assert_eq!(hues(&names)[most], hues(&names[..1])[most]);
    }

    #[test]
    fn hues_are_colours() {
        for (hue, [r, g, b]) in [
            (0.0, [255, 0, 0]),
            (120.0, [0, 255, 0]),
            (240.0, [0, 0, 255]),
        ] {
            assert_eq!(from_hue(hue, 1.0, 0.5), Color { r, g, b });
        }
        assert_eq!(
            from_hue(77.0, 0.5, 1.0),
            Color {
                r: 255,
                g: 255,
                b: 255
            }
        );
    }
}
