//! Both sides without AVX-512, in a process of a second build of this program. Its peer has no
//! AVX-512, and ours is forced to AVX2.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use cloakwork_math::simd::Level;
use cloakwork_peers_measure::{Slice, Slices};
use cloakwork_tests_speed::disassembly::{self, Function};

use crate::{
    Options,
    cases::{CASES, Case, Kind},
    report::{Report, Result, sides_json},
    run::{measure, sides},
};

/// Option that starts the process, followed by the case's label, the number of pairs and the kinds
/// of rows.
pub const FLAG: &str = "--without-avx512";

/// Instruction set that ours is forced to.
const LEVEL: &str = "avx2";

/// Parts of the names of functions that may contain AVX-512, because no measured code runs them.
const UNMEASURED_AVX512: [&str; 3] = [
    "cloakwork_", // Our code, which does not run AVX-512: its level is avx2.
    "aes::",      // Masks of keys and fresh ciphertexts, made before the measurement.
    "blake3_",    // Digests in key files, which no measured code computes.
];

/// Measures the selected rows of `case` in a process of `program`.
pub fn run(
    case: &'static Case,
    program: &Path,
    options: &Options,
    report: &mut Report,
) -> std::result::Result<(), String> {
    let rows = options.rows(case);
    if rows.is_empty() {
        return Ok(());
    }
    let mut child = Command::new(program);
    child.args([FLAG, case.label, &options.pairs(case.pairs).to_string()]);
    child.args(rows.iter().map(|row| row.kind.label())).env("CLOAKWORK_SIMD", LEVEL).stderr(Stdio::inherit());
    let output = child.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || format!("{}: {} failed and said {text:?}", case.label, program.display());
    let (head, slices) = text.split_once('\n').filter(|_| output.status.success()).ok_or_else(failed)?;
    let slices: Vec<_> = slices.lines().map(parse).collect::<Option<_>>().ok_or_else(failed)?;
    let sides = serde_json::from_str(head).map_err(|error| format!("{}: {error}", failed()))?;
    for row in rows {
        let mine = slices.iter().filter(|(kind, _, _)| *kind == row.kind);
        let pairs = mine.clone().map(|(_, _, pair)| *pair).collect();
        let operations = mine.map(|(_, operations, _)| *operations).next().ok_or_else(failed)?;
        report.add(Result::new(case, row, Slices { pairs, operations }).of_other_build(&sides));
    }
    Ok(())
}

/// Checks that this process may measure, then measures. Prints both sides, and a line for each pair
/// of slices.
pub fn measure_here(arguments: &[String]) -> std::result::Result<(), String> {
    let message = "expected a case, a number of pairs and kinds of rows";
    let [label, pairs, kinds @ ..] = arguments else { return Err(message.into()) };
    let case = CASES.iter().find(|case| case.label == label).ok_or(message)?;
    let pairs = pairs.parse().map_err(|_| message)?;
    check()?;
    println!("{}", sides_json());
    let (peer, mut ours) = sides(case);
    for kind in kinds {
        let kind = Kind::by_label(kind).ok_or(message)?;
        let Slices { pairs, operations } = measure(case, kind, pairs, &peer, ours.as_mut());
        for (ours, peer) in pairs {
            println!("{} {} {} {} {operations} {}", ours.wall, ours.cpu, peer.wall, peer.cpu, kind.label());
        }
    }
    Ok(())
}

fn parse(line: &str) -> Option<(Kind, usize, (Slice, Slice))> {
    let mut words = line.splitn(6, ' ');
    let mut seconds = || words.next()?.parse().ok();
    let ours = Slice { wall: seconds()?, cpu: seconds()? };
    let peer = Slice { wall: seconds()?, cpu: seconds()? };
    let operations = words.next()?.parse().ok()?;
    Some((Kind::by_label(words.next()?)?, operations, (ours, peer)))
}

/// Checks that neither side can run AVX-512.
///
/// The build options of tfhe-rs are not enough: its parts detect instruction sets at run time. So
/// the check looks for AVX-512 code in the program itself.
fn check() -> std::result::Result<(), String> {
    if cfg!(feature = "avx512") || peer_tfhe::target_features() != ["avx2"] {
        return Err(format!(
            "the peer of this program has its avx512 feature or is compiled for {:?}, not for x86-64-v3: \
             use the program in target/peers-avx2 that run.sh builds",
            peer_tfhe::target_features()
        ));
    }
    if Level::detect().name() != LEVEL {
        return Err(format!("ours runs {} where CLOAKWORK_SIMD={LEVEL} was to force it", Level::detect().name()));
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let found = avx512(disassembly::functions(&this)?);
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("the peer has AVX-512 compiled in, in {} functions, such as {}", found.len(), found[0]))
}

/// Names of functions that contain AVX-512 and may be measured.
fn avx512(functions: Vec<Function>) -> Vec<String> {
    let measured = |name: &str| !UNMEASURED_AVX512.iter().any(|part| name.contains(part));
    functions.into_iter().filter(|function| function.avx512 && measured(&function.name)).map(|f| f.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn avx512_code_of_the_peer_is_found() {
        let function = |name: &str, avx512| Function { name: name.into(), counts: Default::default(), avx512 };
        let program = vec![
            function("tfhe_fft::dif8::fft", false),
            function("cloakwork_math::simd::run_avx512", true),
            function("<pulp::x86::V4 as pulp::Simd>::vectorize::imp", true),
            function("blake3_hash_many_avx512", true),
        ];
        assert_eq!(avx512(program), ["<pulp::x86::V4 as pulp::Simd>::vectorize::imp"]);
    }

    #[test]
    fn pairs_are_read_as_they_were_printed() {
        let (kind, operations, (ours, peer)) = parse("1.5 2.5 3.5 4.5 128 throughput, all cores").expect("whole");
        assert!(kind == Kind::Throughput);
        assert_eq!(operations, 128);
        assert_eq!([ours.wall, ours.cpu, peer.wall, peer.cpu], [1.5, 2.5, 3.5, 4.5]);
        assert!(parse("1.5 2.5 3.5 4.5 throughput, all cores").is_none());
        assert!(parse("1.5 2.5 3.5 4.5 128 something").is_none());
    }
}
