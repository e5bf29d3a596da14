//! Keys: manifests of blobs that were made under one client key.

use cloakwork_params::{
    AnySet, KeyId, ObjectKind, ParameterSet, SetId,
    ckks::{
        CkksSet,
        layout::{KeyShape, Purpose},
    },
    table::companion_of,
};

use crate::{
    Digest, Error, Keystore, RequestId, TenantId,
    catalogue::{Connection, blobs, blobs::BlobRow, keys, keys::KeyRow, pins, requests},
    detached::to_the_end,
    verify::{PART_ORDER, is_evaluation_key},
};

/// Uses that a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// New jobs may use the key.
    Active,
    /// No job may use the key until its damaged part is uploaded again.
    Quarantined,
    /// Only existing jobs may use the key.
    Deleting,
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPart {
    /// Digest of the part's blob.
    pub digest: Digest,
    /// Kind of the part.
    pub kind: ObjectKind,
    /// Parameter set of the part.
    pub set: AnySet,
    /// For a part of a CKKS key: its purpose and its highest level.
    pub shape: Option<KeyShape>,
}

/// A key and its parts. The parts are sorted by parameter set. TFHE parts then follow the order in
/// which a computation needs them: key switch, bootstrap, packing, decompression. CKKS parts are
/// sorted by purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyInfo {
    /// Client key under which all parts were made; the key's name.
    pub key_id: KeyId,
    /// Uses that the key allows.
    pub state: KeyState,
    /// Parts of the key.
    pub parts: Vec<KeyPart>,
    /// Unix time of the registration, in microseconds.
    pub created_micros: i64,
}

/// A page of a tenant's keys, in the order of their ids.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPage {
    /// The keys.
    pub keys: Vec<KeyInfo>,
    /// Id after which the next page begins, if there is a next page.
    pub next: Option<KeyId>,
}

impl KeyInfo {
    /// Parameter sets for which the key can serve jobs. A TFHE set needs a key-switch key and a
    /// bootstrap key. For a CKKS set, the program decides which parts are enough, so any part that
    /// computations use qualifies the set.
    pub fn complete_sets(&self) -> Vec<AnySet> {
        let has = |set: AnySet, kind| self.parts.iter().any(|part| part.set == set && part.kind == kind);
        let mut sets: Vec<AnySet> = self.parts.iter().map(|part| part.set).collect();
        // Parts are sorted by their sets.
        sets.dedup();
        let needed = [ObjectKind::SeededKeySwitchKey, ObjectKind::SeededBootstrapKey];
        sets.retain(|set| match set.ckks() {
            Some(_) => has(*set, ObjectKind::SeededCkksSwitchKey),
            None => needed.into_iter().all(|kind| has(*set, kind)),
        });
        sets
    }

    /// The two parts that bootstraps of `set` need, in the order of [`KeyInfo::parts`].
    pub fn parts_for(&self, set: &ParameterSet) -> Result<Vec<Digest>, Error> {
        let needed = [ObjectKind::SeededKeySwitchKey, ObjectKind::SeededBootstrapKey];
        let parts = self.parts.iter().filter(|part| part.set.id() == set.id && needed.contains(&part.kind));
        let parts: Vec<Digest> = parts.map(|part| part.digest).collect();
        let incomplete = || Error::KeyIncomplete { key_id: self.key_id, set: set.name };
        if parts.len() == needed.len() { Ok(parts) } else { Err(incomplete()) }
    }

    /// The two parts that bootstraps of the set's companion need, or nothing if the key lacks
    /// either.
    pub fn companion_parts_for(&self, set: &ParameterSet) -> Vec<Digest> {
        companion_of(set).and_then(|companion| self.parts_for(companion.set).ok()).unwrap_or_default()
    }

    /// Shape and digest of each key for CKKS vectors under `set`.
    pub fn vector_parts(&self, set: &CkksSet) -> Vec<(KeyShape, Digest)> {
        let parts = self.parts.iter().filter(|part| part.set.id() == set.id);
        parts.filter_map(|part| Some((part.shape?, part.digest))).collect()
    }
}

impl Keystore {
    /// Registers a key made of uploaded blobs. The key id in the blobs is the key's name. If the
    /// tenant already has the key, the parts are added to it.
    pub async fn register_key(
        &self,
        tenant: &TenantId,
        request_id: &RequestId,
        parts: &[Digest],
    ) -> Result<KeyInfo, Error> {
        self.join_parts(tenant, request_id, None, parts).await
    }

    /// Adds parts to an existing key, for example parts of another parameter set.
    pub async fn add_parts(
        &self,
        tenant: &TenantId,
        request_id: &RequestId,
        key_id: KeyId,
        parts: &[Digest],
    ) -> Result<KeyInfo, Error> {
        self.join_parts(tenant, request_id, Some(key_id), parts).await
    }

