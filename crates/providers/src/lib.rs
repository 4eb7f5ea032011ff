//! The models that stand behind [`meerkat_core::Model`], one folder each.
//!
//! A folder owns how one provider is spoken to; what a run makes of the answer is the core's business. Nothing
//! here retries, and nothing here reads the environment: what a model needs is given to it.

mod offline;

pub use offline::{OFFLINE_MODEL_ID, OfflineModel};
