//! The table of the tools, and what they ask for.
