//! A client's side of a device: keys as a source, and ciphertexts that are written, computed and
//! read back.

use std::{
    io::{self, Read},
    time::{Duration, Instant},
};

use cloakwork_device::{Arena, Device, DeviceError, KeySlot, KeySource, LutSlot, Wave, WorkStats};
use cloakwork_device::{HostLut, Words, WordsMut};
use cloakwork_math::Torus;
use cloakwork_params::{KeyId, ParameterSet, table};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tfhe::{Lut, LweList, format::encode};

/// Time after which a wave counts as hung.
const WAVE_TIMEOUT: Duration = Duration::from_secs(120);

/// A client key, and the encoded parts of its evaluation key.
pub struct Keys {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// The secret key.
    pub client: ClientKey,
    /// The client's randomness, repeatable.
    pub randomness: Randomness,
    /// Envelopes: key-switch key, bootstrap key.
    pub parts: Vec<Vec<u8>>,
}

impl Keys {
    /// Generates keys for the set named `name`. Each seed gives other keys.
    pub fn generate<T: Torus, S: Torus>(name: &str, seed: u64) -> Self {
        let set = table::by_name(name).expect("a set of that name");
        let mut randomness = Randomness::insecure_for_tests(seed);
        let client = ClientKey::generate(set, &mut randomness).expect("a key");
        let parts = parts::<T, S>(&client, set, &mut randomness);
        Self { set, client, randomness, parts }
    }

    /// Adds a set to the client key. Returns the encoded parts of the set's evaluation key.
    pub fn add<T: Torus, S: Torus>(&mut self, set: &'static ParameterSet) -> Vec<Vec<u8>> {
        self.client.add(set, &mut self.randomness).expect("a set of the same ciphertexts");
        parts::<T, S>(&self.client, set, &mut self.randomness)
    }

    /// Encrypts messages.
    pub fn encrypt<T: Torus>(&mut self, messages: &[u64]) -> LweList<T> {
        self.client.encrypt(self.set, messages, &mut self.randomness).expect("ciphertexts")
    }

    /// Decrypts to messages.
    pub fn decrypt<T: Torus>(&self, list: &LweList<T>) -> Vec<u64> {
        self.client.decrypt(self.set, list).expect("messages")
    }
}

fn parts<T: Torus, S: Torus>(
    client: &ClientKey,
    set: &'static ParameterSet,
    randomness: &mut Randomness,
) -> Vec<Vec<u8>> {
    let generator = KeyGenerator::new(client, set).expect("a generator").on_threads(2);
    let (mut switch, mut bootstrap) = (Vec::new(), Vec::new());
    let key_switch = generator.key_switch_key::<S>(randomness).expect("a key-switch key");
    encode(&key_switch, set, client.key_id(), &mut switch).expect("a part");
    let bootstrap_key = generator.bootstrap_key::<T>(randomness).expect("a bootstrap key");
    encode(&bootstrap_key, set, client.key_id(), &mut bootstrap).expect("a part");
    vec![switch, bootstrap]
}

impl KeySource for Keys {
    fn set(&self) -> &'static ParameterSet {
        self.set
    }

    fn key_id(&self) -> KeyId {
        self.client.key_id()
    }

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn open(&self, part: usize) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(&self.parts[part][..]))
    }
}

/// A word of a ciphertext in the host's memory.
pub trait Word: Torus {
    /// Words that a device reads.
    fn words(words: &[Self]) -> Words<'_>;
    /// Words that a device writes.
    fn words_mut(words: &mut [Self]) -> WordsMut<'_>;
    /// A table for a device.
    fn lut(lut: &Lut<Self>) -> HostLut<'_>;
}

impl Word for u32 {
    fn words(words: &[Self]) -> Words<'_> {
        Words::U32(words)
    }
    fn words_mut(words: &mut [Self]) -> WordsMut<'_> {
        WordsMut::U32(words)
    }
    fn lut(lut: &Lut<Self>) -> HostLut<'_> {
        HostLut::U32(lut)
    }
}

impl Word for u64 {
    fn words(words: &[Self]) -> Words<'_> {
        Words::U64(words)
    }
    fn words_mut(words: &mut [Self]) -> WordsMut<'_> {
        WordsMut::U64(words)
    }
    fn lut(lut: &Lut<Self>) -> HostLut<'_> {
        HostLut::U64(lut)
    }
}

/// A device with a key and an arena.
pub struct Bench<'d> {
    /// The device.
    pub device: &'d dyn Device,
    /// The key on it.
    pub key: KeySlot,
    /// The arena.
    pub arena: Arena,
    /// The set of both.
    pub set: &'static ParameterSet,
}

impl<'d> Bench<'d> {
    /// Loads the key and creates an arena of about `slots` slots.
    pub fn new(device: &'d dyn Device, keys: &Keys, slots: u64) -> Self {
        let key = device.load_key(keys).expect("a key that fits");
        assert_eq!(key.bytes, device.key_bytes(keys.set), "what a key takes is known before");
        let bytes = (keys.set.input_dimension() as u64 + 1) * 8 + 256;
        let arena = device.create_arena(keys.set, slots * bytes).expect("an arena");
        Self { device, key, arena, set: keys.set }
    }

    /// Loads a table.
    pub fn lut<T: Word>(&self, lut: &Lut<T>) -> LutSlot {
        self.device.load_lut(self.set, T::lut(lut)).expect("a table that fits")
    }

    /// Writes ciphertexts to the slots from `first` on.
    pub fn write<T: Word>(&self, first: u32, list: &LweList<T>) {
        let slots: Vec<u32> = (first..first + list.len() as u32).collect();
        self.device.write(self.arena, &slots, T::words(list.words())).expect("slots that are free");
    }

    /// Fills slots with a pattern that no result equals.
    pub fn poison<T: Word>(&self, slots: &[u32]) -> LweList<T> {
        let mut list = LweList::zeros(self.set.input_dimension(), slots.len());
        list.words_mut().fill(T::from_u64(0xdead_beef_dead_beef));
        self.device.write(self.arena, slots, T::words(list.words())).expect("slots that are free");
        list
    }

    /// Submits a wave and waits for its end.
    pub fn run(&self, wave: Wave) -> Result<WorkStats, DeviceError> {
        let ticket = self.device.submit(self.key, self.arena, wave)?;
        self.device.wait(ticket, Instant::now() + WAVE_TIMEOUT)
    }

    /// Reads slots.
    pub fn read<T: Word>(&self, slots: &[u32]) -> LweList<T> {
        let mut list = LweList::zeros(self.set.input_dimension(), slots.len());
        self.device.read(self.arena, slots, T::words_mut(list.words_mut())).expect("slots that were written");
        list
    }
}
