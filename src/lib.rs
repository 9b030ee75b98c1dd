//! A tool-using agent behind one HTTP endpoint.
//!
//! [`simulator`] is a stand-in for the model: a scripted server of the Messages API.

pub mod simulator;
