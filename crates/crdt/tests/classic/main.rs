//! The classic counters: the practice tasks with their own numbers, each type against its specification
//! under an adversary, the wrong variants that the same checks must catch, and the binary forms.

mod codec;
mod delta;
mod escrow;
mod harness;
mod ops;
mod practice;
mod sharded;
mod state;
