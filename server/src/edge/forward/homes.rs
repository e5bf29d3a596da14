//! The servers that handle calls, by the shard of the caller.

use std::{collections::HashSet, sync::Arc, time::Instant};

use tonic::service::Routes;

use crate::{
    auth::Principal,
    shards::{MOVE_NEWS, Moved, Shards},
    tenant::Tenant,
};

/// The servers of all shards, as this server knows them.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    shards: Shards,
    /// URL at which other servers reach this one.
    own_url: Arc<str>,
    /// The shard that this server owns, and the services for it.
    here: Option<(i32, Routes)>,
    /// Tenants whose calls wait, because they are about to move to another shard.
    held: HashSet<Tenant>,
    /// Tenants that moved away from here, and when that was.
    departed: Vec<(Tenant, Moved, Instant)>,
}

/// The server that handles a call.
#[derive(Clone, Debug)]
pub(super) enum Home {
    /// No server owns the shard, as far as is known.
    Nowhere,
    /// The server with this URL owns the shard.
    At(Arc<str>),
    /// This server owns the shard.
    Here(Routes),
}

impl Homes {
    /// The homes of a server without a shard, which others reach at this URL.
    pub fn of_url(own_url: &str) -> Self {
        Self { own_url: own_url.into(), ..Self::default() }
    }

    /// These homes, of a server that has come to own a shard.
    pub fn with(self, shard: i32, services: Routes) -> Self {
        Self { here: Some((shard, services)), ..self }
    }

    /// Takes note of the owners of shards. Returns whether another server owns one, and whether the
    /// owners are others than before.
    pub fn update(&mut self, mut shards: Shards) -> (bool, bool) {
        // The look may be older than a move from here.
        self.departed.retain(|(_, _, since)| since.elapsed() < MOVE_NEWS);
        self.departed.iter().for_each(|(tenant, moved, _)| shards.note(tenant.as_str(), *moved));
        let has_changed = self.shards != shards;
        self.shards = shards;
        let has_other = self.shards.numbers().any(|shard| matches!(self.at(shard), Home::At(_)));
        (has_other, has_changed)
    }

    /// Lets the calls of a tenant wait here.
    pub fn hold(&mut self, tenant: &Tenant) {
        self.held.insert(tenant.clone());
    }

    /// Lets the calls of a tenant go on, to its new shard if it has moved.
    pub fn let_go(&mut self, tenant: &Tenant, moved: Option<Moved>) {
        self.held.remove(tenant);
        if let Some(moved) = moved {
            self.shards.note(tenant.as_str(), moved);
            self.departed.push((tenant.clone(), moved, Instant::now()));
        }
    }

    /// Whether this server owns a shard.
    pub fn has_shard(&self) -> bool {
        self.here.is_some()
    }

    /// The shard of a caller.
    pub(super) fn shard_of(&self, caller: &Principal) -> i32 {
        self.shards.of(caller.tenant.as_str(), caller.shard)
    }

    /// The server for the calls of a caller.
    pub(super) fn of(&self, caller: &Principal) -> Home {
        match self.at(self.shard_of(caller)) {
            Home::Here(_) if self.held.contains(&caller.tenant) => Home::Nowhere,
            home => home,
        }
    }

    /// The server for the calls of a worker of this shard, and the shard. A worker without a shard
    /// goes to this server. If this server has no shard, the worker goes to any that has one.
    pub(super) fn of_worker(&self, shard: Option<i32>) -> (i32, Home) {
        let own = self.here.as_ref().map(|(shard, _)| *shard);
        let owned = || self.shards.numbers().find(|shard| self.shards.owner(*shard).is_some());
        let shard = shard.or(own).or_else(owned).unwrap_or(0);
        (shard, self.at(shard))
    }

    fn at(&self, shard: i32) -> Home {
        match (&self.here, self.shards.owner(shard)) {
            (Some((own, services)), _) if *own == shard => Home::Here(services.clone()),
            // This server owned the shard before it failed, and does not call itself.
            (_, Some(url)) if *url != self.own_url => Home::At(url.clone()),
            _ => Home::Nowhere,
        }
    }
}

impl Home {
    /// Whether both are the same server.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nowhere, Self::Nowhere) | (Self::Here(_), Self::Here(_)) => true,
            (Self::At(one), Self::At(other)) => one == other,
            _ => false,
        }
    }
}
