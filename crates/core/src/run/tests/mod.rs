//! The machine under scripted and under random treatment.

mod properties;
mod scripted;
mod world;
