//! The machine under scripted and under random treatment.

mod approvals;
mod interplay;
mod properties;
mod scripted;
mod world;
