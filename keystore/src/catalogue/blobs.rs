//! Rows of committed blobs, and sums over these rows.

use std::{collections::BTreeMap, sync::LazyLock};

use cloakwork_params::{AnySet, KeyId, ObjectKind, SetId, envelope::Dimensions};
use cloakwork_storage::{Batch, Row};

use super::{Connection, from_sql, to_sql, uploads};
use crate::{
    Digest, Error, TenantId, UploadId, of_shard,
    store::Object,
    verify::{self, Content},
};

/// A blob's row in the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct BlobRow {
    pub(crate) digest: Digest,
    /// Generation of the object that has the bytes.
    pub(crate) generation: i64,
    pub(crate) content: Content,
    pub(crate) damaged: bool,
    pub(crate) created_micros: i64,
    pub(crate) touched_micros: i64,
}

impl BlobRow {
    /// The object that has the bytes.
    pub(crate) fn object(&self, tenant: &TenantId) -> Object {
        Object::new(tenant, &self.digest, self.generation)
    }
}

/// Finds the blob, damaged or not. A digest of another size names another blob, which does not
/// exist.
pub(crate) async fn find(sql: &mut Connection, tenant: &TenantId, digest: &Digest) -> Result<Option<BlobRow>, Error> {
    let row = sql
        .query("SELECT * FROM blobs WHERE tenant = $1 AND digest = $2 AND size_bytes = $3")
        .bind(tenant.as_str())
        .bind(&digest.blake3[..])
        .bind(to_sql(digest.size_bytes))
        .optional()
        .await?;
    row.as_ref().map(read).transpose()
}

/// Finds the blob, or returns an error if it is missing or damaged.
pub(crate) async fn good(sql: &mut Connection, tenant: &TenantId, digest: &Digest) -> Result<BlobRow, Error> {
    match find(sql, tenant, digest).await? {
        None => Err(Error::BlobNotFound { digest: *digest }),
        Some(blob) if blob.damaged => Err(Error::BlobDamaged { digest: *digest }),
        Some(blob) => Ok(blob),
    }
}

/// Finds the blob of this hash, damaged or not. The hash alone identifies a blob; a caller that
/// must also match the size uses `find`.
pub(crate) async fn named(
    sql: &mut Connection,
    tenant: &TenantId,
    blake3: &[u8; 32],
) -> Result<Option<BlobRow>, Error> {
    let row = sql
        .query("SELECT * FROM blobs WHERE tenant = $1 AND digest = $2")
        .bind(tenant.as_str())
        .bind(&blake3[..])
        .optional()
        .await?;
    row.as_ref().map(read).transpose()
}

/// Finds the blobs that are parts of a key.
pub(crate) async fn of_key(sql: &mut Connection, tenant: &TenantId, key: KeyId) -> Result<Vec<BlobRow>, Error> {
    let rows = sql.query(
        "SELECT blobs.* FROM blobs JOIN key_parts ON key_parts.tenant = blobs.tenant AND key_parts.digest = blobs.digest
         WHERE key_parts.tenant = $1 AND key_parts.key_id = $2 ORDER BY blobs.digest",
    )
    .bind(tenant.as_str())
    .bind(&key.0[..])
    .all()
    .await?;
    rows.iter().map(read).collect()
}

/// At most `most` blobs of all tenants, in the order of tenant and hash, after those of `after`.
pub(crate) async fn page(
    sql: &mut Connection,
    (tenant, blake3): (&str, &[u8]),
    most: u32,
) -> Result<Vec<(TenantId, BlobRow)>, Error> {
    let rows = sql
        .query("SELECT * FROM blobs WHERE (tenant, digest) > ($1, $2) ORDER BY tenant, digest LIMIT $3")
        .bind(tenant)
        .bind(blake3)
        .bind(most)
        .all()
        .await?;
    rows.iter().map(|row| Ok((TenantId::new(row.text("tenant")?)?, read(row)?))).collect()
}

/// At most `most` blobs of a tenant.
pub(crate) async fn of_tenant(sql: &mut Connection, tenant: &TenantId, most: u32) -> Result<Vec<BlobRow>, Error> {
    let query = sql.query("SELECT * FROM blobs WHERE tenant = $1 LIMIT $2").bind(tenant.as_str()).bind(most);
    query.all().await?.iter().map(read).collect()
}

