//! The two builds of hakmem, and the options that only one of them obeys.

/// A program or a library says by its note which one it has: see `view::note`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Default,
    Hardened,
}

impl Build {
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default build",
            Self::Hardened => "hardened build",
        }
    }

    /// The variable of the environment that asks for something which this build does not have.
    pub fn ignored(self, value: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
        let (name, nothing) = match self {
            Self::Default => ("HAKMEM_HARDENED", "default"),
            Self::Hardened => ("HAKMEM_GUARD_SAMPLE", "0"),
        };
        let value = value(name)?;
        (!value.is_empty() && value != nothing).then_some(name)
    }
}
