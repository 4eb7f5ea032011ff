//! The parts of an error that every surface shows.

use meerkat_contracts::ErrorBody;
use meerkat_core::ErrorKind;
use serde_json::Value;

/// An error with a code.
pub trait Coded: std::error::Error {
    /// Returns the kind of the error, which determines its code.
    fn kind(&self) -> ErrorKind;

    /// Returns machine-readable details, if there are any.
    fn data(&self) -> Option<Value> {
        None
    }

    /// Returns a hint about what to do next, if there is one.
    fn hint(&self) -> Option<String> {
        None
    }

    /// Returns the error as every surface shows it.
    fn body(&self) -> ErrorBody {
        let mut message = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !message.contains(&cause_text) {
                message = format!("{message}: {cause_text}");
            }
            source = cause.source();
        }
        if let Some(hint) = self.hint() {
            message = format!("{message}; {hint}");
        }
        ErrorBody { code: self.kind().code().to_owned(), message, data: self.data() }
    }
}

impl Coded for meerkat_store::Error {
    fn kind(&self) -> ErrorKind {
        Self::kind(self)
    }

    fn data(&self) -> Option<Value> {
        let Self::Generation { expected, current } = self else { return None };
        Some(serde_json::json!({
            "type": "generation_conflict",
            "expected_generation": expected,
            "current_generation": current,
        }))
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}