/// Whether a row names the object.
pub(crate) async fn lists(sql: &mut Connection, object: &Object) -> Result<bool, Error> {
    let found = sql
        .query("SELECT 1 FROM blobs WHERE tenant = $1 AND digest = $2 AND generation = $3")
        .bind(object.tenant.as_str())
        .bind(&object.blake3[..])
        .bind(object.generation)
        .optional()
        .await?;
    Ok(found.is_some())
}

/// Adds a blob that is not yet in the catalogue.
pub(crate) async fn insert(
    sql: &mut Connection,
    object: &Object,
    size_bytes: u64,
    content: &Content,
    now_micros: i64,
    keep_until_micros: i64,
) -> Result<(), Error> {
    let is_key = verify::is_key(content.kind);
    sql.query(
        "INSERT INTO blobs (tenant, digest, size_bytes, kind, set_id, key_id, count, degree_max, noise_level_max,
            is_key, damaged, created_micros, touched_micros, keep_until_micros, dimensions, generation)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $11, $12, $13, $14)",
    )
    .bind(object.tenant.as_str())
    .bind(&object.blake3[..])
    .bind(to_sql(size_bytes))
    .bind(content.kind.number())
    .bind(content.set.id().0)
    .bind(&content.key_id.0[..])
    .bind(to_sql(content.count))
    .bind(content.degree_max)
    .bind(content.noise_level_max)
    .bind(is_key)
    .bind(now_micros)
    .bind(keep_until_micros)
    .bind(content.dimensions.map(u32::to_le_bytes).concat())
    .bind(object.generation)
    .execute()
    .await?;
    account(sql, &object.tenant, to_sql(size_bytes), is_key).await
}

/// Removes a blob's row, its pins and its completed upload.
pub(crate) async fn remove(
    sql: &mut Connection,
    tenant: &TenantId,
    digest: &Digest,
    is_key: bool,
) -> Result<(), Error> {
    for statement in
        ["DELETE FROM blobs WHERE tenant = $1 AND digest = $2", "DELETE FROM pins WHERE tenant = $1 AND digest = $2"]
    {
        sql.query(statement).bind(tenant.as_str()).bind(&digest.blake3[..]).execute().await?;
    }
    uploads::remove_finished(sql, &UploadId::of(tenant, digest)).await?;
    account(sql, tenant, -to_sql(digest.size_bytes), is_key).await
}

/// Marks a blob as used now, and keeps it from eviction until `keep_until_micros`.
pub(crate) async fn renew(
    sql: &mut Connection,
    tenant: &TenantId,
    digest: &Digest,
    now_micros: i64,
    keep_until_micros: i64,
) -> Result<(), Error> {
    sql.query("UPDATE blobs SET touched_micros = $3, keep_until_micros = $4 WHERE tenant = $1 AND digest = $2")
        .bind(tenant.as_str())
        .bind(&digest.blake3[..])
        .bind(now_micros)
        .bind(keep_until_micros)
        .execute()
        .await?;
    Ok(())
}

/// Gives a blob the object of a later commit. The blob is undamaged and used now, and kept from
/// eviction until `keep_until_micros`.
pub(crate) async fn replace(
    sql: &mut Connection,
    tenant: &TenantId,
    digest: &Digest,
    generation: i64,
    now_micros: i64,
    keep_until_micros: i64,
) -> Result<(), Error> {
    sql.query(
        "UPDATE blobs SET generation = $3, touched_micros = $4, keep_until_micros = $5, damaged = 0
         WHERE tenant = $1 AND digest = $2",
    )
    .bind(tenant.as_str())
    .bind(&digest.blake3[..])
    .bind(generation)
    .bind(now_micros)
    .bind(keep_until_micros)
    .execute()
    .await?;
    Ok(())
}

/// Number of digests in one statement. Statements for lists have a fixed length, so that they stay
/// prepared.
pub(crate) const LISTED: usize = 64;

static PRESENT: LazyLock<String> = LazyLock::new(|| {
    let digests = places(2);
    format!("SELECT digest, size_bytes FROM blobs WHERE tenant = $1 AND damaged = 0 AND digest IN ({digests})")
});

static KEEP: LazyLock<String> = LazyLock::new(|| {
    let digests = places(4);
    format!(
        "UPDATE blobs SET touched_micros = $2, keep_until_micros = $3
         WHERE tenant = $1 AND damaged = 0 AND digest IN ({digests})"
    )
});

/// Names of the values of a list, counted from `first` on.
fn places(first: usize) -> String {
    let places: Vec<String> = (first..first + LISTED).map(|place| format!("${place}")).collect();
    places.join(", ")
}

