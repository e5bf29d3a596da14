//! Uses the second room.

use crate::{apart::Apart, second::inner::{Inner, Other}};

pub struct First(Apart, Inner, Other);
