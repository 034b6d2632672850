//! Herdr: the state of an agent on the desk.
