//! The machine under scripted and under random treatment.

mod interplay;
mod properties;
mod scripted;
mod world;