    /// Looks up a key.
    pub async fn key(&self, tenant: &TenantId, key_id: KeyId) -> Result<KeyInfo, Error> {
        let ask = async {
            let mut sql = self.reader(tenant.asker()).await?;
            let row = keys::find(&mut sql, tenant, key_id).await?.ok_or(Error::KeyNotFound { key_id })?;
            describe(&mut sql, tenant, row).await
        };
        self.known_keys().get(self.database(), (tenant, key_id), ask).await
    }

    /// Lists the tenant's keys after `after`. A page has at most `page_keys` keys, capped at the
    /// limit; 0 asks for the limit.
    pub async fn list_keys(&self, tenant: &TenantId, after: Option<KeyId>, page_keys: u32) -> Result<KeyPage, Error> {
        let wanted = self.page_entries(page_keys);
        let mut sql = self.reader(tenant.asker()).await?;
        let mut keys = Vec::new();
        let mut next = None;
        for row in keys::page(&mut sql, tenant, after, wanted.saturating_add(1)).await? {
            if keys.len() == wanted as usize {
                next = keys.last().map(|key: &KeyInfo| key.key_id);
                break;
            }
            keys.push(describe(&mut sql, tenant, row).await?);
        }
        Ok(KeyPage { keys, next })
    }

    /// Looks up a key for a new job. Returns an error unless the key is active.
    pub async fn active_key(&self, tenant: &TenantId, key_id: KeyId) -> Result<KeyInfo, Error> {
        let key = self.key(tenant, key_id).await?;
        match key.state {
            KeyState::Active => Ok(key),
            KeyState::Quarantined => Err(Error::KeyQuarantined { key_id }),
            KeyState::Deleting => Err(Error::KeyDeleting { key_id }),
        }
    }

    /// Refuses new jobs of a key from now on. [`Keystore::purge_key`] removes the key after its
    /// last job.
    pub async fn delete_key(&self, tenant: &TenantId, key_id: KeyId) -> Result<KeyInfo, Error> {
        let mut tx = self.write(tenant).await?;
        let row = keys::find(&mut tx, tenant, key_id).await?.ok_or(Error::KeyNotFound { key_id })?;
        keys::start_deleting(&mut tx, tenant, key_id).await?;
        let key = describe(&mut tx, tenant, KeyRow { deleting: true, ..row }).await?;
        tx.commit().await?;
        Ok(key)
    }

    /// Removes a key that is being deleted, with its parts. Refused while a job pins a part.
    pub async fn purge_key(&self, tenant: &TenantId, key_id: KeyId) -> Result<(), Error> {
        let mut tx = self.write(tenant).await?;
        let row = keys::find(&mut tx, tenant, key_id).await?.ok_or(Error::KeyNotFound { key_id })?;
        let parts = blobs::of_key(&mut tx, tenant, key_id).await?;
        let mut in_use = !row.deleting;
        for part in &parts {
            in_use |= pins::pinned(&mut tx, tenant, &part.digest, self.now_micros()).await?;
        }
        if in_use {
            return Err(Error::KeyInUse { key_id });
        }
        keys::remove(&mut tx, tenant, key_id).await?;
        for part in &parts {
            blobs::remove(&mut tx, tenant, &part.digest, true).await?;
        }
        let removed: Vec<_> = parts.iter().map(|part| part.object(tenant)).collect();
        let keystore = self.clone();
        to_the_end(async move {
            tx.commit().await?;
            keystore.remove_bytes(&removed).await
        })
        .await
    }

    /// Quarantines a key because the bytes of a part are damaged. Uploading the correct bytes again
    /// ends the quarantine.
    pub async fn quarantine(&self, tenant: &TenantId, key_id: KeyId, digest: &Digest) -> Result<(), Error> {
        let key = self.key(tenant, key_id).await?;
        if !key.parts.iter().any(|part| part.digest == *digest) {
            return Err(Error::BlobNotFound { digest: *digest });
        }
        self.condemn(tenant, digest).await
    }

