//! Edges that hand over to sites, over stored data in memory: exact whatever is lost, repeated, late or crashed, and
//! nothing left behind.

mod bounded;
mod folding;
mod gone;
mod last_words;
mod lazy;
mod leaving;
mod reading;
mod relays;
mod same_steps;
mod stored;
mod storm;
mod vectors;
mod world;
