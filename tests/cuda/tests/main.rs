//! All suites in one program, so that the crates below are linked once.

mod device;
mod emulator;
mod exact;
mod faults;
mod key_switch;
mod keys;
mod limits;
mod noise;
mod rotation;
mod warm;
mod worker;
