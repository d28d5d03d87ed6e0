//! Network interfaces and the path that traffic took.
