//! The feature profiles of the `meerkat` crate that are supported.

/// A named choice of Cargo features.
pub(crate) struct Profile {
    /// Name in the documentation.
    pub(crate) name: &'static str,
    features: Features,
}

enum Features {
    Default,
    Only(&'static str),
}

/// Every profile, smallest first.
pub(crate) const PROFILES: [Profile; 5] = [
    Profile { name: "minimal", features: Features::Only("") },
    Profile { name: "provider-default", features: Features::Default },
    Profile { name: "persistent", features: Features::Only("session-store") },
    Profile { name: "compacting", features: Features::Only("session-compaction") },
    Profile { name: "full", features: Features::Only("session-store,session-compaction") },
];

/// Features that are also checked alone, without tests.
pub(crate) const SINGLE_FEATURES: [&str; 7] =
    ["anthropic", "openai", "gemini", "memory-store-session", "mcp", "skills", "registry"];

impl Profile {
    /// Returns the profile of one feature.
    pub(crate) const fn of_feature(feature: &'static str) -> Self {
        Self { name: feature, features: Features::Only(feature) }
    }

    /// Returns the arguments with which cargo builds `meerkat` in this profile.
    pub(crate) fn arguments(&self) -> Vec<&'static str> {
        match self.features {
            Features::Default => vec!["--package", "meerkat"],
            Features::Only("") => vec!["--package", "meerkat", "--no-default-features"],
            Features::Only(list) => vec!["--package", "meerkat", "--no-default-features", "--features", list],
        }
    }

    /// Returns `true` if this is the default of `cargo build`.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self.features, Features::Default)
    }
}
