//! Scripted and randomized tests of the machine.

mod approvals;
mod call_limits;
mod interplay;
mod interrupts;
mod properties;
mod scripted;
mod world;
