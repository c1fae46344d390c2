//! Colours of functions in a picture: those of one crate, namespace or source file have one hue.

use super::hidden::{trait_of, type_of};
use super::symbols::Frame;
use inferno::flamegraph::color::Color;

/// The colour of a function in the file `map`. Black letters can be read on all of them.
pub fn of(frame: &Frame, map: &str) -> Color {
    let hue = hash(module(frame, map)) % 360;
    // Functions of one module beside each other are told apart by their lightness.
    let lightness = 68 + hash(&frame.function) % 13;
    from_hue(hue as f64, 0.62, lightness as f64 / 100.0)
}

/// The crate or the outermost namespace; else the source file, else the file that the code was mapped from.
fn module<'a>(frame: &'a Frame, map: &'a str) -> &'a str {
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
