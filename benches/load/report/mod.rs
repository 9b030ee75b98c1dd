//! The report of the load test: figures, goals, tables. Pure functions of the measurements.

pub(crate) mod figures;
pub(crate) mod goal;
pub(crate) mod median;
pub(crate) mod page;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod sample;
pub(crate) mod script;
pub(crate) mod statements;
