//! The capabilities of the server.

use std::sync::Arc;

use cloakwork_circuit::wire::operation::Kind;
use cloakwork_params::{AnySet, Encoding, Layout, ObjectKind, ParameterSet, ckks::CkksSet, envelope::DIMENSIONS};
use cloakwork_proto::v1::{
    GetCapabilitiesRequest, GetCapabilitiesResponse, Limit, ParameterSet as Described, Pool, PreferredWave,
    capability_service_server::CapabilityService,
};
use tonic::{Request, Response, Status};

use crate::{
    admit::check_computes,
    caller::Caller,
    dispatch::{Dispatcher, PoolView},
    installation::Installation,
    limits::Limits,
};

/// The capability service.
#[derive(Clone)]
pub struct Capabilities {
    /// The dispatcher, for its view of the workers.
    pub dispatcher: Dispatcher,
    /// Limits.
    pub limits: Arc<Limits>,
    /// The installation, whose public keys clients may compare.
    pub installation: Arc<Installation>,
    /// Whether weak parameter sets are served.
    pub allow_weak_sets: bool,
    /// Percentage of rows that are computed a second time.
    pub verify_percent: u64,
}

#[tonic::async_trait]
impl CapabilityService for Capabilities {
    async fn get_capabilities(
        &self,
        request: Request<GetCapabilitiesRequest>,
    ) -> Result<Response<GetCapabilitiesResponse>, Status> {
        let caller = Caller::of(&request)?;
        let limits = self.limits.values().map(|(limit, value)| Limit {
            name: limit.name.to_owned(),
            value,
            unit: limit.unit.to_owned(),
            meaning: limit.meaning.to_owned(),
        });
        let pools = self.dispatcher.pools();
        let sets = AnySet::all().filter(|set| check_computes(*set, self.allow_weak_sets).is_ok());
        Ok(Response::new(GetCapabilitiesResponse {
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            tenant: caller.tenant.to_string(),
            limits: limits.collect(),
            parameter_sets: sets.map(describe).collect(),
            operations: operations().map(|kind| kind.as_str_name().to_owned()).collect(),
            pools: pools.iter().map(|view| pool(view, self.allow_weak_sets, self.verify_percent)).collect(),
            installation_keys: self.installation.anchor().keys().iter().map(ToString::to_string).collect(),
        }))
    }
}

/// The operations that programs may use: every operation of the protocol.
fn operations() -> impl Iterator<Item = Kind> {
    (1..=OPERATION_KINDS_END).filter_map(|number| Kind::try_from(number).ok())
}

/// A bound above the number of every operation.
const OPERATION_KINDS_END: i32 = 1 << 10;

fn describe(set: AnySet) -> Described {
    let described = match set {
        AnySet::Tfhe(set) => describe_tfhe(set),
        AnySet::Ckks(set) => describe_ckks(set),
    };
    let weakness = set.standing().weakness().unwrap_or_default().to_owned();
    Described { name: set.name().to_owned(), id: u32::from(set.id().0), weakness, ..described }
}

fn describe_ckks(set: &CkksSet) -> Described {
    Described {
        security_log2: set.security.log2.min(set.bootstrap.sparse_security_log2),
        failure_log2: set.failure_log2(),
        slots: set.slots() as u32,
        working_level: set.working_level as u32,
        ..Default::default()
    }
}

fn describe_tfhe(set: &ParameterSet) -> Described {
    let (message_modulus, carry_modulus) = match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => (message_modulus as u32, carry_modulus as u32),
        Encoding::Boolean => (0, 0),
    };
    let bytes = |kind| Layout::of(kind, set, &[0; DIMENSIONS]).map_or(0, |layout| layout.payload_len);
    let security = set.security.glwe_log2.map_or(set.security.lwe_log2, |big| big.min(set.security.lwe_log2));
    Described {
        security_log2: security,
        failure_log2: set.failure.computed_log2,
        message_modulus,
        carry_modulus,
        bootstrap_key_bytes: bytes(ObjectKind::SeededBootstrapKey),
        key_switch_key_bytes: bytes(ObjectKind::SeededKeySwitchKey),
        ..Default::default()
    }
}

/// Describes a pool. Its waves are limited to sets that jobs may use here, because devices also
/// measure toy sets.
fn pool(pool: &PoolView, allow_weak_sets: bool, verify_percent: u64) -> Pool {
    let offered = |name: &str| AnySet::by_name(name).is_some_and(|set| check_computes(set, allow_weak_sets).is_ok());
    let waves = pool.waves.iter().filter(|wave| offered(&wave.parameter_set)).map(|wave| PreferredWave {
        parameter_set: wave.parameter_set.clone(),
        width: wave.width,
        micros: wave.micros,
    });
    Pool {
        kind: pool.kind.clone(),
        workers: u32::try_from(pool.workers).unwrap_or(u32::MAX),
        waves: waves.collect(),
        verify_percent: u32::try_from(verify_percent).unwrap_or(u32::MAX),
        verifiable: pool.verifiable,
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::{set::Standing, table};
    use cloakwork_proto::v1::DeviceWave;

    use super::*;

    #[test]
    fn pools_show_no_set_that_is_not_served() {
        let first = |standing| table::SETS.iter().find(|set| set.standing == standing).unwrap();
        let (toy, good) = (first(Standing::Toy), first(Standing::Served));
        let wave = |name: &str| DeviceWave { parameter_set: name.to_owned(), width: 1, micros: 1 };
        let view = PoolView {
            kind: "cpu".to_owned(),
            workers: 0,
            waves: vec![wave(toy.name), wave(good.name), wave("NONE")],
            resident: Vec::new(),
            resident_keys: 0,
            resident_bytes: 0,
            verifiable: true,
        };
        let shown = |allow_weak| {
            let waves = pool(&view, allow_weak, 5).waves;
            waves.into_iter().map(|wave| wave.parameter_set).collect::<Vec<_>>()
        };
        assert_eq!(shown(false), [good.name]);
        assert_eq!(shown(true), [toy.name, good.name]);
    }
}
