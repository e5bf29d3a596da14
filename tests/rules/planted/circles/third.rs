//! Uses the first room.

// use crate::apart::Apart;
pub struct Third(Box<crate::first::First>);

#[cfg(test)]
mod tests {
    use crate::apart::Apart;
}
