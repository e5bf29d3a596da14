//! The fixed transform plan of each size.

use tfhe_fft::{ordered::FftAlgo, unordered::Method, unordered::Plan};

/// The plan for `points` complex points.
///
/// Fixed, never measured at run time: a plan decides the order of the floating-point operations, and two
/// runs must give the same bits. The choices are the fastest of a sweep over all algorithms on Zen 4. How much
/// each loses is measured in `crypto/params/src/noise/transform.rs`: another choice needs another measurement.
pub(super) fn plan(points: usize) -> Plan {
    let (base_algo, base_n) = match points {
        ..=256 => (FftAlgo::Dit4, points),
        512 => (FftAlgo::Dif8, 512),
        1024 => (FftAlgo::Dif16, 256),
        2048..=4096 => (FftAlgo::Dif8, 512),
        _ => (FftAlgo::Dif4, 1024),
    };
    Plan::new(points, Method::UserProvided { base_algo, base_n })
}

/// Powers of the 2N-th root of unity that fold the negacyclic wrap into a cyclic transform.
pub(super) struct Twist {
    pub(super) re: Vec<f64>,
    pub(super) im: Vec<f64>,
}

impl Twist {
    pub(super) fn new(points: usize) -> Self {
        let angle = |index: usize| std::f64::consts::PI * index as f64 / (2 * points) as f64;
        Self {
            re: (0..points).map(|index| angle(index).cos()).collect(),
            im: (0..points).map(|index| angle(index).sin()).collect(),
        }
    }
}
