//! Three rooms in a circle, and a room apart from it.

mod apart;
mod first;
mod second;
mod third;
