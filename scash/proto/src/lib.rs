//! The coherence protocol of scash as a value.
