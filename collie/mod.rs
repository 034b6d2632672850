//! Collie: the session of an agent on the phone.