/// The values of a list. A short list is repeated until all places have a value.
fn listed(digests: &[Digest]) -> impl Iterator<Item = [u8; 32]> {
    digests.iter().cycle().take(LISTED).map(|digest| digest.blake3)
}

/// The undamaged blobs among `digests`, which are at most [`LISTED`].
pub(crate) async fn present(sql: &mut Connection, tenant: &TenantId, digests: &[Digest]) -> Result<Vec<Digest>, Error> {
    let query = sql.query(PRESENT.as_str()).bind(tenant.as_str());
    let rows = listed(digests).fold(query, |query, hash| query.bind(hash)).all().await?;
    let found = rows.iter().map(digest).collect::<Result<Vec<_>, _>>()?;
    // A digest of another size names another blob.
    Ok(found.into_iter().filter(|found| digests.contains(found)).collect())
}

/// Adds to a batch that undamaged blobs are used now, and kept from eviction until
/// `keep_until_micros`.
pub(crate) fn keep(batch: &mut Batch, tenant: &TenantId, digests: &[Digest], now_micros: i64, keep_until_micros: i64) {
    for digests in digests.chunks(LISTED) {
        let values = batch.push(KEEP.as_str()).bind(tenant.as_str()).bind(now_micros).bind(keep_until_micros);
        listed(digests).fold(values, |values, hash| values.bind(hash));
    }
}

/// Marks a blob as used now.
pub(crate) async fn touch(
    sql: &mut Connection,
    tenant: &TenantId,
    digest: &Digest,
    now_micros: i64,
) -> Result<(), Error> {
    sql.query("UPDATE blobs SET touched_micros = $3 WHERE tenant = $1 AND digest = $2")
        .bind(tenant.as_str())
        .bind(&digest.blake3[..])
        .bind(now_micros)
        .execute()
        .await?;
    Ok(())
}

/// Marks the blob of an object as damaged, unless the blob has another object by now.
pub(crate) async fn condemn(sql: &mut Connection, object: &Object) -> Result<(), Error> {
    sql.query("UPDATE blobs SET damaged = 1 WHERE tenant = $1 AND digest = $2 AND generation = $3")
        .bind(object.tenant.as_str())
        .bind(&object.blake3[..])
        .bind(object.generation)
        .execute()
        .await?;
    Ok(())
}

/// Number of bytes of all kinds that the tenant stores.
pub(crate) async fn tenant_bytes(sql: &mut Connection, tenant: &TenantId) -> Result<u64, Error> {
    let row = sql.query("SELECT blob_bytes FROM usage WHERE tenant = $1").bind(tenant.as_str()).optional().await?;
    row.map_or(Ok(0), |row| Ok(from_sql(row.int("blob_bytes")?)))
}

/// Number of bytes of all ciphertexts of the shard, pinned or not. Cheap: reads one row for each
/// tenant.
pub(crate) async fn ciphertext_bytes(sql: &mut Connection, shard: i32) -> Result<u64, Error> {
    let sum = sql.query(concat!(
        "SELECT CAST(COALESCE(SUM(ciphertext_bytes), 0) AS BIGINT) AS bytes FROM usage WHERE ",
        of_shard!("usage.tenant", "$1")
    ));
    let row = sum.bind(shard).one().await?;
    Ok(from_sql(row.int("bytes")?))
}

/// Bytes of the shard's unpinned ciphertexts, by tenant. The table of usage has the bytes of all
/// ciphertexts of a tenant. The bytes of the pinned ciphertexts are subtracted from this sum, so
/// that the queries visit pinned ciphertexts only.
pub(crate) async fn unpinned_bytes(
    sql: &mut Connection,
    shard: i32,
    now_micros: i64,
) -> Result<BTreeMap<TenantId, u64>, Error> {
    let all = sql
        .query(concat!(
            "SELECT tenant, ciphertext_bytes AS bytes FROM usage WHERE ciphertext_bytes > 0 AND ",
            of_shard!("usage.tenant", "$1")
        ))
        .bind(shard)
        .all()
        .await?;
    let pinned = sql
        .query(concat!(
            "SELECT blobs.tenant AS tenant, CAST(SUM(size_bytes) AS BIGINT) AS bytes FROM (
            SELECT DISTINCT tenant, digest FROM pins WHERE (until_micros IS NULL OR until_micros > $1) AND ",
            of_shard!("pins.tenant", "$2"),
            ") AS pinned JOIN blobs ON blobs.tenant = pinned.tenant AND blobs.digest = pinned.digest
            WHERE is_key = 0 GROUP BY blobs.tenant"
        ))
        .bind(now_micros)
        .bind(shard)
        .all()
        .await?;
    let mut unpinned = BTreeMap::new();
    for row in &all {
        unpinned.insert(TenantId::new(row.text("tenant")?)?, from_sql(row.int("bytes")?));
    }
    for row in &pinned {
        let bytes = from_sql(row.int("bytes")?);
        unpinned.entry(TenantId::new(row.text("tenant")?)?).and_modify(|all| *all = all.saturating_sub(bytes));
    }
    unpinned.retain(|_, bytes| *bytes > 0);
    Ok(unpinned)
}

