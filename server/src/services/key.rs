//! The key service: evaluation keys.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use cloakwork_keystore::{KeyInfo, KeyState, Keystore};
use cloakwork_params::{
    KeyId,
    ckks::layout::{KeyShape, Purpose},
};
use cloakwork_proto::v1::{
    self, AddPartRequest, AddPartResponse, CkksKeyPart, CkksPurpose, DeleteKeyRequest, DeleteKeyResponse,
    GetKeyRequest, GetKeyResponse, Key, KeyPart, ListKeysRequest, ListKeysResponse, RegisterKeyRequest,
    RegisterKeyResponse, key_service_server::KeyService,
};
use tonic::{Request, Response, Status};

use crate::{
    caller::Caller,
    digest,
    dispatch::Dispatcher,
    error::{ApiError, PAGE_TOKEN_INVALID},
    jobs::{group_bytes, timestamp},
    keys::KeyUses,
    limits::Limits,
    page,
    resource::{self, KeyName},
    store::Store,
};

/// The key service.
#[derive(Clone)]
pub struct Keys {
    /// The key store, which keeps the keys.
    pub keystore: Keystore,
    /// The store, for jobs that use a key.
    pub store: Store,
    /// The keys that jobs being submitted use.
    pub uses: KeyUses,
    /// The dispatcher, for the workers on which a key is resident.
    pub dispatcher: Dispatcher,
    /// Limits.
    pub limits: Arc<Limits>,
}

#[tonic::async_trait]
impl KeyService for Keys {
    async fn register_key(
        &self,
        request: Request<RegisterKeyRequest>,
    ) -> Result<Response<RegisterKeyResponse>, Status> {
        let caller = Caller::of(&request)?;
        let RegisterKeyRequest { request_id, parts } = request.into_inner();
        let request_id = resource::request_id(&request_id)?.into_bytes();
        let parts = digest::parse_all(parts, "parts")?;
        let key = self.keystore.register_key(&caller.tenant, &request_id, &parts).await.map_err(ApiError::from)?;
        Ok(Response::new(RegisterKeyResponse { key: Some(self.key(&caller, &key)) }))
    }

    async fn add_part(&self, request: Request<AddPartRequest>) -> Result<Response<AddPartResponse>, Status> {
        let caller = Caller::of(&request)?;
        let AddPartRequest { request_id, name, parts } = request.into_inner();
        let request_id = resource::request_id(&request_id)?.into_bytes();
        let key_id = key_id(&caller, &name)?;
        let parts = digest::parse_all(parts, "parts")?;
        let key = self.keystore.add_parts(&caller.tenant, &request_id, key_id, &parts).await.map_err(ApiError::from)?;
        Ok(Response::new(AddPartResponse { key: Some(self.key(&caller, &key)) }))
    }

    async fn get_key(&self, request: Request<GetKeyRequest>) -> Result<Response<GetKeyResponse>, Status> {
        let caller = Caller::of(&request)?;
        let key_id = key_id(&caller, &request.get_ref().name)?;
        let key = self.keystore.key(&caller.tenant, key_id).await.map_err(ApiError::from)?;
        Ok(Response::new(GetKeyResponse { key: Some(self.key(&caller, &key)) }))
    }

    async fn list_keys(&self, request: Request<ListKeysRequest>) -> Result<Response<ListKeysResponse>, Status> {
        let caller = Caller::of(&request)?;
        let ListKeysRequest { page_size, page_token } = request.get_ref();
        let count = page::size(*page_size, self.limits.page_size)?;
        let listing = format!("tenants/{}/keys", caller.tenant);
        let after = page::position(&listing, page_token)?.as_deref().map(position).transpose()?;
        let page = self.keystore.list_keys(&caller.tenant, after, count).await.map_err(ApiError::from)?;
        Ok(Response::new(ListKeysResponse {
            keys: page.keys.iter().map(|key| self.key(&caller, key)).collect(),
            next_page_token: page.next.map(|key| page::token(&listing, &key.0)).unwrap_or_default(),
        }))
    }

    async fn delete_key(&self, request: Request<DeleteKeyRequest>) -> Result<Response<DeleteKeyResponse>, Status> {
        let caller = Caller::of(&request)?;
        let key_id = key_id(&caller, &request.get_ref().name)?;
        let key = self.keystore.delete_key(&caller.tenant, key_id).await.map_err(ApiError::from)?;
        // If live jobs or jobs being submitted use the key, the sweep purges it after the last of
        // them has ended.
        self.dispatcher.settled().await?;
        self.uses.purge(&self.store, &self.keystore, &caller.tenant, key_id).await?;
        Ok(Response::new(DeleteKeyResponse { key: Some(self.key(&caller, &key)) }))
    }
}

impl Keys {
    fn key(&self, caller: &Caller, key: &KeyInfo) -> Key {
        let pools = self.dispatcher.pools();
        // The group includes the tenant, because another tenant's key may have an equal ID.
        let sets = key.complete_sets();
        let groups: Vec<Bytes> = sets.iter().map(|set| group_bytes(caller.tenant.as_str(), key.key_id, *set)).collect();
        let resident = pools.iter().flat_map(|pool| &pool.resident).filter(|(group, _)| groups.contains(group));
        let state = match key.state {
            KeyState::Active => v1::KeyState::Active,
            KeyState::Quarantined => v1::KeyState::Quarantined,
            KeyState::Deleting => v1::KeyState::Deleting,
        };
        Key {
            name: format!("tenants/{}/keys/{}", caller.tenant, key.key_id),
            key_id: Bytes::copy_from_slice(&key.key_id.0),
            state: state.into(),
            parts: key.parts.iter().map(part).collect(),
            parameter_sets: sets.iter().map(|set| set.name().to_owned()).collect(),
            create_time: Some(timestamp(key.created_micros)),
            resident_workers: resident
                .map(|(_, worker)| worker.to_string())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        }
    }
}

fn part(part: &cloakwork_keystore::KeyPart) -> KeyPart {
    KeyPart {
        digest: Some(digest::to_proto(&part.digest)),
        kind: part.kind.to_string(),
        parameter_set: part.set.name().to_owned(),
        ckks: part.shape.map(ckks_part),
    }
}

fn ckks_part(shape: KeyShape) -> CkksKeyPart {
    let (purpose, power) = match shape.purpose {
        Purpose::Relinearization => (CkksPurpose::Relinearization, 0),
        Purpose::Move { power } => (CkksPurpose::Move, power),
        Purpose::ToSparse => (CkksPurpose::ToSparse, 0),
        Purpose::ToDense => (CkksPurpose::ToDense, 0),
    };
    // Both numbers are far below 2^32: a header holds each of them in 32 bits.
    CkksKeyPart { purpose: purpose.into(), power: power as u32, level: shape.level as u32 }
}

fn key_id(caller: &Caller, name: &str) -> Result<KeyId, ApiError> {
    Ok(KeyId(KeyName::parse_own(name, &caller.principal)?.key_id))
}

/// The position at which a page begins.
fn position(bytes: &[u8]) -> Result<KeyId, ApiError> {
    let bytes = bytes.try_into().map_err(|_| PAGE_TOKEN_INVALID.error("page_token was not issued for this listing"))?;
    Ok(KeyId(bytes))
}
