//! The phases of the test.

pub(crate) mod clocks;
pub(crate) mod crowd;
pub(crate) mod cuts;
pub(crate) mod kills;
pub(crate) mod points;
pub(crate) mod poison;
pub(crate) mod proofs;
pub(crate) mod restarts;
pub(crate) mod stops;
