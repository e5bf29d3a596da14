//! Limits of launches on a GPU, and alignments on which kernels rely.

use std::{
    io::{self, Read},
    sync::Arc,
};

use cloakwork_cuda::{
    CudaDevice,
    gpu::{Buffer, Complex, Description, Driver, DriverError, Launcher, RotationShape, Stream, View},
    rotation_shape,
};
use cloakwork_device::{Device as _, DeviceError, KeySource};
use cloakwork_params::{Decomposition, KeyId, ParameterSet};
use cloakwork_tests_cuda::emulator::Emulated;

/// A GPU with `shared_kibibytes` KiB of shared memory for each block, without clusters.
fn gpu(shared_kibibytes: u32) -> Arc<Emulated> {
    let like = Emulated::new(512 << 20).describe().clone();
    let shared_bytes = shared_kibibytes << 10;
    Arc::new(Emulated::described(Description { shared_bytes, has_clusters: false, ..like }))
}

fn device(shared_kibibytes: u32) -> CudaDevice {
    CudaDevice::new(vec![gpu(shared_kibibytes)]).expect("memory for the workspace")
}

/// A key source without any parts.
struct NoKey(&'static ParameterSet);

impl KeySource for NoKey {
    fn set(&self) -> &'static ParameterSet {
        self.0
    }

    fn key_id(&self) -> KeyId {
        KeyId([0; 16])
    }

    fn parts(&self) -> usize {
        0
    }

    fn open(&self, _: usize) -> io::Result<Box<dyn Read + '_>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// 99 KiB is the limit of GPUs of compute capability 8.6, 8.9 and 12.0.
#[test]
fn a_gpu_with_little_shared_memory_offers_no_set_that_needs_more() {
    let (small, large) = (device(99), device(163));
    let (offered, all) = (small.describe().sets, large.describe().sets);
    let (too_large, others): (Vec<&'static ParameterSet>, Vec<&'static ParameterSet>) =
        all.iter().partition(|set| rotation_shape(set).polynomial_size >= 16384);
    let names = |sets: &[&ParameterSet]| sets.iter().map(|set| set.name).collect::<Vec<_>>();
    assert!(!too_large.is_empty());
    assert_eq!(names(&offered), names(&others));
    let refused = small.load_key(&NoKey(too_large[0]));
    assert_eq!(refused, Err(DeviceError::UnsupportedSet { set: too_large[0].name }));
    assert!(matches!(large.load_key(&NoKey(too_large[0])), Err(DeviceError::MissingKeyPart { .. })));
}

#[test]
fn a_launch_beyond_the_shared_memory_limit_is_a_misfit() {
    let driver: Arc<dyn Driver> = gpu(99);
    let gadget = Decomposition { base_log: 23, levels: 1 };
    let transformed = |polynomial_size: usize| {
        let shape = RotationShape { steps: 1, grouping: 1, glwe_dimension: 1, polynomial_size, gadget };
        let room = |bytes: usize| Buffer::new(&driver, bytes).expect("memory");
        let (words, roots, spectra) =
            (room(8 * polynomial_size), room(64 * polynomial_size), room(8 * polynomial_size));
        let launcher = Launcher { driver: driver.as_ref(), stream: Stream::Keys };
        launcher.transform_key::<u64>(words.all()?, roots.all()?, shape, spectra.all()?)
    };
    assert_eq!(transformed(8192), Ok(()));
    assert_eq!(transformed(16384), Err(DriverError::Misfit("as many bytes as a block may share")));
}

#[test]
fn views_of_complex_numbers_must_be_aligned_for_one_load() {
    let driver: Arc<dyn Driver> = gpu(99);
    let room = Buffer::new(&driver, 64).expect("memory");
    let of = |first_byte: usize| room.view::<Complex>(first_byte, 1).map(|view| view.len());
    let refused = Err(DriverError::Misfit("a view that is not aligned"));
    assert_eq!([of(0), of(8), of(16), of(24)], [Ok(1), refused.clone(), Ok(1), refused.clone()]);
    let words: View<'_, u64> = room.view(8, 4).expect("words");
    assert_eq!(words.cast::<Complex>().map(|view| view.len()), refused);
}
