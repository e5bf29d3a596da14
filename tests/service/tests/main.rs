//! All suites in one program. Every further program costs its own link of server, worker and
//! client.

mod ckks;
mod compile;
mod demo;
mod documented;
mod faults;
mod fetches;
mod flow;
mod full_disk;
mod gpu;
mod installation;
mod integers;
mod liar;
mod logs;
mod metrics;
mod modes;
mod poison;
mod printing;
mod programs;
mod refusals;
mod tls;
mod typed;
mod uploads;
mod vectors;
mod verify;
