//! The usage of tenants: of the database now, and of everything by day. Triggers maintain the sums
//! (`migrations/sqlite/0003_usage.sql`, `0006_one_database.sql`, `0013_operators.sql`).

use std::ops::RangeInclusive;

use cloakwork_keystore::of_shard;
use cloakwork_storage::{Asker, Error, Row, Rows};

use super::Store;

/// The usage of a tenant in a day (UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DayUsage {
    /// The tenant.
    pub tenant: String,
    /// Days since 1970.
    pub day: i64,
    /// Jobs that ended in the day.
    pub jobs: u64,
    /// Those of the jobs that did not succeed.
    pub unsuccessful_jobs: u64,
    /// Bootstraps of the jobs.
    pub bootstraps: u64,
    /// Time of devices that the jobs used.
    pub device_nanos: u64,
    /// Bytes that clients uploaded.
    pub received_bytes: u64,
    /// Stored KiB times seconds.
    pub stored_kib_seconds: u64,
    /// Keys times seconds.
    pub key_seconds: u64,
}

impl DayUsage {
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            tenant: row.text("tenant")?.to_owned(),
            day: row.int("day")?,
            jobs: row.unsigned("jobs")?,
            unsuccessful_jobs: row.unsigned("unsuccessful_jobs")?,
            bootstraps: row.unsigned("bootstraps")?,
            device_nanos: row.unsigned("device_nanos")?,
            received_bytes: row.unsigned("received_bytes")?,
            stored_kib_seconds: row.unsigned("stored_kib_seconds")?,
            key_seconds: row.unsigned("key_seconds")?,
        })
    }
}

impl Store {
    /// Bytes of a tenant's programs, and of its jobs' inputs and outputs in the database.
    pub async fn inline_bytes(&self, tenant: &str) -> Result<u64, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT inline_bytes FROM tenant_usage WHERE tenant = $1");
        let row = query.bind(tenant).optional().await?;
        row.map_or(Ok(0), |row| Ok(row.int("inline_bytes")?.max(0).unsigned_abs()))
    }

    /// Tenants of the shard with more than `most` ended jobs in the store, each with the number of
    /// jobs beyond `most`.
    pub async fn too_many_ended(&self, most: u64) -> Result<Vec<(String, u64)>, Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let query = reader.query(concat!(
            "SELECT tenant, ended_jobs - $1 AS beyond FROM tenant_usage WHERE ended_jobs > $1 AND ",
            of_shard!("tenant_usage.tenant", "$2")
        ));
        let rows = query.bind(most).bind(self.database.shard()).all().await?;
        rows.iter().map(|row| Ok((row.text("tenant")?.to_owned(), row.unsigned("beyond")?))).collect()
    }

    /// The usage of one tenant or of all in these days, at most `count` rows, by day and tenant.
    pub async fn days(
        &self,
        tenant: Option<&str>,
        days: RangeInclusive<i64>,
        count: u32,
    ) -> Result<Vec<DayUsage>, Error> {
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let query = reader.query(DAYS).bind(tenant).bind(*days.start()).bind(*days.end()).bind(count);
        query.all().await?.iter().map(DayUsage::of).collect()
    }

    /// Bootstraps of a tenant's jobs that ended in a day, if a worker had them, and of its jobs
    /// that have not ended.
    pub async fn bootstraps_of_day(&self, tenant: &str, day: i64) -> Result<u64, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let row = reader.query(BOOTSTRAPS_OF_DAY).bind(tenant).bind(day).one().await?;
        row.unsigned("bootstraps")
    }

    /// Adds what the tenants of the shard have stored for `seconds` to their usage of a day.
    pub async fn add_stored(&self, day: i64, seconds: u32) -> Result<(), Error> {
        let mut write = self.database.write(Asker::Upkeep, Rows::All).await?;
        write.query(ADD_STORED).bind(day).bind(i64::from(seconds)).bind(self.database.shard()).execute().await?;
        write.commit().await
    }

    /// Deletes the usage of days before `day`, at most `count` rows of each table. Returns their
    /// number.
    pub async fn forget_days(&self, day: i64, count: u32) -> Result<u64, Error> {
        let mut write = self.database.write(Asker::Upkeep, Rows::All).await?;
        let mut deleted = 0;
        for sql in [
            "DELETE FROM usage_days WHERE (tenant, day) IN (SELECT tenant, day FROM usage_days WHERE day < $1 LIMIT $2)",
            "DELETE FROM received_days WHERE (tenant, day) IN \
             (SELECT tenant, day FROM received_days WHERE day < $1 LIMIT $2)",
        ] {
            deleted += write.query(sql).bind(day).bind(count).execute().await?;
        }
        write.commit().await?;
        Ok(deleted)
    }

    /// Deletes a tenant's oldest ended jobs, at most `count`, and returns their number. Jobs whose
    /// outputs are still kept stay.
    pub async fn forget_oldest(&self, tenant: &str, count: u32) -> Result<u64, Error> {
        let mut transaction = self.database.write(Asker::Upkeep, Rows::Tenant(tenant)).await?;
        let deleted = transaction.query(FORGET_OLDEST).bind(tenant).bind(count).execute().await?;
        transaction.commit().await?;
        Ok(deleted)
    }
}