    async fn join_parts(
        &self,
        tenant: &TenantId,
        request_id: &RequestId,
        wanted: Option<KeyId>,
        digests: &[Digest],
    ) -> Result<KeyInfo, Error> {
        let now_micros = self.now_micros();
        let mut tx = self.write(tenant).await?;
        let (content, most) = (request_hash(wanted, digests), self.limits().request_ids_per_tenant);
        requests::claim(&mut tx, tenant, request_id, &content, now_micros, most).await?;
        let mut parts = Vec::new();
        for digest in digests.iter().take(self.limits().parts_per_key as usize + 1) {
            match blobs::find(&mut tx, tenant, digest).await? {
                Some(blob) if !blob.damaged => parts.push(blob),
                Some(_) => return Err(Error::BlobDamaged { digest: *digest }),
                None => return Err(Error::BlobNotFound { digest: *digest }),
            }
        }
        let key_id = common_key(wanted, &parts)?;
        let row = match keys::find(&mut tx, tenant, key_id).await? {
            Some(row) if row.deleting => return Err(Error::KeyDeleting { key_id }),
            Some(row) => row,
            None if wanted.is_some() => return Err(Error::KeyNotFound { key_id }),
            None => self.new_key(&mut tx, tenant, key_id, now_micros).await?,
        };
        for part in &parts {
            keys::insert_part(&mut tx, tenant, key_id, &part.digest).await?;
        }
        let key = describe(&mut tx, tenant, row).await?;
        check_parts(&key, self.limits().parts_per_key)?;
        tx.commit().await?;
        Ok(key)
    }

    async fn new_key(
        &self,
        sql: &mut Connection,
        tenant: &TenantId,
        key_id: KeyId,
        created_micros: i64,
    ) -> Result<KeyRow, Error> {
        let (got, limit) = (keys::count(sql, tenant).await? + 1, self.keys_max(tenant));
        if got > limit {
            return Err(Error::QuotaExceeded { what: "keys of the tenant", limit, got });
        }
        keys::insert(sql, tenant, key_id, created_micros).await?;
        Ok(KeyRow { key_id, deleting: false, created_micros })
    }
}

/// The single client key under which all parts were made.
fn common_key(wanted: Option<KeyId>, parts: &[BlobRow]) -> Result<KeyId, Error> {
    let differ = |why: String| Error::KeyPartsDiffer { why };
    let first = parts.first().ok_or_else(|| differ("a key needs at least one part".to_owned()))?;
    let key_id = wanted.unwrap_or(first.content.key_id);
    for part in parts {
        let (kind, got) = (part.content.kind, part.content.key_id);
        if !is_evaluation_key(kind) {
            return Err(differ(format!("blob {} is a {kind}, not an evaluation key", part.digest)));
        }
        if got != key_id {
            return Err(differ(format!("expected parts under key id {key_id}, got one under {got}")));
        }
    }
    Ok(key_id)
}

/// Checks the number of parts, and that no two parts compete. A parameter set may have one part of
/// a kind, and a CKKS set one part for each purpose. With two parts, the choice between them would
/// be ambiguous.
fn check_parts(key: &KeyInfo, limit: u32) -> Result<(), Error> {
    if key.parts.len() > limit as usize {
        let (limit, got) = (limit.into(), key.parts.len() as u64);
        return Err(Error::QuotaExceeded { what: "parts of a key", limit, got });
    }
    match key.parts.windows(2).find(|two| place(&two[0]) == place(&two[1])) {
        None => Ok(()),
        Some(two) => {
            let (kind, set) = (two[0].kind, two[0].set.name());
            let purpose = two[0].shape.map(|shape| format!(" ({})", shape.purpose)).unwrap_or_default();
            let why = format!("there would be two different parts '{kind}'{purpose} for {set}");
            Err(Error::KeyPartsDiffer { why })
        }
    }
}

/// Sort position of a part among a key's parts. No two parts of a valid key share a position.
fn place(part: &KeyPart) -> (SetId, Option<usize>, Option<Purpose>) {
    let kind = PART_ORDER.iter().position(|kind| *kind == part.kind);
    (part.set.id(), kind, part.shape.map(|shape| shape.purpose))
}

async fn describe(sql: &mut Connection, tenant: &TenantId, row: KeyRow) -> Result<KeyInfo, Error> {
    let blobs = blobs::of_key(sql, tenant, row.key_id).await?;
    let state = match blobs.iter().any(|blob| blob.damaged) {
        _ if row.deleting => KeyState::Deleting,
        true => KeyState::Quarantined,
        false => KeyState::Active,
    };
    let part = |blob: BlobRow| KeyPart {
        digest: blob.digest,
        kind: blob.content.kind,
        set: blob.content.set,
        shape: blob.content.key_shape(),
    };
    let mut parts: Vec<KeyPart> = blobs.into_iter().map(part).collect();
    parts.sort_by_key(place);
    Ok(KeyInfo { key_id: row.key_id, state, parts, created_micros: row.created_micros })
}

fn request_hash(wanted: Option<KeyId>, digests: &[Digest]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(match wanted {
        None => b"register key",
        Some(_) => b"add key part",
    });
    hasher.update(&wanted.unwrap_or(KeyId::NONE).0);
    for digest in digests {
        hasher.update(&digest.blake3).update(&digest.size_bytes.to_le_bytes());
    }
    hasher.finalize()
}
