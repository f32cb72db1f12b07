//! Part of scash.