/// Sums of PostgreSQL have a type of their own, which the casts turn back.
const DAYS: &str = "SELECT tenant, day, CAST(SUM(jobs) AS BIGINT) AS jobs, \
     CAST(SUM(unsuccessful_jobs) AS BIGINT) AS unsuccessful_jobs, CAST(SUM(bootstraps) AS BIGINT) AS bootstraps, \
     CAST(SUM(device_nanos) AS BIGINT) AS device_nanos, CAST(SUM(received_bytes) AS BIGINT) AS received_bytes, \
     CAST(SUM(stored_kib_seconds) AS BIGINT) AS stored_kib_seconds, CAST(SUM(key_seconds) AS BIGINT) AS key_seconds \
     FROM (SELECT tenant, day, jobs, unsuccessful_jobs, bootstraps, device_nanos, 0 AS received_bytes, \
         stored_kib_seconds, key_seconds FROM usage_days \
         WHERE (CAST($1 AS TEXT) IS NULL OR tenant = $1) AND day >= $2 AND day <= $3 \
     UNION ALL SELECT tenant, day, 0, 0, 0, 0, bytes, 0, 0 FROM received_days \
         WHERE (CAST($1 AS TEXT) IS NULL OR tenant = $1) AND day >= $2 AND day <= $3) AS parts \
     GROUP BY tenant, day ORDER BY day, tenant LIMIT $4";

const BOOTSTRAPS_OF_DAY: &str = "SELECT CAST(COALESCE((SELECT quota_bootstraps FROM usage_days WHERE tenant = $1 AND day = $2), 0) \
     + COALESCE((SELECT SUM(pbs_count) FROM jobs WHERE tenant = $1 AND ended_micros IS NULL), 0) AS BIGINT) AS bootstraps";

/// Rounds each tenant's bytes to whole KiB.
const ADD_STORED: &str = concat!(
    "INSERT INTO usage_days (tenant, day, stored_kib_seconds, key_seconds) \
     SELECT tenant, $1, (blob_bytes + 512) / 1024 * $2, \
         (SELECT COUNT(*) FROM keys WHERE keys.tenant = usage.tenant) * $2 \
     FROM usage WHERE blob_bytes > 0 AND ",
    of_shard!("usage.tenant", "$3"),
    " ON CONFLICT (tenant, day) DO UPDATE SET \
     stored_kib_seconds = usage_days.stored_kib_seconds + excluded.stored_kib_seconds, \
     key_seconds = usage_days.key_seconds + excluded.key_seconds"
);

/// The condition on `has_outputs` selects an index over the jobs that may go. A search for rows in
/// `job_outputs` would visit every job whose outputs are kept, while all other writers wait.
pub(super) const FORGET_OLDEST: &str = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE tenant = $1 AND \
     ended_micros IS NOT NULL AND has_outputs = 0 ORDER BY id LIMIT $2)";