/// At most `most` of the tenant's unpinned ciphertexts with the generations of their objects, least
/// recently used first. `kept` selects those that are still kept from eviction; otherwise all
/// others are returned.
pub(crate) async fn evictable(
    sql: &mut Connection,
    tenant: &TenantId,
    now_micros: i64,
    kept: bool,
    most: u32,
) -> Result<Vec<(Digest, i64)>, Error> {
    let rows = sql
        .query(
            "SELECT digest, size_bytes, generation FROM blobs WHERE tenant = $1 AND is_key = 0 AND (keep_until_micros > $2) = $3
         AND NOT EXISTS (SELECT 1 FROM pins WHERE pins.tenant = blobs.tenant AND pins.digest = blobs.digest
            AND (pins.until_micros IS NULL OR pins.until_micros > $2))
         ORDER BY touched_micros LIMIT $4",
        )
        .bind(tenant.as_str())
        .bind(now_micros)
        .bind(kept)
        .bind(most)
        .all()
        .await?;
    rows.iter().map(|row| Ok((digest(row)?, row.int("generation")?))).collect()
}

/// Adds `bytes`, which may be negative, to the tenant's sums.
async fn account(sql: &mut Connection, tenant: &TenantId, bytes: i64, is_key: bool) -> Result<(), Error> {
    sql.query(
        "INSERT INTO usage (tenant, blob_bytes, ciphertext_bytes) VALUES ($1, $2, $3)
         ON CONFLICT (tenant) DO UPDATE SET blob_bytes = usage.blob_bytes + $2,
            ciphertext_bytes = usage.ciphertext_bytes + $3",
    )
    .bind(tenant.as_str())
    .bind(bytes)
    .bind(if is_key { 0 } else { bytes })
    .execute()
    .await?;
    Ok(())
}

fn read(row: &Row) -> Result<BlobRow, Error> {
    let (kind, set) = (row.small("kind")?, row.small("set_id")?);
    Ok(BlobRow {
        digest: digest(row)?,
        generation: row.int("generation")?,
        content: Content {
            kind: ObjectKind::from_number(kind).ok_or_else(|| damaged("kind", kind.into()))?,
            set: AnySet::find(SetId(set)).ok_or_else(|| damaged("set_id", set.into()))?,
            key_id: KeyId(row.array("key_id")?),
            dimensions: dimensions(row)?,
            count: from_sql(row.int("count")?),
            degree_max: row.small("degree_max")?,
            noise_level_max: row.small("noise_level_max")?,
        },
        damaged: row.flag("damaged")?,
        created_micros: row.int("created_micros")?,
        touched_micros: row.int("touched_micros")?,
    })
}

/// Reads the dimensions. Rows of earlier schema versions have none, and read as zeros.
fn dimensions(row: &Row) -> Result<Dimensions, Error> {
    let bytes = row.bytes_or_null("dimensions")?.unwrap_or(&[0; size_of::<Dimensions>()]);
    let (words, rest) = bytes.as_chunks();
    let words: Result<Dimensions, _> = words.iter().copied().map(u32::from_le_bytes).collect::<Vec<_>>().try_into();
    words.ok().filter(|_| rest.is_empty()).ok_or_else(|| damaged("length of dimensions", bytes.len() as i64))
}

fn digest(row: &Row) -> Result<Digest, Error> {
    Ok(Digest { blake3: row.array("digest")?, size_bytes: from_sql(row.int("size_bytes")?) })
}

fn damaged(column: &str, value: i64) -> Error {
    Error::failed(format!("the catalogue has {value} as {column}, which this version does not know"))
}
