//! Parser of the output of `objdump --disassemble --no-show-raw-insn`, in AT&T syntax.

use std::{
    io::{self, BufRead},
    ops::RangeInclusive,
};

use super::{Counts, Function};

/// The functions of a listing.
pub fn functions_in(listing: impl BufRead) -> io::Result<Vec<Function>> {
    let mut functions = Vec::new();
    let mut current: Option<Body> = None;
    for line in listing.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(name) = head(&line) {
            functions.extend(current.replace(Body::new(name)).map(Body::function));
        } else if let (Some(body), Some((address, text))) = (&mut current, instruction(&line)) {
            body.add(address, text);
        }
    }
    functions.extend(current.map(Body::function));
    Ok(functions)
}

/// A function whose listing is being read.
struct Body {
    name: String,
    avx512: bool,
    /// Address of each instruction, and whether the instruction is wide.
    instructions: Vec<(u64, bool)>,
    spills: u64,
    /// Ranges from the target of each backward jump to the jump.
    loops: Vec<RangeInclusive<u64>>,
}

impl Body {
    fn new(name: &str) -> Self {
        let (instructions, loops) = (Vec::new(), Vec::new());
        Self { name: name.into(), avx512: false, instructions, spills: 0, loops }
    }

    fn add(&mut self, address: u64, text: &str) {
        if is_padding(text) {
            return;
        }
        let wide = text.contains("%zmm");
        self.avx512 |= wide || has_upper_register_or_mask(text);
        self.spills += u64::from(wide && text.contains("(%rsp)"));
        self.instructions.push((address, wide));
        let first = self.instructions[0].0;
        // A jump to an address before the function's first instruction leaves it.
        self.loops.extend(jump_target(text).filter(|target| (first..=address).contains(target)).map(|to| to..=address));
    }

    fn function(self) -> Function {
        let wide = self.instructions.iter().filter(|(_, wide)| *wide).count() as u64;
        let inner_loops = if wide == 0 { 0 } else { self.inner_loops() };
        let counts = Counts { instructions: self.instructions.len() as u64, wide, spills: self.spills, inner_loops };
        Function { name: self.name, counts, avx512: self.avx512 }
    }

    fn inner_loops(&self) -> u64 {
        let inside = |inner: &RangeInclusive<u64>, outer: &RangeInclusive<u64>| {
            inner != outer && outer.contains(inner.start()) && outer.contains(inner.end())
        };
        let innermost = self.loops.iter().filter(|outer| !self.loops.iter().any(|inner| inside(inner, outer)));
        let sizes = innermost.map(|range| {
            let members = self.instructions.iter().filter(|(address, _)| range.contains(address));
            let (count, wide) = members.fold((0, false), |(count, any), (_, wide)| (count + 1, any | wide));
            if wide { count } else { 0 }
        });
        sizes.sum()
    }
}

/// The name in a line like `0000000000001f00 <name>:`.
fn head(line: &str) -> Option<&str> {
    let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
    u64::from_str_radix(address, 16).ok()?;
    Some(name)
}

/// Address and text of a line of code: address, colon, tab, instruction.
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (address, text) = line.split_once(":\t")?;
    Some((u64::from_str_radix(address.trim_start(), 16).ok()?, text))
}

/// Target of a jump with a fixed target.
fn jump_target(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    words.next().filter(|mnemonic| mnemonic.starts_with('j'))?;
    u64::from_str_radix(words.next()?, 16).ok()
}

/// Whether an instruction only fills the space before an aligned loop or the next function.
fn is_padding(text: &str) -> bool {
    let mut words = text.split_whitespace().skip_while(|word| ["data16", "cs"].contains(word));
    match words.next() {
        Some(word) if word.starts_with("nop") || word == "int3" => true,
        Some("xchg") => words.next() == Some("%ax,%ax"),
        _ => false,
    }
}

fn has_upper_register_or_mask(text: &str) -> bool {
    text.split('%').skip(1).any(|register| match register.as_bytes() {
        [b'k', b'0'..=b'7', ..] => true,
        [b'x' | b'y', b'm', b'm', tens, ones, ..] if ones.is_ascii_digit() => (*tens, *ones) > (b'1', b'5'),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
