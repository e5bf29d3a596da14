//! The jobs that tenants offer.

use cloakwork_params::{KeyId, SetId};

use crate::sim::random::Random;
use crate::types::{Group, TenantId};

/// Keys of each tenant.
pub(super) const KEYS: usize = 3;

/// Draws tenants and their keys by Zipf's law with the exponent 1.
pub(super) struct Demand {
    tenants: Vec<f64>,
    keys: Vec<f64>,
}

impl Demand {
    pub(super) fn new(tenants: usize) -> Self {
        Self { tenants: sums(tenants), keys: sums(KEYS) }
    }

    pub(super) fn group(&self, random: &mut Random) -> Group {
        let tenant = draw(&self.tenants, random);
        self::group(tenant, draw(&self.keys, random))
    }

    /// The part of all jobs that has this key.
    pub(super) fn part(&self, tenant: usize, key: usize) -> f64 {
        let part = |sums: &[f64], index: usize| 1.0 / (index + 1) as f64 / sums[sums.len() - 1];
        part(&self.tenants, tenant) * part(&self.keys, key)
    }
}

pub(super) fn group(tenant: usize, key: usize) -> Group {
    let number = (tenant * KEYS + key) as u128;
    Group { tenant: TenantId(tenant as u64), key: KeyId(number.to_be_bytes()), set: SetId(1) }
}

fn sums(count: usize) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=count)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect()
}

fn draw(sums: &[f64], random: &mut Random) -> usize {
    let at = (random.next() >> 11) as f64 / (1_u64 << 53) as f64 * sums[sums.len() - 1];
    sums.partition_point(|sum| *sum <= at).min(sums.len() - 1)
}
