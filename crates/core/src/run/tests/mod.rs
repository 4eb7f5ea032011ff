//! The machine under scripted and under random treatment.

mod approvals;
mod call_limits;
mod interplay;
mod interrupts;
mod properties;
mod scripted;
mod world;
